"""How far apart two datasets lie in the latents of one net: a number and a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surelabel.adaptation.clustering import cluster, squared_distances
from surelabel.types import UNLABELED, BoolArray, FloatArray, derive_seed

_NEAR, _FAR = 0.6, 0.9
_MIN_UNSEEN = 50
"""Old images that the net was not trained on; with fewer, a random half stands in for them."""
_MAX_CLUSTERED = 10_000


@dataclass(frozen=True)
class DomainGap:
    """Distances of the old and the new images from the clusters of the old dataset."""

    farther: float
    """Share of pairs (a new image, an old image) in which the new one is farther from every
    cluster: .5 for no difference, 1 for datasets that do not overlap.
    """
    ratio: float
    """Median distance of new images over that of old ones."""

    @property
    def sentence(self) -> str:
        """The gap as a sentence for users."""
        fact = (
            "a new image is farther from the clusters of the old images than an old image is in "
            f"{round(100 * self.farther)} of 100 pairs (50: no difference)"
        )
        if self.farther < _NEAR:
            return f"The datasets are close together: {fact}."
        if self.farther < _FAR:
            return f"The datasets differ: {fact}."
        return f"The datasets are far apart: {fact}. Expect little from adaptation alone."


def domain_gap(old: FloatArray, unseen: BoolArray, new: FloatArray, k: int, seed: int) -> DomainGap:
    """The gap between latents (N2, D) and (N1, D) under one net.

    ``unseen`` (N2,) marks old images that the net was not trained on. The old images in the pairs
    are not among those that are clustered, because a cluster is closer to its own members than to
    other images of the same kind.
    """
    rng = np.random.default_rng(derive_seed(seed, "gap"))
    if unseen.sum() < _MIN_UNSEEN or (~unseen).sum() < k:
        unseen = rng.permutation(len(old)) < len(old) // 2
    rows = rng.permutation(np.flatnonzero(~unseen))[:_MAX_CLUSTERED]
    no_labels = np.full(len(rows), UNLABELED)
    return gap_from(cluster(old[rows], no_labels, k, seed).centroids, old[unseen], new)


def gap_from(centroids: FloatArray, old: FloatArray, new: FloatArray) -> DomainGap:
    """The gap measured from centroids (M, D): latents (N2, D) of the old, (N1, D) of the new."""
    near_old, near_new = _nearest_distance(old, centroids), _nearest_distance(new, centroids)
    order = np.sort(near_old)
    below = np.searchsorted(order, near_new, side="left")
    upto = np.searchsorted(order, near_new, side="right")
    farther = float(np.mean((below + upto) / 2) / max(1, len(order)))
    usual = max(float(np.median(near_old)), 1e-12)
    return DomainGap(farther, float(np.median(near_new)) / usual)


def _nearest_distance(latents: FloatArray, centroids: FloatArray) -> FloatArray:
    squares = [chunk.min(axis=1) for chunk in squared_distances(latents, centroids)]
    distance: FloatArray = np.sqrt(np.concatenate(squares))
    return distance
