"""Random distortion of a whole batch at once. Made for images in general, not for digits."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

_CONTROL_POINTS = 4
"""Side of the grid of random displacements that the elastic part is spread from."""


@dataclass(frozen=True)
class Distortion:
    """How far each distortion may go, at most, in either direction."""

    rotation: float
    """Degrees."""
    scale: float
    """Natural logarithm of the factor, for each axis by itself."""
    shear: float
    shift: float
    """Share of the image side."""
    elastic: float
    """Standard deviation of the displacement of a control point, as a share of the side."""
    contrast: float
    """Natural logarithm of the factor on the difference from the image's mean."""
    brightness: float
    """In standard deviations of the collection."""


STRONG = Distortion(15, 0.3, 0.15, 0.08, 0.03, 0.2, 0.0)
LIGHT = Distortion(8, 0.1, 0.05, 0.05, 0.0, 0.2, 0.2)
"""For photographs whose net is frozen."""
WEAK = Distortion(5, 0.05, 0.05, 0.03, 0.01, 0.0, 0.0)


def distort(
    images: Tensor, how: Distortion, generator: torch.Generator, *, flips: bool = False
) -> Tensor:
    """(N, C, H, W) standardized -> the same shape; each image gets its own distortion."""
    n, _, height, width = images.shape
    theta = _affine(n, how, generator, flips=flips)
    grid = functional.affine_grid(theta, [n, 1, height, width], align_corners=False)
    if how.elastic:
        points = torch.randn(n, 2, _CONTROL_POINTS, _CONTROL_POINTS, generator=generator)
        points *= 2 * how.elastic
        spread = functional.interpolate(
            points, size=(height, width), mode="bicubic", align_corners=False
        )
        grid = grid + spread.permute(0, 2, 3, 1)
    grid = grid.to(images.device)
    out = functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
    if how.contrast or how.brightness:
        factor = torch.exp(_uniform(n, generator) * how.contrast).to(images.device)
        offset = (_uniform(n, generator) * how.brightness).to(images.device)
        mean = out.mean((1, 2, 3), keepdim=True)
        out = (out - mean) * factor.view(-1, 1, 1, 1) + mean + offset.view(-1, 1, 1, 1)
    return out.contiguous(memory_format=torch.channels_last)


def _affine(n: int, how: Distortion, generator: torch.Generator, *, flips: bool) -> Tensor:
    angle = _uniform(n, generator) * math.radians(how.rotation)
    across = torch.exp(_uniform(n, generator) * how.scale)
    down = torch.exp(_uniform(n, generator) * how.scale)
    shear = _uniform(n, generator) * how.shear
    shift = 2 * how.shift * torch.stack([_uniform(n, generator), _uniform(n, generator)], dim=1)
    cos, sin = torch.cos(angle), torch.sin(angle)
    if flips:
        across = torch.where(_uniform(n, generator) > 0, across, -across)
    rows = [
        torch.stack([cos * across, -sin * down + shear, shift[:, 0]], dim=1),
        torch.stack([sin * across, cos * down, shift[:, 1]], dim=1),
    ]
    return torch.stack(rows, dim=1)


def _uniform(n: int, generator: torch.Generator) -> Tensor:
    return torch.rand(n, generator=generator) * 2 - 1
