"""How far apart two datasets lie in the latents of one net: a number and a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surelabel.adaptation.clustering import cluster, squared_distances
from surelabel.types import UNLABELED, BoolArray, FloatArray, derive_seed

_NEAR, _FAR = 0.6, 0.9
_LEAST = 50
"""Old images that the net has not learned from; with fewer, a random half stands in for them."""
_MOST = 10_000
"""Old images that are clustered for the gap."""


@dataclass(frozen=True)
class Gap:
    """Distances of two datasets from the clusters of the first."""

    farther: float
    """Share of pairs in which the new image is farther from every cluster than the old one:
    .5 for no difference, 1 for datasets that are wholly apart.
    """
    ratio: float
    """Median distance of new images over that of old ones."""

    @property
    def sentence(self) -> str:
        """In plain words."""
        of_100 = round(100 * self.farther)
        fact = (
            f"a new image lies farther from the clusters of the old ones than an old image does in "
            f"{of_100} of 100 pairs (50: no difference)"
        )
        if self.farther < _NEAR:
            return f"The datasets lie close together: {fact}."
        if self.farther < _FAR:
            return f"The datasets differ: {fact}."
        return f"The datasets lie far apart: {fact}. Expect little from adaptation alone."


def gap(old: FloatArray, unseen: BoolArray, new: FloatArray, k: int, seed: int) -> Gap:
    """Latents (N2, D), (N1, D) under one net; ``unseen`` (N2,): not learned from.

    The old images that are compared are not among those that were clustered: each cluster lies
    closer to its own than to others of the same kind.
    """
    rng = np.random.default_rng(derive_seed(seed, "gap"))
    if unseen.sum() < _LEAST or (~unseen).sum() < k:
        unseen = rng.permutation(len(old)) < len(old) // 2
    rows = rng.permutation(np.flatnonzero(~unseen))[:_MOST]
    nobody = np.full(len(rows), UNLABELED)
    return distances_apart(old[unseen], new, cluster(old[rows], nobody, k, seed).centroids)


def distances_apart(old: FloatArray, new: FloatArray, centroids: FloatArray) -> Gap:
    """Latents (N2, D), (N1, D) under one net, and centroids (M, D) of other old ones."""
    near_old, near_new = _nearest(old, centroids), _nearest(new, centroids)
    order = np.sort(near_old)
    below = np.searchsorted(order, near_new, side="left")
    upto = np.searchsorted(order, near_new, side="right")
    farther = float(np.mean((below + upto) / 2) / max(1, len(order)))
    usual = max(float(np.median(near_old)), 1e-12)
    return Gap(farther, float(np.median(near_new)) / usual)


def _nearest(latents: FloatArray, centroids: FloatArray) -> FloatArray:
    parts = [part.min(axis=1) for part in squared_distances(latents, centroids)]
    found: FloatArray = np.sqrt(np.concatenate(parts))
    return found
