"""Where a linear head works: the features of several layers, normalized, in few dimensions.

The last layer of a pre-trained net knows what ImageNet asked for, earlier ones know color and
texture. Which of them tell the user's classes apart is decided by cross-validation, not here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

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
    """Centers each feature, may divide it by its deviation, and may scale each layer to length 1.

    Without ``unit_length`` the rows of a layer have length 1 on average.
    """

    layers: Layers
    depth: int
    """Layers with at most this many after them are used."""
    mean: Tensor
    """(D,)."""
    deviation: Tensor
    """(D,); ones where only layers as a whole are scaled."""
    unit_length: bool = True

    def __call__(self, features: Tensor) -> Tensor:
        """Stored features (N, D) -> (N, D')."""
        scaled = (features.to(self.mean.dtype) - self.mean) / self.deviation
        parts = [scaled[:, at] for at in self.layers.up_to(self.depth)]
        if self.unit_length:
            parts = [functional.normalize(part, dim=1) for part in parts]
        else:
            parts = [part / part.shape[1] ** 0.5 for part in parts]
        joined: Tensor = torch.cat(parts, dim=1) / len(parts) ** 0.5
        return joined


def mean_and_deviation(sample: Tensor) -> tuple[Tensor, Tensor]:
    """(D,) each, of stored features (M, D); a deviation of almost 0 is raised."""
    values = sample.float()
    std = values.std(0, correction=0)
    return values.mean(0), std.clamp(min=max(float(std.median()) * _LEAST_DEVIATION, 1e-6))


def mean_and_own_deviation(sample: Tensor) -> tuple[Tensor, Tensor]:
    """The same for columns in units of their own: only a constant one is not scaled."""
    values = sample.double()
    std = values.std(0, correction=0)
    return values.mean(0).float(), torch.where(std > 0, std, 1.0).float()


@dataclass(frozen=True)
class FeatureSpace:
    """Normalized features in the R directions in which landmark images differ most."""

    normalization: Normalization
    basis: Tensor
    """(D', R)."""

    def double(self) -> FeatureSpace:
        """The same space, in which places are computed in double precision."""
        normalization = replace(
            self.normalization,
            mean=self.normalization.mean.double(),
            deviation=self.normalization.deviation.double(),
        )
        return FeatureSpace(normalization, self.basis.double())

    def __call__(self, features: Tensor) -> Tensor:
        """Stored features (N, D) -> (N, R)."""
        places: Tensor = self.normalization(features) @ self.basis
        return places


def feature_space(
    normalization: Normalization, landmarks: Tensor, n_directions: int
) -> FeatureSpace:
    """The ``n_directions`` in which ``landmarks`` (M, D) differ most."""
    rows = normalization(landmarks)
    is_tall = rows.shape[0] > rows.shape[1]
    values, vectors = torch.linalg.eigh(rows.T @ rows if is_tall else rows @ rows.T)
    keep = values > _SMALLEST_EIGENVALUE * values[-1].clamp(min=1e-30)
    values, vectors = values[keep][-n_directions:], vectors[:, keep][:, -n_directions:]
    basis = vectors.contiguous() if is_tall else rows.T @ (vectors / values.sqrt())
    return FeatureSpace(normalization, basis)
