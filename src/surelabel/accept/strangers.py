"""Images that look like none of the classes, however sure the softmax is of them.

A softmax has to choose among the classes; a distance does not. The stranger score is how far an
image is from the most similar labelled image, in the angle between what the net sees of both (Sun
et al., *Out-of-distribution detection with deep nearest neighbors*, 2022), at several stages of
the net: late ones know shapes, early ones know noise. Its fence comes from tune images, which the
net was not trained on, and from the pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from surelabel.accept.thresholds import tukey_fence
from surelabel.types import BoolArray, FloatArray

_FEWEST = 20
_NEAREST = 1e-6
_SHARES = (0.08, 0.07, 0.06, 0.05, 0.04, 0.03, 0.02, 0.01)
"""Shares of known images that the fence may leave out, once there are strangers to keep out."""
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Neighbors:
    """The labelled images as a net sees them."""

    seen: FloatArray
    """(M, D): the stages one after the other."""
    stages: tuple[int, ...]
    """The width of each stage; they sum to D."""

    def distance(self, seen: FloatArray) -> FloatArray:
        """(N, D) -> (N,) how unlike the nearest labelled image; higher is stranger.

        At each stage one minus the cosine of the angle to the nearest one; then the geometric mean
        over the stages, since the same angle means more at one stage than at another.
        """
        logs = np.zeros(len(seen))
        ends = np.cumsum(self.stages)
        for end, width, known in zip(ends, self.stages, self._directions, strict=True):
            cosine = (_directions(seen[:, end - width : end]) @ known.T).max(axis=1)
            logs += np.log(np.maximum(1.0 - cosine, _NEAREST))
        distance: FloatArray = np.exp(logs / len(self.stages))
        return distance

    @cached_property
    def _directions(self) -> list[FloatArray]:
        return [_directions(part) for part in np.split(self.seen, np.cumsum(self.stages)[:-1], 1)]


def stranger_fence(tune: FloatArray, pool: FloatArray) -> float:
    """How far is too far, from distances of tune images (N,) and of the pool; inf with few of them.

    The upper Tukey fence of the ln distances of tune images: they are skewed to the right, their
    logarithms much less. Where the pool has strangers the fence is set closer, at the strictest of
    some quantiles of tune beyond which there is, at 95 % confidence, a stranger for every two known
    images: a stranger accepted is a wrong label, a known image left is a look. No label is read.
    """
    n = len(tune)
    if n < _FEWEST:
        return float("inf")
    fence = float(np.exp(tukey_fence(np.log(np.maximum(tune, _NEAREST)))))
    for share in _SHARES:
        k = int(share * n)
        if k < 1:
            break
        closer = float(np.partition(tune, n - k - 1)[n - k - 1])
        at_most = float(stats.beta.ppf(_CONFIDENCE, k + 1, n - k))
        if closer < fence and np.mean(pool > closer) > at_most + share / 2:
            return closer
    return fence


def is_stranger(distances: FloatArray, fence: float) -> BoolArray:
    """(N,) beyond the fence; an unknown distance (nan) is none."""
    beyond: BoolArray = distances > fence
    return beyond


def _directions(values: FloatArray) -> FloatArray:
    lengths = np.linalg.norm(values, axis=1, keepdims=True)
    directions: FloatArray = values / np.maximum(lengths, 1e-12)
    return directions
