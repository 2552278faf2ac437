"""Latent Variable Adaptive Clustering: the six steps, for several k, on arrays of latents.

Paper: § Latent Variable Adaptive Clustering.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from surelabel.selection.calibration import fit_temperature, temper
from surelabel.types import UNLABELED, BoolArray, FloatArray, IntArray, derive_seed

BIG = 5_000_000
"""Numbers in the latents above which k-means works on batches of them: measured by the benchmark
``adapt_latents``, as where all of ``adapt`` costs as much as with batches for 100,000 x 2,048.
"""
_STARTS = 4
_BATCH = 2048
_STEPS = 50
"""Batches that k-means sees at most, or all latents once; the means are then over all of them."""
_CHUNK = 4096


@dataclass(frozen=True)
class Clusters:
    """M clusters of N latents."""

    centroids: FloatArray
    """(M, D) the mean of the members."""
    labels: IntArray
    """(M,) the most frequent class of the labeled members; -1 without any."""
    members: IntArray
    """(N,) the cluster of each latent."""

    @property
    def sizes(self) -> IntArray:
        """(M,) how many latents each cluster has."""
        return np.bincount(self.members, minlength=len(self.labels)).astype(np.int64)


def cluster(
    latents: FloatArray, labels: IntArray, k: int, seed: int, *, big: int = BIG
) -> Clusters:
    """k-means++ on latents (N, D); ``labels`` (N,) are -1 where nobody has said anything.

    Centroids are the means of their members, whatever k-means ended with. Fewer than k clusters
    come back where some would be empty.
    """
    centers = _centers(latents, min(k, len(latents)), seed, big)
    members = nearest(latents, centers)
    used, members = np.unique(members, return_inverse=True)
    members = members.astype(np.int64)
    centroids = means(latents, members, len(used))
    return Clusters(centroids, majority(labels, members, len(used)), members)


def _centers(latents: FloatArray, k: int, seed: int, big: int) -> FloatArray:
    import warnings

    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    state = seed % 2**32
    if latents.size > big:
        method = MiniBatchKMeans(
            k,
            batch_size=_BATCH,
            init_size=max(_BATCH, 3 * k),
            max_iter=max(1, _STEPS * _BATCH // len(latents)),
            n_init=1,
            compute_labels=False,
            random_state=state,
        )
    else:
        method = KMeans(k, n_init=_STARTS, random_state=state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct latents than k
        centers: FloatArray = method.fit(latents).cluster_centers_
    return centers


def squared_distances(latents: FloatArray, centroids: FloatArray) -> Iterator[FloatArray]:
    """(N, D) and (M, D) -> chunks of (n, M), in the order of the latents."""
    middle = centroids.mean(axis=0)
    shifted = centroids - middle
    own = (shifted**2).sum(axis=1)
    for start in range(0, len(latents), _CHUNK):
        chunk = latents[start : start + _CHUNK] - middle
        squares = chunk @ (-2 * shifted.T)
        squares += np.einsum("nd,nd->n", chunk, chunk)[:, None]
        squares += own
        yield np.maximum(squares, 0.0, out=squares)


def nearest(latents: FloatArray, centroids: FloatArray) -> IntArray:
    """(N,) the nearest centroid of each latent."""
    parts = [part.argmin(axis=1) for part in squared_distances(latents, centroids)]
    return np.concatenate([np.empty(0, dtype=np.int64), *parts])


def means(latents: FloatArray, members: IntArray, n: int) -> FloatArray:
    """(n, D) the mean latent of each cluster."""
    totals = np.zeros((n, latents.shape[1]))
    for start in range(0, len(latents), _CHUNK):
        chunk, at = latents[start : start + _CHUNK], members[start : start + _CHUNK]
        for number in np.unique(at):
            totals[number] += chunk[at == number].sum(axis=0, dtype=np.float64)
    counts = np.bincount(members, minlength=n)
    centroids: FloatArray = (totals / counts[:, None]).astype(latents.dtype)
    return centroids


def majority(labels: IntArray, members: IntArray, n: int) -> IntArray:
    """(n,) the most frequent class among the labeled members; the lower number of a tie."""
    counts = np.zeros((n, max(0, int(labels.max(initial=-1))) + 1), dtype=np.int64)
    known = labels != UNLABELED
    np.add.at(counts, (members[known], labels[known]), 1)
    most: IntArray = counts.argmax(axis=1).astype(np.int64)
    return np.where(counts.any(axis=1), most, UNLABELED)


def nearest_images(latents: FloatArray, centroids: FloatArray, n: int) -> list[IntArray]:
    """For each centroid the rows of its n nearest latents, the nearest first."""
    n = min(n, len(latents))
    best = np.full((len(centroids), 0), np.inf)
    rows = np.empty((len(centroids), 0), dtype=np.int64)
    start = 0
    for part in squared_distances(latents, centroids):
        candidates = np.hstack([best, part.T])
        numbers = np.hstack(
            [rows, np.broadcast_to(np.arange(start, start + len(part)), part.T.shape)]
        )
        order = np.argsort(candidates, axis=1, kind="stable")[:, :n]
        best = np.take_along_axis(candidates, order, axis=1)
        rows = np.take_along_axis(numbers, order, axis=1)
        start += len(part)
    return list(rows)


@dataclass(frozen=True)
class Joined:
    """Labeled centroids, some of them excluded."""

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
    """A = C with Z. A cluster in which nothing is labeled cannot name a class: left out."""
    centroids = np.concatenate([clusters.centroids, adapted])
    labels = np.concatenate([clusters.labels, adapted_labels])
    is_adapted = np.arange(len(labels)) >= len(clusters.labels)
    known = labels != UNLABELED
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
