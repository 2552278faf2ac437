"""How right labels are, in the paper's terms: 1 - metric, macro averages, lower is better."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from surelabel.studies.mnist_rows import PAPER_POOL, Figures
from surelabel.types import FloatArray, IntArray

PAPER_BEST = ((17_828, 0.0011), (4092, 0.0035), (762, 0.0079), (0, math.nan))
"""Images left, and the lowest 1 - kappa of the paper's rows there; it labelled all nowhere."""


def one_minus_kappa(truth: IntArray, label: IntArray) -> float:
    """1 - Cohen's kappa; nan without labels, 0 where all are right."""
    from sklearn.metrics import cohen_kappa_score

    if not len(truth):
        return math.nan
    if (truth == label).all():
        return 0.0
    return float(1 - cohen_kappa_score(truth, label))


def figures_of(truth: IntArray, label: IntArray, *, left: int, rounds: int) -> Figures:
    """The columns of the paper's table for labels (N,) against their truth (N,)."""
    from sklearn.metrics import precision_recall_fscore_support

    if not len(truth):
        return Figures(math.nan, math.nan, math.nan, left, math.nan, rounds)
    averages = precision_recall_fscore_support(truth, label, average="macro", zero_division=0)
    precision, recall, f1 = (1 - float(value) for value in averages[:3])
    return Figures(precision, recall, f1, left, one_minus_kappa(truth, label), rounds)


def kappa_curve(
    truth: IntArray, guess: IntArray, score: FloatArray, left: Sequence[int]
) -> list[float]:
    """1 - kappa when the surest are labelled and so many are ``left``; for each such number."""
    order = np.argsort(score, kind="stable")
    kept = (order[: len(order) - n] for n in left)
    return [one_minus_kappa(truth[rows], guess[rows]) for rows in kept]


def points_for(n_pool: int) -> list[int]:
    """The paper's numbers of images left, in proportion to a pool of ``n_pool``."""
    return [round(left * n_pool / PAPER_POOL) for left, _ in PAPER_BEST]
