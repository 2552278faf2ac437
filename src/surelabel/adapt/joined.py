"""The joined set A: centroids of both datasets in the latents of one net, and what they say.

Paper: § Latent Variable Adaptive Clustering, steps 3 to 6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from surelabel.adapt.clusters import Clusters, nearest_images, squared_distances
from surelabel.types import UNLABELLED, BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Joined:
    """Labelled centroids, some of them excluded."""

    centroids: FloatArray
    """(M, D)."""
    labels: IntArray
    """(M,)."""
    is_adapted: BoolArray
    """(M,) of Z, the new dataset's; the others are of C."""
    kept: BoolArray
    """(M,) takes part in the classification."""

    def distances(self, latents: FloatArray, n_classes: int) -> FloatArray:
        """(N, D) -> (N, K) squared distance from the nearest kept centroid of each class."""
        used = np.flatnonzero(self.kept)
        parts = [np.empty((0, n_classes))]
        for part in squared_distances(latents, self.centroids[used]):
            by_class = np.full((len(part), n_classes), np.inf)
            for column, number in enumerate(used):
                label = self.labels[number]
                by_class[:, label] = np.minimum(by_class[:, label], part[:, column])
            parts.append(by_class)
        return np.concatenate(parts)

    def guess(self, latents: FloatArray, n_classes: int) -> IntArray:
        """(N,) the class of the nearest kept centroid."""
        found: IntArray = self.distances(latents, n_classes).argmin(axis=1).astype(np.int64)
        return found

    def owner(self, latents: FloatArray) -> IntArray:
        """(N,) the number of the nearest kept centroid."""
        used = np.flatnonzero(self.kept)
        parts = [part.argmin(axis=1) for part in squared_distances(latents, self.centroids[used])]
        owner: IntArray = used[np.concatenate([np.empty(0, dtype=np.int64), *parts])]
        return owner


def adapted_centroids(
    clusters: Clusters, under_own: FloatArray, under_other: FloatArray, n: int | None
) -> FloatArray:
    """Z: for each cluster the mean of the other net's latents of its n nearest images.

    ``under_own`` (N, D1) are the latents that were clustered, ``under_other`` (N, D2) those of
    the same images under the other net. None takes the whole cluster.
    """
    if n is None:
        chosen = [np.flatnonzero(clusters.members == i) for i in range(len(clusters.labels))]
    else:
        chosen = nearest_images(under_own, clusters.centroids, n)
    rows = [under_other[each].mean(axis=0, dtype=np.float64) for each in chosen]
    adapted: FloatArray = np.stack(rows).astype(under_other.dtype)
    return adapted


def join(clusters: Clusters, adapted: FloatArray, adapted_labels: IntArray) -> Joined:
    """A = C with Z. A cluster in which nothing is labelled cannot name a class: left out."""
    centroids = np.concatenate([clusters.centroids, adapted])
    labels = np.concatenate([clusters.labels, adapted_labels])
    is_adapted = np.arange(len(labels)) >= len(clusters.labels)
    known = labels != UNLABELLED
    return Joined(centroids[known], labels[known], is_adapted[known], np.ones(known.sum(), bool))


def prune(joined: Joined, latents: FloatArray, labels: IntArray) -> tuple[Joined, list[float]]:
    """Exclude the worst centroid, the one without which most labels are right, and again.

    ``latents`` (N, D) and ``labels`` (N,) decide; they are not to be reported on. Ends when the
    share of right ones does not rise any more. The last centroid of a class stays: without it the
    class could never be named. Returns that share at the start and after each removal.
    """
    distances = np.concatenate(list(squared_distances(latents, joined.centroids)))
    kept = joined.kept.copy()
    canonical = np.lexsort((*joined.centroids.T[::-1], joined.labels))
    scores = [_right(distances, joined.labels, kept, labels)]
    while True:
        free = [i for i in canonical if kept[i] and _has_company(joined.labels, kept, i)]
        without = [_right(distances, joined.labels, _minus(kept, i), labels) for i in free]
        if not without or max(without) <= scores[-1]:
            return replace(joined, kept=kept), scores
        scores.append(max(without))
        kept = _minus(kept, free[without.index(max(without))])


def _right(distances: FloatArray, of: IntArray, kept: BoolArray, labels: IntArray) -> float:
    guess = of[np.where(kept, distances, np.inf).argmin(axis=1)]
    return float(np.mean(guess == labels)) if len(labels) else 0.0


def _has_company(labels: IntArray, kept: BoolArray, number: int) -> bool:
    return int((kept & (labels == labels[number])).sum()) > 1


def _minus(kept: BoolArray, number: int) -> BoolArray:
    less = kept.copy()
    less[number] = False
    return less
