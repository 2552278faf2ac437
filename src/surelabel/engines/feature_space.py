"""Where a linear head works: the features of several layers, normalized, in few dimensions.

The last layer of a pre-trained net knows what ImageNet asked for, earlier ones know color and
texture. Which of them tell the user's classes apart is decided by cross-validation, not here.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from surelabel.models.backbones import Layers

_LEAST_DEVIATION = 0.05
"""Features that vary less than this share of the median one are not blown up."""
_SMALLEST_EIGENVALUE = 1e-6
"""Share of the largest eigenvalue below which a direction is rounding error."""


@dataclass(frozen=True)
class Normalization:
    """Centers each feature, may divide it by its deviation, and scales each layer to length 1."""

    layers: Layers
    depth: int
    """Layers with at most this many after them are used."""
    mean: Tensor
    """(D,)."""
    deviation: Tensor
    """(D,); ones where only layers as a whole are scaled."""

    def __call__(self, features: Tensor) -> Tensor:
        """Stored float16 features (N, D) -> (N, D'), of length at most 1 per row."""
        scaled = (features.float() - self.mean) / self.deviation
        parts = [functional.normalize(scaled[:, at], dim=1) for at in self.layers.up_to(self.depth)]
        joined: Tensor = torch.cat(parts, dim=1) / len(parts) ** 0.5
        return joined


def mean_and_deviation(sample: Tensor) -> tuple[Tensor, Tensor]:
    """(D,) each, of stored features (M, D); a deviation of almost 0 is raised."""
    values = sample.float()
    std = values.std(0, correction=0)
    return values.mean(0), std.clamp(min=max(float(std.median()) * _LEAST_DEVIATION, 1e-6))


@dataclass(frozen=True)
class FeatureSpace:
    """Normalized features in the R directions in which landmark images differ most."""

    normalization: Normalization
    basis: Tensor
    """(D', R)."""

    def __call__(self, features: Tensor) -> Tensor:
        """Stored features (N, D) -> (N, R)."""
        places: Tensor = self.normalization(features) @ self.basis
        return places


def feature_space(
    normalization: Normalization, landmarks: Tensor, n_directions: int
) -> FeatureSpace:
    """The ``n_directions`` in which ``landmarks`` (M, D) differ most."""
    rows = normalization(landmarks)
    values, vectors = torch.linalg.eigh(rows @ rows.T)
    keep = values > _SMALLEST_EIGENVALUE * values[-1].clamp(min=1e-30)
    values, vectors = values[keep][-n_directions:], vectors[:, keep][:, -n_directions:]
    return FeatureSpace(normalization, rows.T @ (vectors / values.sqrt()))
