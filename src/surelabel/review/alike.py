"""Images that look alike: nearest in the space of tiny versions of themselves.

Each image becomes 8x8 pixels without its mean brightness, of length 1. That is cheap, needs no
net and works before the first round.
"""

from __future__ import annotations

import numpy as np

from surelabel.catalog import PixelStore
from surelabel.types import FloatArray, Ids, IntArray

_SIDE = 8
_BATCH = 512


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
    """(N,) positions such that each is followed by the nearest that was not yet taken.

    Starts at the image that is most like all others. Time is O(N^2 D), memory O(N D).
    """
    n = len(vectors)
    if not n:
        return np.empty(0, dtype=np.int64)
    order = np.empty(n, dtype=np.int64)
    taken = np.zeros(n, dtype=bool)
    current = int(np.argmax(vectors @ vectors.mean(axis=0)))
    for place in range(n):
        order[place] = current
        taken[current] = True
        likeness = vectors @ vectors[current]
        likeness[taken] = -np.inf
        current = int(np.argmax(likeness))
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
