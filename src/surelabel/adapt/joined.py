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
    class could never be named. Of equally bad ones the first goes, in an order that does not
    depend on how the centroids come. Returns that share at the start and after each removal.
    """
    order = np.lexsort((*joined.centroids.T[::-1], joined.labels))
    of, kept = joined.labels[order], joined.kept[order].copy()
    distances = np.concatenate(list(squared_distances(latents, joined.centroids[order])))
    n_right, without = _right(distances, of, kept, labels)
    scores = [n_right / max(1, len(labels))]
    while len(without) and without.max() > n_right:
        kept[without.argmax()] = False
        n_right, without = _right(distances, of, kept, labels)
        scores.append(n_right / len(labels))
    excluded = joined.kept.copy()
    excluded[order] = kept
    return replace(joined, kept=excluded), scores


def _right(
    distances: FloatArray, of: IntArray, kept: BoolArray, labels: IntArray
) -> tuple[int, IntArray]:
    """How many are right, and (M,) how many would be without each centroid; -1 if it must stay.

    Without a centroid only the images that it is nearest to change: to the second nearest.
    """
    if not len(labels):
        return 0, np.empty(0, dtype=np.int64)
    shown = np.where(kept, distances, np.inf)
    rows, first = np.arange(len(labels)), shown.argmin(axis=1)
    right = of[first] == labels
    shown[rows, first] = np.inf
    gain = (of[shown.argmin(axis=1)] == labels).astype(np.int64) - right
    gains = np.bincount(first, gain, minlength=len(of)).astype(np.int64)
    company = np.bincount(of[kept], minlength=int(of.max()) + 1)[of] > 1
    n_right = int(right.sum())
    return n_right, np.where(kept & company, n_right + gains, -1)
