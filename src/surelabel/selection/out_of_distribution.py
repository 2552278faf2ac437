"""Out-of-distribution detection: images that look like none of the classes.

A softmax has to choose among the classes; a distance does not. The score of an image is its
distance from the most similar labeled image: one minus the cosine between their features (Sun et
al., *Out-of-distribution detection with deep nearest neighbors*, 2022), at several stages of the
net, because late stages respond to shapes and early ones to noise. Once some outliers are known,
an image is judged by whether it is closer to a labeled image or to one of them. The threshold
comes from tune images, which the net was not trained on, and from the pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import stats

from surelabel.selection.thresholds import tukey_fence
from surelabel.types import BoolArray, FloatArray

_MIN_TUNE = 20
SMALLEST_DISTANCE = 1e-6
SAME_IMAGE = 1e-5
"""Closer than this, an outlier is taken for the image itself."""
_TUNE_SHARES = (0.05, 0.04, 0.03, 0.02, 0.01)
"""Shares of tune images that a stricter threshold may leave out, once the pool has outliers."""
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class ReferenceFeatures:
    """What a net computes for its labeled images, and for outliers once some are known."""

    features: FloatArray
    """(M, D): the stages one after the other."""
    stage_sizes: tuple[int, ...]
    """The width of each stage; they sum to D."""
    outliers: FloatArray | None = None
    """(S, D): pool images that look like none of the classes."""

    def distance(self, features: FloatArray) -> FloatArray:
        """(N, D) -> (N,) distance from the nearest labeled image; higher is less familiar.

        At each stage one minus the cosine to the nearest image, then the geometric mean over the
        stages, because equal angles mean different things at different stages. With known
        outliers it is divided by the same distance from the nearest outlier, itself excepted.
        """
        stages = self._unit_vectors(features)
        logs = _log_nearest(stages, self._labeled)
        if self._known_outliers is not None:
            logs = logs - _log_nearest(stages, self._known_outliers, ignore_below=SAME_IMAGE)
        distance: FloatArray = np.exp(logs)
        return distance

    def _unit_vectors(self, features: FloatArray) -> list[FloatArray]:
        parts = np.split(features, np.cumsum(self.stage_sizes)[:-1], axis=1)
        return [
            part / np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12) for part in parts
        ]

    @cached_property
    def _labeled(self) -> list[FloatArray]:
        return self._unit_vectors(self.features)

    @cached_property
    def _known_outliers(self) -> list[FloatArray] | None:
        return None if self.outliers is None else self._unit_vectors(self.outliers)


def _log_nearest(
    images: list[FloatArray], others: list[FloatArray], ignore_below: float = 0.0
) -> FloatArray:
    """(N,) mean over stages of ln(1 - cosine) to the nearest of ``others``.

    Distances under ``ignore_below`` do not count.
    """
    logs = np.zeros(len(images[0]))
    for mine, theirs in zip(images, others, strict=True):
        distances = 1.0 - mine @ theirs.T
        if ignore_below:
            distances[distances < ignore_below] = 2.0
        logs += np.log(np.maximum(distances.min(axis=1), SMALLEST_DISTANCE))
    mean: FloatArray = logs / len(images)
    return mean


@dataclass(frozen=True)
class OutlierThreshold:
    """The distance above which an image is an outlier."""

    at: float
    pool_has_outliers: bool
    """Whether the pool has, at 95 % confidence, more images above it than chance explains."""


NO_THRESHOLD = OutlierThreshold(float("inf"), pool_has_outliers=False)


def outlier_threshold(
    tune: FloatArray, pool: FloatArray, n_pool: int | None = None
) -> OutlierThreshold:
    """The threshold, from the distances of tune images (N,) and of pool images; inf with few.

    ``n_pool`` is the size of the whole pool where ``pool`` holds only a part of it, the part that
    is less familiar by selection.

    It is the upper Tukey fence of the logarithms of the tune distances, which are much less
    skewed than the distances. Where the pool has outliers it is stricter: the strictest quantile
    of the tune distances above which there is, at 95 % confidence, at least one outlier for every
    two familiar images. An accepted outlier is a wrong label; a familiar image left unlabeled
    costs one glance. No label is read.
    """
    n = len(tune)
    total = max(1, len(pool) if n_pool is None else n_pool)
    if n < _MIN_TUNE:
        return NO_THRESHOLD
    fence = float(np.exp(tukey_fence(np.log(np.maximum(tune, SMALLEST_DISTANCE)))))
    for share in _TUNE_SHARES:
        k = int(share * n)
        if k < 1:
            break
        stricter = float(np.partition(tune, n - k - 1)[n - k - 1])
        at_most = float(stats.beta.ppf(_CONFIDENCE, k + 1, n - k))
        if stricter < fence and np.sum(pool > stricter) / total > at_most + share / 2:
            return OutlierThreshold(stricter, pool_has_outliers=True)
    return OutlierThreshold(fence, pool_has_outliers=False)


def is_outlier(distances: FloatArray, threshold: float) -> BoolArray:
    """(N,) above the threshold; an unknown distance (nan) is not."""
    above: BoolArray = distances > threshold
    return above
