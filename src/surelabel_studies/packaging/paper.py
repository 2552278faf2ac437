"""The paper's figures on food packaging: its tables, and how many images it had."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from surelabel_studies.use_by_dates.sets import COUNTS, Like

OK = "OK"
NOT_OK = "NOT-OK"

TOTALS: Mapping[Like, int] = {like: sum(counts.values()) for like, counts in COUNTS.items()}
"""Photographs of each set: the sums of the paper's table."""
LABELED = 500
"""Labels of set 4 that self-training starts with."""
HELD_OUT = 1500
"""Labels of set 4 that are neither trained on nor in the pool of 11,948; here they set tau."""


@dataclass(frozen=True)
class ClassFigures:
    """Precision, recall and F1 of the labels of one class."""

    precision: float
    recall: float
    f1: float
    n: int
    """Images of the class among those that were labeled."""


def weighted_average(classes: Mapping[str, ClassFigures]) -> ClassFigures:
    """The paper's last row: averages weighted by images, over the classes that have any."""
    nonempty = [figures for figures in classes.values() if figures.n]
    n = sum(figures.n for figures in nonempty)

    def average(column: str) -> float:
        return sum(getattr(f, column) * f.n for f in nonempty) / n if n else math.nan

    return ClassFigures(average("precision"), average("recall"), average("f1"), n)


@dataclass(frozen=True)
class PaperRun:
    """A run of self-training on set 4 as the paper printed it."""

    kappa: float
    classes: Mapping[str, ClassFigures]

    @property
    def n(self) -> int:
        """Number of labeled images."""
        return sum(figures.n for figures in self.classes.values())


RUNS: Mapping[str, PaperRun] = {
    "baseline": PaperRun(
        0.6964,
        {
            NOT_OK: ClassFigures(0.9158, 0.7682, 0.8355, 453),
            OK: ClassFigures(0.7989, 0.9287, 0.8589, 449),
        },
    ),
    "tau": PaperRun(
        0.8383,
        {
            NOT_OK: ClassFigures(0.9679, 0.8538, 0.9073, 212),
            OK: ClassFigures(0.889, 0.9764, 0.9306, 254),
        },
    ),
    "penalty": PaperRun(
        0.8891,
        {
            NOT_OK: ClassFigures(0.9532, 0.9694, 0.9612, 294),
            OK: ClassFigures(0.9427, 0.9136, 0.9279, 162),
        },
    ),
}
"""For the fourth run, top, the paper shows only a confusion matrix."""
