"""Images that look alike: nearest in the space of tiny versions of themselves.

Each image becomes 8x8 pixels without its mean brightness, of length 1. That is cheap, needs no
net and works before the first round.
"""

from __future__ import annotations

import numpy as np

from surelabel.dataset.array_store import PixelStore
from surelabel.types import FloatArray, Ids, IntArray

_SIDE = 8
_BATCH = 512
_PART = 2048
_POWER_STEPS = 6


def tiny_versions(store: PixelStore, digests: Ids) -> FloatArray:
    """(N, D) a vector for each of ``digests``; zeros where the store lacks the pixels."""
    width = _SIDE * _SIDE * store.channels
    vectors = np.zeros((len(digests), width), dtype=np.float32)
    there = np.flatnonzero(~np.isin(digests, store.missing(digests)))
    for start in range(0, len(there), _BATCH):
        rows = there[start : start + _BATCH]
        pixels = store.gather(digests[rows]).astype(np.float32)
        vectors[rows] = _shrink(pixels).reshape(len(rows), width)
    vectors -= vectors.mean(axis=1, keepdims=True)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: FloatArray = vectors / np.maximum(length, 1e-6)
    return scaled


def nearest(vectors: FloatArray, position: int, among: IntArray, n: int) -> IntArray:
    """Up to ``n`` positions out of ``among``, the most alike first; itself is the first of all."""
    others = among[among != position]
    likeness = vectors[others] @ vectors[position]
    best = others[np.argsort(-likeness, kind="stable")[: max(0, n - 1)]]
    return np.concatenate([[position], best]).astype(np.int64)


def chain(vectors: FloatArray) -> IntArray:
    """(N,) positions such that similar images follow each other.

    Up to ``_PART`` images, each is followed by the nearest that was not yet taken. More are first
    halved, and again, across the direction in which they differ most. Time is O(N P D), memory
    O(N D + P^2) for parts of P images.
    """
    if not len(vectors):
        return np.empty(0, dtype=np.int64)
    after = vectors.mean(axis=0)
    chained: list[IntArray] = []
    for part in _parts(vectors, np.arange(len(vectors), dtype=np.int64)):
        order = _chain_part(vectors[part], after)
        chained.append(part[order])
        after = vectors[chained[-1][-1]]
    return np.concatenate(chained)


def _parts(vectors: FloatArray, members: IntArray) -> list[IntArray]:
    """``members`` in parts of at most ``_PART``; neighbors are alike."""
    if len(members) <= _PART:
        return [members]
    centered = vectors[members] - vectors[members].mean(axis=0)
    direction = centered[np.argmax((centered**2).sum(axis=1))]
    for _ in range(_POWER_STEPS):
        direction = centered.T @ (centered @ direction)
        direction /= max(float(np.linalg.norm(direction)), 1e-12)
    ranked = members[np.argsort(centered @ direction, kind="stable")]
    half = len(ranked) // 2
    return [*_parts(vectors, ranked[:half]), *_parts(vectors, ranked[half:])]


def _chain_part(vectors: FloatArray, after: FloatArray) -> IntArray:
    """Each is followed by the nearest that was not yet taken; the first is nearest to ``after``."""
    likeness = vectors @ vectors.T
    order = np.empty(len(vectors), dtype=np.int64)
    current = int(np.argmax(vectors @ after))
    for place in range(len(vectors)):
        order[place] = current
        likeness[:, current] = -np.inf
        current = int(np.argmax(likeness[current]))
    return order


def _shrink(pixels: FloatArray) -> FloatArray:
    """(N, S, S, C) to (N, 8, 8, C) by the mean of each block; small images are repeated."""
    size = pixels.shape[1]
    if size < _SIDE:
        at = np.arange(_SIDE) * size // _SIDE
        return pixels[:, at][:, :, at]
    edges = np.arange(_SIDE) * size // _SIDE
    sums = np.add.reduceat(np.add.reduceat(pixels, edges, axis=1), edges, axis=2)
    n_rows = np.diff([*edges, size]).astype(np.float32)
    means: FloatArray = sums / (n_rows[None, :, None, None] * n_rows[None, None, :, None])
    return means
