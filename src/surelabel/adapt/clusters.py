"""Clusters of latents, each labelled with its most frequent class.

Paper: § Latent Variable Adaptive Clustering, steps 1 and 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from surelabel.types import UNLABELLED, FloatArray, IntArray

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
    """(M,) the most frequent class of the labelled members; -1 without any."""
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
    """(n,) the most frequent class among the labelled members; the lower number of a tie."""
    counts = np.zeros((n, max(0, int(labels.max(initial=-1))) + 1), dtype=np.int64)
    known = labels != UNLABELLED
    np.add.at(counts, (members[known], labels[known]), 1)
    most: IntArray = counts.argmax(axis=1).astype(np.int64)
    return np.where(counts.any(axis=1), most, UNLABELLED)


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
