"""The paper's experiments 1, 2, 2.1 and 3 as tables of images, and the split of set 4."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from surelabel.dataset.items import normalize_key
from surelabel.types import derive_seed
from surelabel_studies.packaging.paper import HELD_OUT, LABELED, NOT_OK, OK, TOTALS
from surelabel_studies.packaging.sets import Made, make
from surelabel_studies.use_by_dates.sets import Category, Like

_TEST_SHARE = 0.2
_TUNE_SHARE = 0.1
_MIN_LABELS = 20
_MIN_TRAIN_PER_CLASS = 2
_COMPLETE = (Category.COMPLETE,)
_PARTIAL = (Category.DAY_MISSING, Category.MONTH_MISSING)
_MISSING = (*_PARTIAL, Category.NO_DATE)


@dataclass(frozen=True)
class Kind:
    """A class of an experiment: which photographs, how many, and how missing ones are made."""

    name: str
    paper_n: int
    categories: Sequence[Category]
    made: Made | None = None
    """How images are made if there are too few: copies of the class's own photographs, or made
    from complete dates that the experiment does not use."""
    column: str = ""
    value: int = 0
    """Only photographs with this value in ``column`` (day or month), if a column is named."""


@dataclass(frozen=True)
class Experiment:
    """An experiment on one set, with the accuracy that the paper printed."""

    name: str
    like: Like
    about: str
    kinds: tuple[Kind, ...]
    paper_accuracy: float

    @property
    def key(self) -> str:
        """For file names."""
        return f"experiment-{self.name}-{self.like}"


def _two(ok: int, not_ok: int, other: Sequence[Category], made: Made | None = None) -> list[Kind]:
    return [Kind(OK, ok, _COMPLETE), Kind(NOT_OK, not_ok, other, made)]


def _any_date(ok: int, not_ok: int, made: Made | None = None) -> list[Kind]:
    dated = (Category.COMPLETE, *_PARTIAL)
    return [Kind(OK, ok, dated), Kind(NOT_OK, not_ok, (Category.NO_DATE,), made)]


def _values(column: str, counts: dict[int, int]) -> list[Kind]:
    return [Kind(f"{column} {v}", n, _COMPLETE, None, column, v) for v, n in counts.items()]


_UNREADABLE = _two(645, 645, (Category.UNREADABLE,), Made.COPY)
EXPERIMENTS = tuple(
    Experiment(name, like, about, tuple(kinds), accuracy)
    for name, like, about, kinds, accuracy in (
        ("1", Like.SET1, "readable", _UNREADABLE, 0.901),
        ("2", Like.SET1, "complete", _two(645, 444, _MISSING), 0.893),
        ("2", Like.SET2, "complete", _two(2847, 2847, _MISSING), 0.968),
        ("2", Like.SET3, "complete", _two(577, 577, _PARTIAL, Made.PARTIAL), 0.858),
        ("2.1", Like.SET1, "any date", _any_date(714, 375), 0.948),
        ("2.1", Like.SET2, "any date", _any_date(2954, 2954), 0.962),
        ("2.1", Like.SET3, "any date", _any_date(199, 199, Made.BLANK), 0.881),
        ("3", Like.SET2, "month", _values("month", {9: 381, 10: 381, 11: 381}), 0.927),
        ("3", Like.SET3, "day", _values("day", {5: 55, 8: 67, 16: 63, 20: 61}), 0.90),
    )
)
"""The paper's text names October and November, but its table has three classes; September is the
third most frequent month of the synthetic set."""


def experiment_table(
    experiment: Experiment, photos: pd.DataFrame, made: Path, seed: int
) -> pd.DataFrame | None:
    """Columns ``file``, ``truth`` and ``split`` (train, tune, test); None if a class is too small.

    The photographs are split before images are made from them, so no test image is made from a
    photograph of another part.
    """
    share = len(photos) / TOTALS[experiment.like]
    rng = np.random.default_rng(derive_seed(seed, experiment.key))
    parts, used = [], pd.Series(data=False, index=photos.index)
    for kind in experiment.kinds:
        own = photos[_mask(photos, kind) & ~used]
        chosen = own.iloc[rng.permutation(len(own))[: _wanted(kind, share)]]
        used |= photos.index.isin(chosen.index)
        parts.append(_divided(chosen, kind, rng))
    for number, kind in enumerate(experiment.kinds):
        lacking = _wanted(kind, share) - len(parts[number])
        if kind.made is not None and lacking > 0:
            pool = parts[number]
            if kind.made is not Made.COPY:
                free = photos[_mask(photos, Kind("", 0, _COMPLETE)) & ~used]
                free = free[(free["day_box"] != "") & (free["month_box"] != "")]
                pool = _divided(free.iloc[rng.permutation(len(free))[:lacking]], kind, rng)
            parts.append(_filled(pool, kind.made, lacking, made))
    if min(len(part) for part in parts[: len(experiment.kinds)]) < len(experiment.kinds):
        counts = pd.concat(parts)["truth"].value_counts()
        if len(counts) < len(experiment.kinds) or counts.min() < _MIN_LABELS // 2:
            return None
    return pd.concat(parts, ignore_index=True)[["file", "truth", "split"]]


def _wanted(kind: Kind, share: float) -> int:
    return max(1, round(kind.paper_n * share))


def _mask(photos: pd.DataFrame, kind: Kind) -> pd.Series:
    chosen = photos["category"].isin(list(map(str, kind.categories)))
    return chosen & (photos[kind.column] == kind.value) if kind.column else chosen


def _divided(rows: pd.DataFrame, kind: Kind, rng: np.random.Generator) -> pd.DataFrame:
    """``rows`` with ``truth`` and ``split``: a fifth test, a tenth tune, the rest train."""
    n = len(rows)
    n_test, n_tune = round(n * _TEST_SHARE), round(n * _TUNE_SHARE)
    split = np.repeat(["test", "tune", "train"], [n_test, n_tune, n - n_test - n_tune])
    return rows.assign(truth=kind.name, split=rng.permutation(split))


def _filled(rows: pd.DataFrame, how: Made, lacking: int, folder: Path) -> pd.DataFrame:
    """Up to ``lacking`` images made from ``rows``, each in the same part as its source.

    Their folders are named by a digest of the source, because photographs of the same name can
    differ. Files that cannot be read are passed over.
    """
    lines = []
    for number in range(lacking if len(rows) else 0):
        row = rows.iloc[number % len(rows)]
        source = Path(row["file"])
        turn = number // len(rows) if how is Made.COPY else number
        boxes = [row["day_box"], row["month_box"]]
        name = f"{how}-{turn if how is Made.COPY else turn % 2}-{source.stem}.jpg"
        try:
            file = make(how, source, boxes, turn, folder / _digest(source, boxes) / name)
        except OSError:
            continue
        lines.append({"file": str(file), "truth": row["truth"], "split": row["split"]})
    table = pd.DataFrame(lines, columns=["file", "truth", "split"])
    return table.drop_duplicates(ignore_index=True)


def _digest(source: Path, boxes: Sequence[str]) -> str:
    total = hashlib.blake2b(repr(boxes).encode(), digest_size=8)
    total.update(source.read_bytes())
    return total.hexdigest()


def set4_table(photos: pd.DataFrame, seed: int, without: str = "") -> pd.DataFrame | None:
    """Set 4 with ``truth`` and ``split``: 500 train, 1,500 tune, the rest test, in proportion.

    Photographs of the location ``without`` are test images or left out. None if there is nothing
    to test on, or a class has fewer than two photographs to train on.
    """
    share = len(photos) / TOTALS[Like.SET4]
    n_train = max(_MIN_LABELS, round(LABELED * share))
    n_tune = max(_MIN_LABELS, round(HELD_OUT * share))
    order = np.random.default_rng(derive_seed(seed, "set4")).permutation(len(photos))
    split = np.full(len(photos), "test", dtype=object)
    split[order[:n_train]] = "train"
    split[order[n_train : n_train + n_tune]] = "tune"
    readable = photos["category"] == str(Category.COMPLETE)
    table = photos.assign(truth=np.where(readable, OK, NOT_OK), split=split)
    if without:
        table = table[(table["split"] == "test") | (table["location"] != without)]
    trained = table.loc[table["split"] == "train", "truth"]
    fewest = min(int((trained == name).sum()) for name in (OK, NOT_OK))
    if fewest < _MIN_TRAIN_PER_CLASS or not (table["split"] == "test").any():
        return None
    return table.reset_index(drop=True)


def task_of(table: pd.DataFrame, folder: Path) -> tuple[str, pd.Series]:
    """The input of a run as CSV text (path, label, split), and the truth of its test images.

    Test images have neither label nor split. The truth is indexed by the path that the run uses.
    Paths are relative to ``folder``.
    """
    named = path_in_run(table, folder)
    test = table["split"] == "test"
    given = pd.DataFrame(
        {
            "path": named,
            "label": table["truth"].where(~test, ""),
            "split": table["split"].where(~test, ""),
        }
    )
    truth = pd.Series(table.loc[test, "truth"].to_numpy(), index=np.array(named)[test.to_numpy()])
    return given.to_csv(index=False), truth


def path_in_run(table: pd.DataFrame, folder: Path) -> list[str]:
    """The path that a run uses for each image of ``table``, if its input table is in ``folder``."""
    return [normalize_key(Path(os.path.relpath(f, folder)).as_posix()) for f in table["file"]]
