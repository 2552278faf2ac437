"""The six steps for several k, and the choice among them by labels kept for that.

Paper: § Latent Variable Adaptive Clustering. The paper chooses k and the removals on the images
that it reports on; here neither ``Facets`` nor anything that reads it has those labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surelabel.accept import fit_temperature, temper
from surelabel.adapt.clusters import BIG, cluster
from surelabel.adapt.joined import Joined, adapted_centroids, join, prune
from surelabel.types import FloatArray, IntArray, derive_seed

_TIMES = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)


@dataclass(frozen=True)
class Facets:
    """Both datasets, as the two nets see them."""

    old: FloatArray
    """(N2, D2) latents of dataset 2 under net 2."""
    old_labels: IntArray
    """(N2,) -1 for none."""
    new_own: FloatArray
    """(N1, D1) latents of dataset 1 under net 1."""
    new: FloatArray
    """(N1, D2) latents of the same images under net 2."""
    new_labels: IntArray
    """(N1,) labels that name clusters, -1 for none."""
    decide: IntArray
    """(L,) rows of dataset 1 whose labels choose k and the removals."""
    decide_labels: IntArray
    """(L,)."""
    n_classes: int


@dataclass(frozen=True)
class Adaptation:
    """The joined set that was chosen, how to read its distances, and how it was chosen."""

    joined: Joined
    k: int
    n_classes: int
    unit: float
    """The squared distance that counts as one."""
    temperature: float
    scores: tuple[float, ...]
    """Share of decision labels right: with all of A, and after each removal."""
    by_k: dict[int, float]
    """The last of ``scores`` for each k that was tried."""

    def guess(self, latents: FloatArray) -> IntArray:
        """(N, D) latents under net 2 -> (N,) classes."""
        return self.joined.guess(latents, self.n_classes)

    def probabilities(self, latents: FloatArray) -> FloatArray:
        """(N, D) -> (N, K), calibrated on the decision labels."""
        distances = self.joined.distances(latents, self.n_classes)
        return temper(softmin(distances, self.unit), self.temperature)

    def distance(self, latents: FloatArray) -> FloatArray:
        """(N,) from the nearest kept centroid."""
        found: FloatArray = np.sqrt(self.joined.distances(latents, self.n_classes).min(axis=1))
        return found


def default_ks(n_classes: int, n_images: int) -> list[int]:
    """Numbers of clusters to try, one to eight a class, at most a quarter of the images."""
    most = max(n_classes, n_images // 4)
    return sorted({min(most, round(times * n_classes)) for times in _TIMES})


def adapt(facets: Facets, ks: Sequence[int], seed: int, *, big: int = BIG) -> Adaptation:
    """Steps 1 to 6 for each k; the best on the decision labels, of equals the smallest k."""
    found = [(_one(facets, k, seed, big), k) for k in sorted(set(ks))]
    by_k = {k: scores[-1] for (_, scores), k in found}
    (joined, scores), k = max(found, key=lambda each: (each[0][1][-1], -each[1]))
    at = facets.new[facets.decide]
    distances = joined.distances(at, facets.n_classes)
    unit = max(float(distances.min(axis=1).mean()), 1e-12) if len(at) else 1.0
    temperature = fit_temperature(softmin(distances, unit), facets.decide_labels)
    return Adaptation(joined, k, facets.n_classes, unit, temperature, tuple(scores), by_k)


def _one(facets: Facets, k: int, seed: int, big: int) -> tuple[Joined, list[float]]:
    old = cluster(facets.old, facets.old_labels, k, derive_seed(seed, "adapt", k), big=big)
    own = cluster(facets.new_own, facets.new_labels, k, derive_seed(seed, "adapt", k), big=big)
    adapted = adapted_centroids(own, facets.new_own, facets.new, k)
    return prune(join(old, adapted, own.labels), facets.new[facets.decide], facets.decide_labels)


def softmin(distances: FloatArray, unit: float) -> FloatArray:
    """Squared distances (N, K) -> (N, K) that sum to 1: exp(-d / unit), 0 for an infinite one."""
    nearest = distances.min(axis=1, keepdims=True)
    powers = np.exp(-(distances - nearest) / unit)
    shares: FloatArray = powers / powers.sum(axis=1, keepdims=True)
    return shares
