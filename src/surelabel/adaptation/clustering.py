"""Latent Variable Adaptive Clustering on arrays of latents.

Dataset 2 is the old one, on which net 2 was trained; dataset 1 is the new one, on which net 1 was
trained. Latents are the inputs of a net's last layer. The six steps of the paper (section Latent
Variable Adaptive Clustering):

1. k-means++ on the latents of dataset 2 under net 2: clusters C, each with its majority class.
2. k-means++ on the latents of dataset 1 under net 1, and the k images nearest to each centroid.
3. The mean latent under net 2 of those k images: one adapted centroid in Z per cluster.
4. A is C and Z together. A cluster without any label is left out, because it has no class.
5. An image gets the class of its nearest centroid in A.
6. The centroid whose removal makes most labels right is removed, again and again, until no removal
   helps. The last centroid of a class stays.

``adapt`` does all of this for several k and keeps the best. k and the removals are chosen with
labels that are not used to report accuracy; the paper uses the same ones for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from surelabel.selection.calibration import fit_temperature, temper
from surelabel.types import UNLABELED, BoolArray, FloatArray, IntArray, derive_seed

MINIBATCH_ABOVE = 5_000_000
"""Numbers in the latents above which k-means works on mini-batches. The benchmark
``adapt_latents`` measured it: there all of ``adapt`` costs as much as mini-batches do for
100,000 x 2,048.
"""
_N_INIT = 4
_BATCH_SIZE = 2048
_MAX_BATCHES = 50
"""Mini-batches that k-means sees at most, or all latents once."""
_CHUNK = 4096
"""Latents whose distances are in memory at the same time."""
_CLUSTERS_PER_CLASS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)


@dataclass(frozen=True)
class DatasetLatents:
    """The latents of both datasets under the two nets, and the labels that may be used."""

    old: FloatArray
    """(N2, D2) dataset 2 under net 2."""
    old_labels: IntArray
    """(N2,) -1 for none."""
    new_net1: FloatArray
    """(N1, D1) dataset 1 under net 1."""
    new: FloatArray
    """(N1, D2) the same images under net 2."""
    new_labels: IntArray
    """(N1,) the fit labels, which give clusters their class; -1 for none."""
    decide_rows: IntArray
    """(L,) images of dataset 1 whose labels choose k and the removals."""
    decide_labels: IntArray
    """(L,)."""
    n_classes: int


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


@dataclass(frozen=True)
class CentroidSet:
    """The set A: centroids with classes, some of them removed; a nearest-centroid classifier."""

    centroids: FloatArray
    """(M, D) under net 2."""
    labels: IntArray
    """(M,)."""
    is_adapted: BoolArray
    """(M,) whether it comes from Z, the new dataset; the others come from C."""
    kept: BoolArray
    """(M,) False where it was removed in step 6."""

    def distances(self, latents: FloatArray, n_classes: int) -> FloatArray:
        """(N, D) -> (N, K) squared distance from the nearest kept centroid of each class."""
        used = np.flatnonzero(self.kept)
        chunks = [np.empty((0, n_classes))]
        for chunk in squared_distances(latents, self.centroids[used]):
            by_class = np.full((len(chunk), n_classes), np.inf)
            for column, number in enumerate(used):
                label = self.labels[number]
                by_class[:, label] = np.minimum(by_class[:, label], chunk[:, column])
            chunks.append(by_class)
        return np.concatenate(chunks)

    def predict(self, latents: FloatArray, n_classes: int) -> IntArray:
        """Step 5: (N, D) -> (N,) the class of the nearest kept centroid."""
        nearest: IntArray = self.distances(latents, n_classes).argmin(axis=1).astype(np.int64)
        return nearest

    def nearest(self, latents: FloatArray) -> IntArray:
        """(N, D) -> (N,) the number of the nearest kept centroid."""
        used = np.flatnonzero(self.kept)
        nearest: IntArray = used[nearest_centroid(latents, self.centroids[used])]
        return nearest


@dataclass(frozen=True)
class Adaptation:
    """The centroid set that was chosen, how its distances become probabilities, and the scores."""

    centroid_set: CentroidSet
    k: int
    n_classes: int
    distance_unit: float
    """The squared distance that counts as one."""
    temperature: float
    scores: tuple[float, ...]
    """Share of decide labels that are right: with all of A, and after each removal."""
    by_k: dict[int, float]
    """The last of ``scores`` for each k that was tried."""

    def predict(self, latents: FloatArray) -> IntArray:
        """(N, D) latents under net 2 -> (N,) classes."""
        return self.centroid_set.predict(latents, self.n_classes)

    def probabilities(self, latents: FloatArray) -> FloatArray:
        """(N, D) -> (N, K), calibrated on the decide labels."""
        distances = self.centroid_set.distances(latents, self.n_classes)
        return temper(softmin(distances, self.distance_unit), self.temperature)

    def distance(self, latents: FloatArray) -> FloatArray:
        """(N, D) -> (N,) distance from the nearest kept centroid."""
        squares = self.centroid_set.distances(latents, self.n_classes).min(axis=1)
        distance: FloatArray = np.sqrt(squares)
        return distance


def default_ks(n_classes: int, n_images: int) -> list[int]:
    """Numbers of clusters to try: one to eight per class, at most a quarter of the images."""
    most = max(n_classes, n_images // 4)
    return sorted({min(most, round(times * n_classes)) for times in _CLUSTERS_PER_CLASS})


@dataclass(frozen=True)
class Clustering:
    """Steps 1 to 3 for one k: they need no labels of new images."""

    k: int
    old: Clusters
    """The set C, with classes."""
    new: Clusters
    """Of dataset 1 under net 1; without classes."""
    adapted: FloatArray
    """(M, D2) the set Z: under net 2, one centroid for each cluster of ``new``."""


def adapt(
    latents: DatasetLatents, ks: Sequence[int], seed: int, *, minibatch_above: int = MINIBATCH_ABOVE
) -> Adaptation:
    """The six steps for each k; the best on the decide labels, the smallest k of equal ones."""
    clusterings = [cluster_both(latents, k, seed, minibatch_above) for k in sorted(set(ks))]
    named = np.flatnonzero(latents.new_labels != UNLABELED)
    return name_and_remove(
        clusterings,
        (named, latents.new_labels[named]),
        (latents.decide_rows, latents.decide_labels),
        latents.new,
        latents.n_classes,
    )


def cluster_both(
    latents: DatasetLatents, k: int, seed: int, minibatch_above: int = MINIBATCH_ABOVE
) -> Clustering:
    """Steps 1 to 3; of the labels only those of dataset 2 are used."""
    k_seed = derive_seed(seed, "adapt", k)
    old = cluster(latents.old, latents.old_labels, k, k_seed, minibatch_above=minibatch_above)
    nameless = np.full(len(latents.new_net1), UNLABELED)
    new = cluster(latents.new_net1, nameless, k, k_seed, minibatch_above=minibatch_above)
    return Clustering(k, old, new, adapted_centroids(new, latents.new_net1, latents.new, k))


def name_and_remove(
    clusterings: Sequence[Clustering],
    fit: tuple[IntArray, IntArray],
    decide: tuple[IntArray, IntArray],
    new: FloatArray,
    n_classes: int,
) -> Adaptation:
    """Steps 4 to 6 for each k, and the best k.

    ``fit`` are rows and labels of dataset 1 that name clusters, ``decide`` those that choose k and
    the removals; ``new`` (N1, D2) is dataset 1 under net 2.
    """
    tried = {}
    for each in clusterings:
        known = np.full(len(each.new.members), UNLABELED)
        known[fit[0]] = fit[1]
        names = majority_labels(known, each.new.members, len(each.new.labels))
        joined = join_centroids(each.old, each.adapted, names)
        tried[each.k] = remove_worst_centroids(joined, new[decide[0]], decide[1])
    by_k = {k: scores[-1] for k, (_, scores) in tried.items()}
    best_k = max(by_k, key=lambda k: (by_k[k], -k))
    centroid_set, scores = tried[best_k]
    distances = centroid_set.distances(new[decide[0]], n_classes)
    unit = max(float(distances.min(axis=1).mean()), 1e-12) if len(distances) else 1.0
    temperature = fit_temperature(softmin(distances, unit), decide[1])
    return Adaptation(centroid_set, best_k, n_classes, unit, temperature, tuple(scores), by_k)


def cluster(
    latents: FloatArray,
    labels: IntArray,
    k: int,
    seed: int,
    *,
    minibatch_above: int = MINIBATCH_ABOVE,
) -> Clusters:
    """Steps 1 and 2: k-means++ on latents (N, D); ``labels`` (N,) are -1 for unlabeled images.

    Centroids are the means of their members, also where k-means stopped before that. There are
    fewer than k clusters where some would be empty.
    """
    centers = _k_means(latents, min(k, len(latents)), seed, minibatch_above)
    used, members = np.unique(nearest_centroid(latents, centers), return_inverse=True)
    members = members.astype(np.int64)
    centroids = _means(latents, members, len(used))
    return Clusters(centroids, majority_labels(labels, members, len(used)), members)


def majority_labels(labels: IntArray, members: IntArray, n: int) -> IntArray:
    """(n,) the most frequent class among the labeled members; the lower number of a tie."""
    counts = np.zeros((n, max(0, int(labels.max(initial=-1))) + 1), dtype=np.int64)
    known = labels != UNLABELED
    np.add.at(counts, (members[known], labels[known]), 1)
    most: IntArray = counts.argmax(axis=1).astype(np.int64)
    return np.where(counts.any(axis=1), most, UNLABELED)


def adapted_centroids(
    clusters: Clusters, under_own: FloatArray, under_other: FloatArray, n: int | None
) -> FloatArray:
    """Step 3, the set Z: per cluster the mean latent under the other net of its n nearest images.

    ``under_own`` (N, D1) are the latents that were clustered, ``under_other`` (N, D2) those of the
    same images under the other net. None takes all images of the cluster.
    """
    if n is None:
        chosen = [np.flatnonzero(clusters.members == i) for i in range(len(clusters.labels))]
    else:
        chosen = nearest_images(under_own, clusters.centroids, n)
    rows = [under_other[each].mean(axis=0, dtype=np.float64) for each in chosen]
    adapted: FloatArray = np.stack(rows).astype(under_other.dtype)
    return adapted


def join_centroids(
    clusters: Clusters, adapted: FloatArray, adapted_labels: IntArray
) -> CentroidSet:
    """Step 4: A is C and Z together, without clusters in which nothing is labeled."""
    centroids = np.concatenate([clusters.centroids, adapted])
    labels = np.concatenate([clusters.labels, adapted_labels])
    is_adapted = np.arange(len(labels)) >= len(clusters.labels)
    known = labels != UNLABELED
    kept = np.ones(known.sum(), dtype=bool)
    return CentroidSet(centroids[known], labels[known], is_adapted[known], kept)


def remove_worst_centroids(
    centroid_set: CentroidSet, latents: FloatArray, labels: IntArray
) -> tuple[CentroidSet, list[float]]:
    """Step 6: remove the centroid without which most labels are right, until that stops helping.

    ``latents`` (N, D) and ``labels`` (N,) decide and must not be used to report accuracy. The last
    centroid of a class stays, or the class could never be predicted. Of equally bad centroids the
    first is removed, in an order that does not depend on how they are numbered. Also returns the
    share of right labels at the start and after each removal.
    """
    order = np.lexsort((*centroid_set.centroids.T[::-1], centroid_set.labels))
    classes, kept = centroid_set.labels[order], centroid_set.kept[order].copy()
    chunks = squared_distances(latents, centroid_set.centroids[order])
    distances = np.concatenate([np.empty((0, len(order))), *chunks])
    n_right, right_without = _count_right(distances, classes, kept, labels)
    scores = [n_right / max(1, len(labels))]
    while len(right_without) and right_without.max() > n_right:
        kept[right_without.argmax()] = False
        n_right, right_without = _count_right(distances, classes, kept, labels)
        scores.append(n_right / len(labels))
    still_kept = centroid_set.kept.copy()
    still_kept[order] = kept
    return replace(centroid_set, kept=still_kept), scores


def _count_right(
    distances: FloatArray, classes: IntArray, kept: BoolArray, labels: IntArray
) -> tuple[int, IntArray]:
    """How many labels are right, and (M,) how many would be without each centroid.

    -1 stands for a centroid that must stay. Without a centroid only the images nearest to it
    change: they go to their second nearest.
    """
    if not len(labels):
        return 0, np.empty(0, dtype=np.int64)
    shown = np.where(kept, distances, np.inf)
    rows, first = np.arange(len(labels)), shown.argmin(axis=1)
    right = classes[first] == labels
    shown[rows, first] = np.inf
    gain = (classes[shown.argmin(axis=1)] == labels).astype(np.int64) - right
    gains = np.bincount(first, gain, minlength=len(classes)).astype(np.int64)
    has_others = np.bincount(classes[kept], minlength=int(classes.max()) + 1)[classes] > 1
    n_right = int(right.sum())
    return n_right, np.where(kept & has_others, n_right + gains, -1)


def softmin(distances: FloatArray, unit: float) -> FloatArray:
    """Squared distances (N, K) -> (N, K) that sum to 1: exp(-d / unit), 0 for an infinite one."""
    nearest = distances.min(axis=1, keepdims=True)
    powers = np.exp(-(distances - nearest) / unit)
    shares: FloatArray = powers / powers.sum(axis=1, keepdims=True)
    return shares


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


def nearest_centroid(latents: FloatArray, centroids: FloatArray) -> IntArray:
    """(N,) the nearest centroid of each latent."""
    chunks = [chunk.argmin(axis=1) for chunk in squared_distances(latents, centroids)]
    return np.concatenate([np.empty(0, dtype=np.int64), *chunks])


def nearest_images(latents: FloatArray, centroids: FloatArray, n: int) -> list[IntArray]:
    """For each centroid the rows of its n nearest latents, the nearest first."""
    n = min(n, len(latents))
    best = np.full((len(centroids), 0), np.inf)
    rows = np.empty((len(centroids), 0), dtype=np.int64)
    start = 0
    for chunk in squared_distances(latents, centroids):
        distances = np.hstack([best, chunk.T])
        numbers = np.hstack(
            [rows, np.broadcast_to(np.arange(start, start + len(chunk)), chunk.T.shape)]
        )
        order = np.argsort(distances, axis=1, kind="stable")[:, :n]
        best = np.take_along_axis(distances, order, axis=1)
        rows = np.take_along_axis(numbers, order, axis=1)
        start += len(chunk)
    return list(rows)


def _k_means(latents: FloatArray, k: int, seed: int, minibatch_above: int) -> FloatArray:
    import warnings

    from sklearn.cluster import KMeans, MiniBatchKMeans
    from sklearn.exceptions import ConvergenceWarning

    random_state = seed % 2**32
    if latents.size > minibatch_above:
        method = MiniBatchKMeans(
            k,
            batch_size=_BATCH_SIZE,
            init_size=max(_BATCH_SIZE, 3 * k),
            max_iter=max(1, _MAX_BATCHES * _BATCH_SIZE // len(latents)),
            n_init=1,
            compute_labels=False,
            random_state=random_state,
        )
    else:
        method = KMeans(k, n_init=_N_INIT, random_state=random_state)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct latents than k
        centers: FloatArray = method.fit(latents).cluster_centers_
    return centers


def _means(latents: FloatArray, members: IntArray, n: int) -> FloatArray:
    """(n, D) the mean latent of each cluster."""
    totals = np.zeros((n, latents.shape[1]))
    for start in range(0, len(latents), _CHUNK):
        chunk, at = latents[start : start + _CHUNK], members[start : start + _CHUNK]
        for number in np.unique(at):
            totals[number] += chunk[at == number].sum(axis=0, dtype=np.float64)
    counts = np.bincount(members, minlength=n)
    centroids: FloatArray = (totals / counts[:, None]).astype(latents.dtype)
    return centroids
