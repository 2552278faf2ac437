"""What labels of the new dataset are worth: accuracy and AURC of each way by number of labels.

Each number of labels is a part of the next larger one. Settings and mixture are chosen anew by the
labels that are shown; the images whose labels judge are never among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surelabel.adaptation.comparison import CHOSEN
from surelabel.adaptation.stacking import N_FOLDS, Choice, choose, cross_fit
from surelabel.adaptation.ways import TwoDatasets, Way
from surelabel.engines.cross_fitting import assign_folds
from surelabel.inference.selective_risk import aurc
from surelabel.types import FloatArray, IntArray, derive_seed

COUNTS = ("0", "1 per class", "5 per class", "100", "300", "600")
_PER_CLASS = "per class"


@dataclass(frozen=True)
class CurvePoint:
    """One way with one number of labels."""

    count: str
    """As in ``COUNTS``."""
    n_labels: int
    way: str
    accuracy: float
    aurc: float
    loss: float
    """Mean -ln p."""


@dataclass(frozen=True)
class LabeledImages:
    """Images of the new dataset with labels."""

    rows: IntArray
    """(n,)."""
    labels: IntArray
    """(n,)."""
    units: IntArray
    """(n,) images of one group have the same number, and are never divided between folds."""

    def part(self, at: IntArray) -> LabeledImages:
        """Those numbered ``at``."""
        return LabeledImages(self.rows[at], self.labels[at], self.units[at])


def label_curve(
    data: TwoDatasets, learn: LabeledImages, judge: LabeledImages, ways: Sequence[Way], seed: int
) -> list[CurvePoint]:
    """Every number of labels that is smaller than that of ``learn``."""
    rng = np.random.default_rng(derive_seed(seed, "label curve"))
    order = rng.permutation(len(learn.rows))
    points: list[CurvePoint] = []
    for count in COUNTS:
        shown = shown_at(order, learn.labels, data.n_classes, count)
        if len(shown) >= len(learn.rows):
            continue
        _, made = predictions(data, learn.part(shown), judge.rows, ways, seed)
        points += [curve_point(count, len(shown), *each, judge.labels) for each in made.items()]
    return points


def shown_at(order: IntArray, labels: IntArray, n_classes: int, count: str) -> IntArray:
    """The numbers of the labels (N,) that are shown, from a random ``order`` (N,).

    So many per class, or so many at random with one of each class.
    """
    by_class = [order[labels[order] == k] for k in range(n_classes)]
    if count.endswith(_PER_CLASS):
        per_class = int(count.split()[0])
        return np.sort(np.concatenate([each[:per_class] for each in by_class]))
    n = int(count)
    if not n:
        return np.empty(0, dtype=np.int64)
    first = np.concatenate([each[:1] for each in by_class])
    rest = order[~np.isin(order, first)]
    return np.sort(np.concatenate([first, rest[: max(0, n - len(first))]]))


def predictions(
    data: TwoDatasets, shown: LabeledImages, rows: IntArray, ways: Sequence[Way], seed: int
) -> tuple[Choice | None, dict[str, FloatArray]]:
    """Log-probabilities (M, K) of new images ``rows`` (M,) by each way and by the chosen one.

    Without labels only some ways say something, and nothing is chosen.
    """
    labels = shown.labels
    if not len(labels):
        able = [way for way in ways if not way.needs_labels]
        return None, {w.name: w.fit(data, shown.rows, labels, w.settings[0])(rows) for w in able}
    folds = assign_folds(labels, shown.units, N_FOLDS, seed)
    candidates = [cross_fit(way, lambda _: data, shown.rows, labels, folds) for way in ways]
    choice = choose(candidates, labels, folds)
    made = {candidate.name: candidate.predict(rows) for candidate in candidates}
    return choice, {**made, CHOSEN: choice.predict(rows)}


def curve_point(
    count: str, n_labels: int, way: str, logs: FloatArray, truth: IntArray
) -> CurvePoint:
    """Log-probabilities (M, K) beside the true classes (M,)."""
    wrong = logs.argmax(axis=1) != truth
    loss = float(-logs[np.arange(len(truth)), truth].mean())
    area = aurc(-logs.max(axis=1), wrong)
    return CurvePoint(count, n_labels, way, float(1 - wrong.mean()), area, loss)
