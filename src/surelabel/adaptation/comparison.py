"""Whether adaptation beats a simpler classifier on the same images, exactly; and one to beat.

The simpler classifiers are net 2 without adaptation, and the nearest centroid of the new labels
alone, which is made here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from surelabel.adaptation.clustering import CentroidSet, cluster
from surelabel.types import UNLABELED, BoolArray, FloatArray, IntArray, derive_seed


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


def labels_alone(
    fit: tuple[FloatArray, IntArray],
    decide: tuple[FloatArray, IntArray],
    ks: Sequence[int],
    seed: int,
) -> CentroidSet:
    """The best nearest-centroid classifier from labeled images alone, without the old dataset.

    ``fit`` and ``decide`` are latents (N, D) with labels (N,). Class means, and k clusters for each
    k, are made from the first and compared on the second, as adaptation chooses its own k. The
    best is made again from both; of equal ones, that with the fewest centroids.
    """
    counts = [0, *sorted(k for k in set(ks) if k <= len(fit[1]))]
    n_right = [_count_right(_centroids_of(fit, k, seed), decide) for k in counts]
    both = np.concatenate([fit[0], decide[0]]), np.concatenate([fit[1], decide[1]])
    return _centroids_of(both, counts[n_right.index(max(n_right))], seed)


def class_means(latents: FloatArray, labels: IntArray) -> CentroidSet:
    """The mean of each class's labeled latents as a set of centroids."""
    known = np.unique(labels[labels != UNLABELED])
    centroids = np.stack([latents[labels == k].mean(axis=0) for k in known])
    return _centroid_set(centroids, known.astype(np.int64))


def _centroids_of(labeled: tuple[FloatArray, IntArray], k: int, seed: int) -> CentroidSet:
    """K clusters with their majority classes; 0 stands for the class means."""
    if not k:
        return class_means(*labeled)
    clusters = cluster(*labeled, k, derive_seed(seed, "labels alone", k))
    return _centroid_set(clusters.centroids, clusters.labels)


def _count_right(centroid_set: CentroidSet, labeled: tuple[FloatArray, IntArray]) -> int:
    latents, labels = labeled
    n_classes = int(max(centroid_set.labels.max(), labels.max(initial=0))) + 1
    return int((centroid_set.predict(latents, n_classes) == labels).sum())


def _centroid_set(centroids: FloatArray, labels: IntArray) -> CentroidSet:
    all_of_them = np.ones(len(labels), dtype=bool)
    return CentroidSet(centroids, labels, is_adapted=all_of_them, kept=all_of_them)
