"""Both datasets in the same few dimensions, normalized in the ways that adaptation compares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from surelabel.adaptation.ways import Space, Statistics
from surelabel.engines.feature_space import Normalization, mean_and_deviation
from surelabel.models.backbones import Layers
from surelabel.types import IntArray, derive_seed

_N_DIRECTIONS = 256
_N_LANDMARKS = 750
"""Images of each dataset that span the directions."""
_SAMPLE = 4000
"""Images of each dataset from which its mean and deviation are computed."""
_CHUNK = 1000
_SMALLEST_EIGENVALUE = 1e-6
"""Share of the largest eigenvalue below which a direction is rounding error."""


@dataclass(frozen=True)
class Stored:
    """The features of a dataset, read as they are needed."""

    n: int
    read: Callable[[IntArray], Tensor]
    """Rows (m,) -> (m, D)."""

    def sample(self, n: int, seed: int) -> Tensor:
        """(m, D) of at most ``n`` random images."""
        rng = np.random.default_rng(derive_seed(seed, "sample"))
        return self.read(np.sort(rng.permutation(self.n)[:n]))


def spaces_of(
    old: Stored, new: Stored, layers: Layers, depth: int, seed: int
) -> dict[Statistics, Space]:
    """Both datasets in each space, (N2, R) and (N1, R). Layers up to ``depth`` are used."""
    samples = [old.sample(_SAMPLE, seed), new.sample(_SAMPLE, seed)]
    (old_mean, old_deviation), (new_mean, new_deviation) = map(mean_and_deviation, samples)
    plain = torch.ones_like(old_mean)
    as_old = Normalization(layers, depth, old_mean, plain)
    pairs = {
        Statistics.OLD: (as_old, as_old),
        Statistics.CENTERED: (as_old, replace(as_old, mean=new_mean)),
        Statistics.STANDARDIZED: (
            replace(as_old, deviation=old_deviation),
            replace(as_old, mean=new_mean, deviation=new_deviation),
        ),
    }
    spaces = {}
    for name, pair in pairs.items():
        landmarks = [
            normalization(sample[:: -(-len(sample) // _N_LANDMARKS)])
            for normalization, sample in zip(pair, samples, strict=True)
        ]
        basis = _directions(torch.cat(landmarks))
        spaces[name] = Space(_places(old, pair[0], basis), _places(new, pair[1], basis))
    return spaces


def _directions(landmarks: Tensor) -> Tensor:
    """(D', R) the directions in which the landmarks (M, D') differ most."""
    values, vectors = torch.linalg.eigh(landmarks @ landmarks.T)
    keep = values > _SMALLEST_EIGENVALUE * values[-1].clamp(min=1e-30)
    values, vectors = values[keep][-_N_DIRECTIONS:], vectors[:, keep][:, -_N_DIRECTIONS:]
    directions: Tensor = landmarks.T @ (vectors / values.sqrt())
    return directions


def _places(stored: Stored, normalization: Normalization, basis: Tensor) -> Tensor:
    parts = [torch.zeros(0, basis.shape[1])]
    for start in range(0, stored.n, _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, stored.n))
        parts.append(normalization(stored.read(rows)) @ basis)
    return torch.cat(parts)
