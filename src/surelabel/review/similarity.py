"""Show similar images one after the other in review, by the similarity of their thumbnails."""

from __future__ import annotations

import numpy as np

from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.thumbnails import nearest_neighbors, thumbnail_vectors
from surelabel.types import FloatArray, Ids, IntArray

_SIDE = 8
"""Side of the color thumbnails that are compared."""
_BATCH_SIZE = 512
_MAX_PART = 2048
"""The largest part in which every image is compared with every other."""
_POWER_STEPS = 6


def similarity_vectors(store: PixelStore, digests: Ids) -> FloatArray:
    """(N, D) a unit vector for each of ``digests``; zeros where the store lacks the pixels."""
    vectors = np.zeros((len(digests), _SIDE * _SIDE * store.channels), dtype=np.float32)
    stored = np.flatnonzero(~np.isin(digests, store.missing(digests)))
    for start in range(0, len(stored), _BATCH_SIZE):
        rows = stored[start : start + _BATCH_SIZE]
        vectors[rows] = thumbnail_vectors(store.gather(digests[rows]), _SIDE)
    return vectors


def most_similar(vectors: FloatArray, position: int, among: IntArray, n: int) -> IntArray:
    """``position`` itself, then the most similar of ``among``, the most similar first; up to n."""
    others = among[among != position]
    neighbors, _ = nearest_neighbors(vectors[[position]], vectors[others], max(0, n - 1))
    return np.concatenate([[position], others[neighbors[0]]]).astype(np.int64)


def similarity_order(vectors: FloatArray) -> IntArray:
    """(N,) positions in an order in which similar images follow each other.

    Each image is followed by the most similar one that is left. More than ``_MAX_PART`` images
    are first divided into halves, and again, along their first principal component. Time is
    O(N P D) and memory O(N D + P^2) for parts of P images.
    """
    if not len(vectors):
        return np.empty(0, dtype=np.int64)
    last = vectors.mean(axis=0)
    ordered: list[IntArray] = []
    for part in _parts(vectors, np.arange(len(vectors), dtype=np.int64)):
        ordered.append(part[_greedy_order(vectors[part], last)])
        last = vectors[ordered[-1][-1]]
    return np.concatenate(ordered)


def _parts(vectors: FloatArray, members: IntArray) -> list[IntArray]:
    """``members`` in parts of at most ``_MAX_PART``; consecutive parts are similar."""
    if len(members) <= _MAX_PART:
        return [members]
    centered = vectors[members] - vectors[members].mean(axis=0)
    component = centered[np.argmax((centered**2).sum(axis=1))]
    for _ in range(_POWER_STEPS):
        component = centered.T @ (centered @ component)
        component /= max(float(np.linalg.norm(component)), 1e-12)
    ranked = members[np.argsort(centered @ component, kind="stable")]
    half = len(ranked) // 2
    return [*_parts(vectors, ranked[:half]), *_parts(vectors, ranked[half:])]


def _greedy_order(vectors: FloatArray, start: FloatArray) -> IntArray:
    """Each is followed by the most similar one left; the first is the most similar to ``start``."""
    similarity = vectors @ vectors.T
    order = np.empty(len(vectors), dtype=np.int64)
    current = int(np.argmax(vectors @ start))
    for place in range(len(vectors)):
        order[place] = current
        similarity[:, current] = -np.inf
        current = int(np.argmax(similarity[current]))
    return order
