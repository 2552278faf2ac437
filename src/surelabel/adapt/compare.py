"""Whether one classifier beats another on the same images: exact, from where they disagree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, binom

from surelabel.types import BoolArray


@dataclass(frozen=True)
class Comparison:
    """Two classifiers on n images."""

    n: int
    n_right: int
    """Right by the first."""
    n_other_right: int
    n_only: int
    """Right by the first alone."""
    n_only_other: int
    share: tuple[float, float]
    """Exact 95 % interval (Clopper-Pearson) of how often the first is the right one, where one
    of them is right and the other wrong; (0, 1) where that never happened.
    """
    p_value: float
    """Exact two-sided McNemar test."""

    @property
    def is_better(self) -> bool:
        """The whole interval is above one half."""
        return self.share[0] > 0.5

    @property
    def difference(self) -> tuple[float, float, float]:
        """Gain in the share of right ones; then its interval, given how often they disagree."""
        n_apart = self.n_only + self.n_only_other
        if not self.n:
            return 0.0, 0.0, 0.0
        low, high = ((2 * p - 1) * n_apart / self.n for p in self.share)
        return (self.n_only - self.n_only_other) / self.n, low, high


def compare(right: BoolArray, other_right: BoolArray, confidence: float = 0.95) -> Comparison:
    """Paired: (N,) whether each was right about each image."""
    only = int((right & ~other_right).sum())
    only_other = int((~right & other_right).sum())
    return Comparison(
        len(right),
        int(right.sum()),
        int(other_right.sum()),
        only,
        only_other,
        clopper_pearson(only, only + only_other, confidence),
        mcnemar(only, only_other),
    )


def clopper_pearson(n_hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """The exact interval of a share, two-sided; (0, 1) of nothing."""
    tail = (1 - confidence) / 2
    low = float(beta.ppf(tail, n_hits, n - n_hits + 1)) if n_hits else 0.0
    high = float(beta.ppf(1 - tail, n_hits + 1, n - n_hits)) if n_hits < n else 1.0
    return low, high


def mcnemar(n_only: int, n_only_other: int) -> float:
    """How often chance alone would part the disagreements at least so unevenly."""
    n = n_only + n_only_other
    if not n:
        return 1.0
    return float(np.minimum(1.0, 2 * binom.cdf(min(n_only, n_only_other), n, 0.5)))
