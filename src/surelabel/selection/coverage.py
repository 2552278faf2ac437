"""Which images to label first: those that stand for many others.

Facility location: an image is covered as well as the most similar chosen image resembles it, and
each choice adds the most coverage. The choices are typical and diverse, and every beginning of the
order is a good choice of its own. Weights make images count that a model is uncertain of.
"""

from __future__ import annotations

import heapq

import numpy as np

from surelabel.types import FloatArray, IntArray


def coverage_order(
    candidates: FloatArray,
    images: FloatArray,
    n: int,
    *,
    weights: FloatArray | None = None,
    labeled: FloatArray | None = None,
) -> IntArray:
    """Positions of ``n`` of the ``candidates`` (M, D), the most useful first.

    They cover ``images`` (N, D) with their ``weights`` (N,), beside ``labeled`` (L, D). Rows are
    unit vectors; similarity is their dot product. Memory is O(M N).
    """
    similarity = _similarity(candidates, images)
    weight = np.ones(len(images)) if weights is None else weights
    covered = np.zeros(len(images))
    if labeled is not None and len(labeled):
        covered = _similarity(labeled, images).max(axis=0)

    def gain(position: int) -> float:
        return float(np.maximum(similarity[position] - covered, 0) @ weight)

    # Gains only shrink, so an old gain is a bound: the best is computed anew until it stays best.
    heap = [(-gain(position), position) for position in range(len(candidates))]
    heapq.heapify(heap)
    order: list[int] = []
    while heap and len(order) < n:
        _, position = heapq.heappop(heap)
        now = (-gain(position), position)
        if heap and now > heap[0]:
            heapq.heappush(heap, now)
            continue
        order.append(position)
        covered = np.maximum(covered, similarity[position])
    return np.array(order, dtype=np.int64)


def _similarity(one: FloatArray, other: FloatArray) -> FloatArray:
    """(M, N) from 0 to 1."""
    return (1 + one.astype(np.float32) @ other.astype(np.float32).T) / 2
