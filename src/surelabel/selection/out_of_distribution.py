"""Images that look like none of the classes, however sure the softmax is of them.

A softmax has to choose among the classes; a distance does not. The outlier score is how far an
image is from the most similar labeled image, in the angle between what the net sees of both (Sun
et al., *Out-of-distribution detection with deep nearest neighbors*, 2022), at several stages of
the net: late ones know shapes, early ones know noise. Once some outliers are found, an image is
judged by whether it is more like a labeled image or more like one of them. The fence comes from
tune images, which the net was not trained on, and from the pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from surelabel.selection.thresholds import tukey_fence
from surelabel.types import BoolArray, FloatArray

_FEWEST = 20
_NEAREST = 1e-6
_ITSELF = 1e-5
"""Nearer than this, an image is taken for itself."""
_SHARES = (0.05, 0.04, 0.03, 0.02, 0.01)
"""Shares of known images that the fence may leave out, once there are outliers to keep out."""
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Neighbors:
    """The labeled images as a net sees them, and outliers once some are found."""

    seen: FloatArray
    """(M, D): the stages one after the other."""
    stages: tuple[int, ...]
    """The width of each stage; they sum to D."""
    outliers: FloatArray | None = None
    """(S, D): images of the pool that looked like none of the classes."""

    def distance(self, seen: FloatArray) -> FloatArray:
        """(N, D) -> (N,) how unlike the nearest labeled image; higher is less like any of them.

        At each stage one minus the cosine of the angle to the nearest one; then the geometric mean
        over the stages, since the same angle means more at one stage than at another. Where there
        are outliers, this over the same to the nearest outlier other than the image itself.
        """
        directions = self._stages_of(seen)
        logs = _ln_nearest(directions, self._known)
        if self._odd is not None:
            logs = logs - _ln_nearest(directions, self._odd, itself=_ITSELF)
        distance: FloatArray = np.exp(logs)
        return distance

    def _stages_of(self, seen: FloatArray) -> list[FloatArray]:
        parts = np.split(seen, np.cumsum(self.stages)[:-1], axis=1)
        return [
            part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12) for part in parts
        ]

    @cached_property
    def _known(self) -> list[FloatArray]:
        return self._stages_of(self.seen)

    @cached_property
    def _odd(self) -> list[FloatArray] | None:
        return None if self.outliers is None else self._stages_of(self.outliers)


def _ln_nearest(seen: list[FloatArray], among: list[FloatArray], itself: float = 0.0) -> FloatArray:
    """(N,) mean over stages of the ln of one minus the cosine to the nearest of ``among``.

    What is nearer than ``itself`` does not count.
    """
    logs = np.zeros(len(seen[0]))
    for directions, others in zip(seen, among, strict=True):
        apart = 1.0 - directions @ others.T
        if itself:
            apart[apart < itself] = 2.0
        logs += np.log(np.maximum(apart.min(axis=1), _NEAREST))
    mean: FloatArray = logs / len(seen)
    return mean


@dataclass(frozen=True)
class OutlierThreshold:
    """How far is too far."""

    at: float
    found: bool
    """Whether the pool has, at 95 % confidence, outliers beyond it."""


NO_OUTLIERS = OutlierThreshold(float("inf"), found=False)


def outlier_threshold(
    tune: FloatArray, pool: FloatArray, n_pool: int | None = None
) -> OutlierThreshold:
    """How far is too far, from distances of tune images (N,) and of the pool; inf with few of them.

    ``n_pool`` is how many images the pool has, where some of them are no outliers for certain and
    have no distance: those left are odd by selection, and count against the whole.

    The upper Tukey fence of the ln distances of tune images: they are skewed to the right, their
    logarithms much less. Where the pool has outliers the fence is set closer, at the strictest of
    some quantiles of tune beyond which there is, at 95 % confidence, a outlier for every two known
    images: a outlier accepted is a wrong label, a known image left is a look. No label is read.
    """
    n = len(tune)
    total = max(1, len(pool) if n_pool is None else n_pool)
    if n < _FEWEST:
        return NO_OUTLIERS
    fence = float(np.exp(tukey_fence(np.log(np.maximum(tune, _NEAREST)))))
    for share in _SHARES:
        k = int(share * n)
        if k < 1:
            break
        closer = float(np.partition(tune, n - k - 1)[n - k - 1])
        at_most = float(stats.beta.ppf(_CONFIDENCE, k + 1, n - k))
        if closer < fence and np.sum(pool > closer) / total > at_most + share / 2:
            return OutlierThreshold(closer, found=True)
    return OutlierThreshold(fence, found=False)


def is_outlier(distances: FloatArray, fence: float) -> BoolArray:
    """(N,) beyond the fence; an unknown distance (nan) is none."""
    beyond: BoolArray = distances > fence
    return beyond
