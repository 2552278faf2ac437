"""The files of one round, while it is being trained and once it is finished."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.errors import RunDamagedError
from surelabel.files.digests import file_digest, known_digest
from surelabel.files.documents import read_json, read_table, write_json, write_table
from surelabel.types import JsonObject

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

METRICS = "metrics.json"
POOL_TABLE = "scores.parquet"
"""One row per pool image: prediction, score, label and weight."""
HELD_OUT_TABLE = "tune.parquet"
"""The same for each held-out label, and whether the prediction is correct."""
CENTROIDS = "centroids.safetensors"
"""The centroids of both datasets, in a round that was made by adaptation."""
DIGESTS = "digests.json"
CHECKPOINTS = "checkpoints"
_WEIGHTS = re.compile(r"weights-(\d+)\.safetensors")


@dataclass(frozen=True)
class RoundFiles:
    """A finished round: its files are complete and never change again.

    What is read is compared with the digests of the round first, once per process and file.
    """

    path: Path
    number: int

    def read_json(self, name: str) -> object:
        """The value in the JSON file ``name``."""
        self.check(name)
        return read_json(self.path / name)

    def read_table(self, name: str) -> pd.DataFrame:
        """The table in the Parquet file ``name``."""
        self.check(name)
        return read_table(self.path / name)

    def read_arrays(self, name: str) -> dict[str, np.ndarray]:
        """The arrays in the safetensors file ``name``."""
        from safetensors.numpy import load

        self.check(name)
        return load((self.path / name).read_bytes())

    @property
    def metrics(self) -> JsonObject:
        """The figures of the round, from ``metrics.json``."""
        self.check(METRICS)
        metrics: JsonObject = read_json(self.path / METRICS)
        return metrics

    def weights(self) -> list[Path]:
        """The weight files of the ensemble, in the order of its members."""
        files = [(_WEIGHTS.fullmatch(path.name), path) for path in self.path.iterdir()]
        return [path for _, path in sorted((int(m[1]), path) for m, path in files if m)]

    def digests(self) -> dict[str, str]:
        """SHA-256 of each file when the round was finished, by file name."""
        digests = read_json(self.path / DIGESTS)
        if not isinstance(digests, dict):
            raise self._damaged(DIGESTS, "does not hold digests")
        return digests

    def verify(self) -> None:
        """Raise ``RunDamagedError`` unless every file is there and unchanged."""
        for name in self.digests():
            self.check(name)

    def check(self, name: str) -> None:
        """Raise ``RunDamagedError`` unless the file ``name`` is there and unchanged."""
        path = self.path / name
        digest = self.digests().get(name)
        if not path.is_file():
            raise self._damaged(name, "is missing")
        if known_digest(path) != digest:
            raise self._damaged(name, f"has changed since round {self.number} ended")

    def _damaged(self, name: str, what: str) -> RunDamagedError:
        return RunDamagedError(
            f"{self.path / name} {what}: put back a copy of it, or delete {self.path} and every "
            "later round and call surelabel resume, which trains them again."
        )


@dataclass(frozen=True)
class PartialRound(RoundFiles):
    """An unfinished round. Every write is atomic, so a file that is there is complete."""

    def check(self, name: str) -> None:
        """Nothing to compare with before the digests are written."""
        if (self.path / DIGESTS).exists():
            super().check(name)

    def write_json(self, name: str, value: object) -> None:
        """Write ``value`` as JSON; numpy scalars and arrays are allowed, NaN is not."""
        write_json(self.path / name, value)

    def write_table(self, name: str, table: pd.DataFrame) -> None:
        """Write ``table`` as Parquet, without its index."""
        write_table(self.path / name, table)

    def has(self, name: str) -> bool:
        """Whether the file ``name`` is already written, perhaps before a crash."""
        return (self.path / name).is_file()

    @property
    def checkpoints(self) -> Path:
        """The folder for files that are deleted when the round is finished."""
        folder = self.path / CHECKPOINTS
        folder.mkdir(exist_ok=True)
        return folder

    def write_digests(self) -> None:
        """Write the digest of each file that stays; this is the last file of the round."""
        stay = (p for p in self.path.iterdir() if p.is_file() and not p.name.startswith("."))
        names = sorted(p.name for p in stay if p.name != DIGESTS)
        self.write_json(DIGESTS, {name: file_digest(self.path / name) for name in names})
