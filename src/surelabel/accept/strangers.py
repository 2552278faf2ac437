"""Images that look like none of the classes, however sure the softmax is of them.

A softmax has to choose among the classes; a distance does not. Each class is a cloud of features
around its mean, with one covariance for all (Lee et al., *A simple unified framework for detecting
out-of-distribution samples*, 2018). The stranger score is the distance from the nearest cloud, and
its fence comes from tune images, which the net was not trained on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surelabel.types import BoolArray, FloatArray, IntArray

_REACH = 1.5
_FEWEST = 20


@dataclass(frozen=True)
class Clouds:
    """The features of the classes: a mean each and one whitening for all."""

    means: FloatArray
    """(K, D) in whitened coordinates; nan for a class without an image."""
    whitening: FloatArray
    """(D, D)."""

    def distance(self, features: FloatArray) -> FloatArray:
        """(N, D) -> (N,) the distance from the nearest class; higher is stranger."""
        white = features.astype(np.float64) @ self.whitening
        known = self.means[np.isfinite(self.means).all(axis=1)]
        squares = (white**2).sum(axis=1)[:, None] - 2 * white @ known.T + (known**2).sum(axis=1)
        nearest: FloatArray = np.sqrt(np.maximum(squares.min(axis=1), 0.0) / white.shape[1])
        return nearest


def fit_clouds(features: FloatArray, labels: IntArray, n_classes: int) -> Clouds:
    """Clouds from labelled features (N, D) and (N,).

    Each axis is scaled to its spread within classes. The correlations that remain are drawn
    toward none by the analytic amount of Ledoit and Wolf (2004): a few hundred images cannot tell
    all of them.
    """
    values = features.astype(np.float64)
    means = np.full((n_classes, values.shape[1]), np.nan)
    for k in np.unique(labels):
        means[k] = values[labels == k].mean(axis=0)
    inside = values - means[labels]
    scale = inside.std(axis=0)
    scale = np.where(scale > 1e-6 * max(float(scale.max()), 1e-6), scale, np.inf)
    spread, axes = np.linalg.eigh(_shrunk_covariance(inside / scale))
    whitening = axes / np.sqrt(np.maximum(spread, 1e-6)) / scale[:, None]
    return Clouds(means @ whitening, whitening)


def stranger_fence(distances: FloatArray) -> float:
    """The upper Tukey fence of the ln distances of tune images, (N,); inf with too few of them.

    Distances are skewed to the right; their logarithms much less, which is what a fence wants.
    """
    if len(distances) < _FEWEST:
        return float("inf")
    logs = np.log(np.maximum(distances, 1e-12))
    q1, q3 = np.quantile(logs, [0.25, 0.75])
    return float(np.exp(q3 + _REACH * (q3 - q1)))


def is_stranger(distances: FloatArray, fence: float) -> BoolArray:
    """(N,) beyond the fence; an unknown distance (nan) is none."""
    beyond: BoolArray = distances > fence
    return beyond


def _shrunk_covariance(centered: FloatArray) -> FloatArray:
    n, d = centered.shape
    covariance = centered.T @ centered / max(1, n)
    scale = float(np.trace(covariance)) / d
    target = scale * np.eye(d)
    gap = float(((covariance - target) ** 2).sum())
    noise = float(((centered**2).sum(axis=1) ** 2).sum()) / max(1, n) - float((covariance**2).sum())
    amount = 1.0 if gap <= 0 else min(1.0, max(0.0, noise / max(1, n) / gap))
    shrunk: FloatArray = (1 - amount) * covariance + amount * target
    return shrunk
