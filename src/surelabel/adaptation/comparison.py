"""Whether one classifier beats another on the same images, exactly."""

from __future__ import annotations

from dataclasses import dataclass

from scipy.stats import binomtest

from surelabel.types import BoolArray

CHOSEN = "chosen by evidence"
"""The name of the way or mixture that the labels choose, beside the single ways."""


@dataclass(frozen=True)
class Comparison:
    """Two classifiers on the same n images. Only images that one of them gets right count."""

    n: int
    n_right: int
    """Right by the first classifier."""
    n_other_right: int
    n_only: int
    """Right by the first classifier alone."""
    n_only_other: int
    share: tuple[float, float]
    """Exact 95 % interval (Clopper-Pearson) of the first classifier's share of the images on which
    exactly one is right; (0, 1) if there are none.
    """
    p_value: float
    """Exact two-sided McNemar test."""

    @property
    def is_better(self) -> bool:
        """Whether the whole interval is above one half."""
        return self.share[0] > 0.5

    @property
    def difference(self) -> tuple[float, float, float]:
        """Gain in accuracy, and the ends of its interval given how often only one is right."""
        if not self.n:
            return 0.0, 0.0, 0.0
        n_apart = self.n_only + self.n_only_other
        low, high = ((2 * p - 1) * n_apart / self.n for p in self.share)
        return (self.n_only - self.n_only_other) / self.n, low, high


def compare(right: BoolArray, other_right: BoolArray, confidence: float = 0.95) -> Comparison:
    """Compare two classifiers: (N,) whether each was right about each image."""
    n_only = int((right & ~other_right).sum())
    n_only_other = int((~right & other_right).sum())
    share, p_value = (0.0, 1.0), 1.0
    if n_only + n_only_other:
        test = binomtest(n_only, n_only + n_only_other, 0.5)
        interval = test.proportion_ci(confidence, method="exact")
        share, p_value = (float(interval.low), float(interval.high)), float(test.pvalue)
    return Comparison(
        len(right), int(right.sum()), int(other_right.sum()), n_only, n_only_other, share, p_value
    )
