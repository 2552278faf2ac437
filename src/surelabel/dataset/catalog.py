"""The catalog: one row for each readable image, by stable id, with its label and split."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.dataset.decode import Decoding
from surelabel.dataset.items import Skipped, string_array
from surelabel.dataset.splits import connected_components
from surelabel.errors import RunDamagedError
from surelabel.files.atomic import atomic_path, atomic_write_bytes
from surelabel.files.spreadsheet import csv_bytes
from surelabel.types import UNLABELED, Ids, IntArray, LabelSource, Split

_TEXT_COLUMNS = ("ids", "paths", "sources", "splits", "groups", "digests", "files")
_FORMAT = 1


@dataclass(frozen=True)
class CertifyDraw:
    """Certify images that were drawn together, and what they were drawn from."""

    certify: tuple[str, ...]
    first: int
    end: int
    """They were drawn from the pool images in the rows ``first`` to ``end``."""
    pool: str
    """Digest of the ids of those images."""
    looks: tuple[tuple[str, ...], ...] = ()
    """Of a sample that grows: all images drawn at each look, of which people label some, the surest
    first. Empty if they were asked to label all."""
    subject: str = ""
    """With looks: digest of the scores and targets that decide who is asked about what."""

    @property
    def drawn(self) -> tuple[str, ...]:
        """All images that were drawn."""
        return tuple(i for look in self.looks for i in look) if self.looks else self.certify


@dataclass(frozen=True, eq=False)
class Catalog:
    """All readable images with labels, splits and the keys of their pixels.

    Arrays have one entry for each of N images, in the same order. Nothing outside may rely on
    that order: items travel by id.
    """

    ids: Ids
    """(N,) stable ids, a hash of ``paths``."""
    paths: Ids
    """(N,) path relative to the dataset root with '/', or the key of an array's row."""
    labels: IntArray
    """(N,) index into ``classes``; -1 for no label, -2 for none of these."""
    sources: Ids
    """(N,) a ``LabelSource``: given, copied or empty."""
    splits: Ids
    """(N,) a ``Split``. Copied labels are in ``pool`` but not among ``in_split(POOL)``."""
    groups: Ids
    """(N,) lot, camera or burst, which no split divides; empty for none."""
    digests: Ids
    """(N,) content key into the ``PixelStore``; equal for images with the same bytes."""
    files: Ids
    """(N,) absolute path of the image file; empty for rows of an array."""
    classes: tuple[str, ...]
    size: int
    channels: int
    cross_fit: bool
    """There are too few labels for a tune split: out-of-fold predictions take its place."""
    skipped: tuple[Skipped, ...] = ()
    resize: str = ""
    """How the images were resized to ``size``; see ``decode``."""
    undivided: tuple[str, ...] = ()
    """With ``cross_fit``: ids that may be held out once there are more labels. The others may not,
    because their split was given or they are no random sample."""
    sizes: tuple[int, ...] = (0,)
    """The number of images after each addition."""
    first_upto: int = 0
    """Answers up to this number are in the catalog as first labels."""
    draws: tuple[CertifyDraw, ...] = ()
    """What the certify images were drawn from; see ``sampling``."""
    votes: tuple[tuple[str, str, str], ...] = ()
    """(id, annotator, label) of labels that came with the name of a person."""

    def __post_init__(self) -> None:
        lengths = {len(getattr(self, name)) for name in (*_TEXT_COLUMNS, "labels")}
        if len(lengths) != 1:
            raise ValueError(f"a catalog has columns of different lengths: {sorted(lengths)}")
        if len(np.unique(self.ids)) != len(self.ids):
            raise ValueError("a catalog has the same id twice")

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _order(self) -> IntArray:
        return np.argsort(self.ids).astype(np.int64)

    def rows(self, ids: Ids) -> IntArray:
        """(M,) positions of ``ids`` in the arrays; ``ValueError`` names ids that are unknown."""
        wanted = np.asarray(ids, dtype=np.str_)
        if not len(wanted):
            return np.empty(0, dtype=np.int64)
        if not len(self):
            raise ValueError(f"the catalog is empty and has no item {wanted[0]}")
        at = np.searchsorted(self.ids, wanted, sorter=self._order)
        rows: IntArray = self._order[np.minimum(at, len(self) - 1)]
        unknown = np.flatnonzero(self.ids[rows] != wanted)
        if len(unknown):
            few = ", ".join(wanted[unknown[:3]])
            raise ValueError(f"{len(unknown)} ids are not in the catalog, the first: {few}")
        return rows

    def in_split(self, split: Split) -> Ids:
        """Ids of a split. The pool has no copied labels: it is what is left to label."""
        chosen = self.splits == split
        if split is Split.POOL:
            chosen &= self.sources == LabelSource.NONE
        chosen_ids: Ids = self.ids[chosen]
        return chosen_ids

    @property
    def decoding(self) -> Decoding:
        """How the images were decoded."""
        return Decoding(self.size, self.channels, self.resize)

    @property
    def copied(self) -> Ids:
        """Ids of images whose label is copied from an identical, human-labeled image."""
        copied: Ids = self.ids[self.sources == LabelSource.COPIED]
        return copied

    def labels_of(self, ids: Ids) -> IntArray:
        """(M,) labels of ``ids``."""
        return self.labels[self.rows(ids)]

    def units(self, ids: Ids) -> IntArray:
        """(M,) a number for each of ``ids``, equal for images of one group or of equal bytes.

        Folds that divide no unit do not leak, just as the splits do not.
        """
        rows = self.rows(ids)
        return connected_components(self.groups[rows], self.digests[rows])

    @cached_property
    def training_digest(self) -> str:
        """``digest`` as if the certify images had no labels: nothing is learned from those."""
        hidden = self.splits == Split.CERTIFY
        return dataclasses.replace(
            self,
            labels=np.where(hidden, UNLABELED, self.labels),
            sources=np.where(hidden, "", self.sources),
            splits=np.where(hidden, str(Split.POOL), self.splits),
        ).digest

    @cached_property
    def digest(self) -> str:
        """SHA-256 of images, labels and splits; the order of the rows does not matter."""
        total = hashlib.sha256()
        facts: list[object] = [list(self.classes), self.size, self.channels, self.cross_fit]
        facts += [self.resize] if self.resize else []
        total.update(json.dumps(facts).encode())
        for name in ("ids", "sources", "splits", "groups", "digests"):
            column = getattr(self, name)[self._order].tolist()
            total.update(json.dumps(column).encode())
        total.update(self.labels[self._order].astype("<i8").tobytes())
        return total.hexdigest()

    def to_parquet(self, path: Path) -> None:
        """Write everything but ``skipped`` to ``path``, atomically."""
        with atomic_path(path) as scratch:
            self.write_parquet(scratch)

    def write_parquet(self, path: Path) -> None:
        """What ``to_parquet`` writes, into a file that the caller puts in its place."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        columns = {
            name: pa.array(getattr(self, name).tolist(), pa.string()) for name in _TEXT_COLUMNS
        }
        columns["labels"] = pa.array(self.labels, pa.int64())
        facts = {
            "format": _FORMAT,
            "classes": list(self.classes),
            "size": self.size,
            "channels": self.channels,
            "cross_fit": self.cross_fit,
            "resize": self.resize,
            "undivided": list(self.undivided),
            "first_upto": self.first_upto,
            "sizes": list(self.sizes),
            "votes": self.votes,
            "draws": [dataclasses.asdict(draw) for draw in self.draws],
        }
        table = pa.table(columns).replace_schema_metadata({"surelabel": json.dumps(facts)})
        pq.write_table(table, path)

    @classmethod
    def from_parquet(cls, path: Path) -> Catalog:
        """Read what ``to_parquet`` wrote; ``skipped`` comes back empty."""
        columns, labels, facts = _read_parquet(path)
        try:
            return cls._from_parts(columns, labels, facts)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise _not_a_catalog(path, error) from None

    @classmethod
    def _from_parts(
        cls, columns: dict[str, Ids], labels: IntArray, facts: dict[str, Any]
    ) -> Catalog:
        return cls(
            ids=columns["ids"],
            paths=columns["paths"],
            labels=labels,
            sources=columns["sources"],
            splits=columns["splits"],
            groups=columns["groups"],
            digests=columns["digests"],
            files=columns["files"],
            classes=tuple(facts["classes"]),
            size=facts["size"],
            channels=facts["channels"],
            cross_fit=facts["cross_fit"],
            resize=facts.get("resize", ""),
            undivided=tuple(facts.get("undivided", ())),
            first_upto=facts.get("first_upto", 0),
            sizes=tuple(facts.get("sizes", (0, len(labels)))),
            draws=tuple(_read_draw(draw) for draw in facts.get("draws", ())),
            votes=tuple((i, who, label) for i, who, label in facts.get("votes", ())),
        )

    def write_skipped_csv(self, path: Path) -> None:
        """Write ``path,reason`` of every file that was left out; only the header if none was."""
        rows = ((item.path, item.reason) for item in self.skipped)
        atomic_write_bytes(path, csv_bytes(("path", "reason"), rows))


def _read_draw(facts: dict[str, Any]) -> CertifyDraw:
    looks = tuple(tuple(look) for look in facts.get("looks", ()))
    return CertifyDraw(**{**facts, "certify": tuple(facts["certify"]), "looks": looks})


def _read_parquet(path: Path) -> tuple[dict[str, Ids], IntArray, dict[str, Any]]:
    """Text columns, labels and facts of a catalog file, or a ``RunDamagedError``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read()
        facts = json.loads(table.schema.metadata[b"surelabel"])
        columns = {name: string_array(table.column(name).to_pylist()) for name in _TEXT_COLUMNS}
        labels = np.array(table.column("labels").to_pylist(), dtype=np.int64)
        version = facts.get("format")
    except FileNotFoundError:
        raise RunDamagedError(f"{path}: the catalog is missing.") from None
    except (OSError, pa.ArrowException, AttributeError, KeyError, TypeError, ValueError) as error:
        raise _not_a_catalog(path, error) from None
    if version != _FORMAT:
        raise RunDamagedError(
            f"{path} has format {version}, and this version of surelabel reads {_FORMAT}: open "
            "the run with the version that made it."
        )
    return columns, labels, facts


def _not_a_catalog(path: Path, error: Exception) -> RunDamagedError:
    return RunDamagedError(
        f"{path} is not a catalog that surelabel wrote: {error}. Put back a copy of the file, or "
        "label the images again."
    )
