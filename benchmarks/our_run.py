"""A run of surelabel on MNIST: made here or opened, and its rounds against the truth."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import surelabel
from digits import Digits, read_digits
from settings import Settings
from surelabel.runs.rounds import POOL_TABLE
from surelabel.types import FloatArray, IntArray


@dataclass(frozen=True)
class Scored:
    """The pool of one finished round: what was guessed, how sure, and what is true."""

    number: int
    score: FloatArray
    guess: IntArray
    truth: IntArray
    table: Any
    """The round's table, with a column for each measure."""


def config_of(settings: Settings, cache: Path, **changes: Any) -> surelabel.Config:
    """The defaults with seed and effort, and changes; at a tiny scale, a round of a few steps."""
    options: dict[str, Any] = {"steps": 10, "max_rounds": 1} if settings.tiny else {}
    if settings.steps:
        options["steps"] = settings.steps
    options |= {"seed": settings.seed, "effort": settings.effort, "cache": str(cache)}
    # As when the published figures were made. The trial of auto chooses the compact net, too.
    options |= {"accept": "tukey", "net": "compact"}
    return surelabel.Config.from_mapping(options | changes)


@contextlib.contextmanager
def made_run(settings: Settings, digits: Digits, **changes: Any) -> Iterator[surelabel.Run]:
    """Label ``digits``, options changed; the run is in ``settings.out``, or gone at the end."""
    with tempfile.TemporaryDirectory() as folder:
        config = config_of(settings, Path(folder) / "cache", **changes)
        out = settings.out or Path(folder) / "run"
        yield surelabel.label(digits.images, digits.label_table(), out, config=config)


@contextlib.contextmanager
def some_run(settings: Settings) -> Iterator[tuple[surelabel.Run, Digits]]:
    """The run that was named, or one made here; and its images."""
    digits = read_digits(settings, n_pool=settings.images)
    if settings.run is not None:
        yield surelabel.open_run(settings.run), digits
        return
    with made_run(settings, digits) as run:
        yield run, digits


def scored_rounds(run: surelabel.Run, digits: Digits) -> list[Scored]:
    """Every finished round. The number at the end of an image's path is its row in ``digits``."""
    folder = run.folder
    catalog = folder.catalog
    row = np.array([int(path.rsplit(":", 1)[-1]) for path in catalog.paths])
    given = catalog.labels >= 0
    names = np.array(catalog.classes, dtype=object)[catalog.labels[given]]
    known = np.concatenate([digits.train, digits.tune])
    truth = digits.truth
    same = len(row) == len(truth) and np.array_equal(np.sort(row[given]), np.sort(known))
    if not same or (names != truth[row[given]].astype(str)).any():
        sys.exit(
            f"{run.path} was not made from these images and labels. Name a run on MNIST's training "
            "file, and give the options --seed, --labels and --images that it was made with."
        )
    found = []
    for finished, metrics in zip(folder.finished_rounds(), run.rounds, strict=True):
        table = finished.read_table(POOL_TABLE)
        true = truth[row[catalog.rows(table["id"].to_numpy(dtype=np.str_))]]
        guess = np.array(metrics.classes).astype(np.int64)[table["guess"]]
        found.append(Scored(metrics.number, table["score"].to_numpy(), guess, true, table))
    return found
