"""Whether one classifier beats another on the same images, exactly; and what has to be beaten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta, binom

from surelabel.adaptation.clustering import Joined, cluster
from surelabel.types import UNLABELED, BoolArray, FloatArray, IntArray, derive_seed


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


def class_means(latents: FloatArray, labels: IntArray) -> Joined:
    """The mean of each class's labeled latents as a set of centroids."""
    known = np.unique(labels[labels != UNLABELED])
    centroids = np.stack([latents[labels == k].mean(axis=0) for k in known])
    return _set(centroids, known.astype(np.int64))


def labels_alone(
    fit: tuple[FloatArray, IntArray],
    decide: tuple[FloatArray, IntArray],
    ks: Sequence[int],
    seed: int,
) -> Joined:
    """Nearest centroids of labeled images, with as many of them as suits the labels.

    ``fit`` and ``decide`` are latents (N, D) with labels (N,). Class means and k clusters for each
    k are made of the first and judged by the second, as adaptation chooses its own k; the best is
    made anew of both. Of equals the fewest centroids.
    """
    counts = [0, *sorted(k for k in set(ks) if k <= len(fit[1]))]
    right = [_right(_of(fit, k, seed), decide) for k in counts]
    both = np.concatenate([fit[0], decide[0]]), np.concatenate([fit[1], decide[1]])
    return _of(both, counts[right.index(max(right))], seed)


def _of(labeled: tuple[FloatArray, IntArray], k: int, seed: int) -> Joined:
    """So many clusters, each with its most frequent class; 0: the class means."""
    if not k:
        return class_means(*labeled)
    found = cluster(*labeled, k, derive_seed(seed, "labels alone", k))
    return _set(found.centroids, found.labels)


def _right(made: Joined, decide: tuple[FloatArray, IntArray]) -> int:
    latents, labels = decide
    n_classes = int(max(made.labels.max(), labels.max(initial=0))) + 1
    return int((made.guess(latents, n_classes) == labels).sum())


def _set(centroids: FloatArray, labels: IntArray) -> Joined:
    yes = np.ones(len(labels), dtype=bool)
    return Joined(centroids, labels, yes, yes)
