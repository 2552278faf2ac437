"""Random augmentation of a whole batch at once, for images in general rather than for digits.

Each image is resampled once, through a random affine map and a smooth random displacement, and
then gets another contrast and brightness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

_CONTROL_POINTS = 4
"""Side of the grid of random displacements from which the elastic part is interpolated."""

_MAP_SHIFT = 0.1
"""How far maps are moved at most, as a share of their side."""


@dataclass(frozen=True)
class Augmentation:
    """How far each change may go, in either direction."""

    rotation: float
    """Degrees."""
    scale: float
    """Natural logarithm of the factor, drawn for each axis."""
    shear: float
    shift: float
    """Share of the image's side."""
    elastic: float
    """Standard deviation of the displacement of a control point, as a share of the side."""
    contrast: float
    """Natural logarithm of the factor on the difference from the image's mean."""
    brightness: float
    """In standard deviations of the dataset."""


STRONG = Augmentation(15, 0.3, 0.15, 0.08, 0.03, 0.2, 0.0)
"""For training."""
WEAK = Augmentation(5, 0.05, 0.05, 0.03, 0.01, 0.0, 0.0)
"""For the images that the teacher predicts (FixMatch's weak augmentation)."""
LIGHT = Augmentation(8, 0.1, 0.05, 0.05, 0.0, 0.2, 0.2)
"""For photographs whose backbone is frozen."""


def augment(
    images: Tensor, strength: Augmentation, generator: torch.Generator, *, flips: bool = False
) -> Tensor:
    """(N, C, H, W) standardized -> the same shape; every image gets its own random change.

    With ``flips``, about half of the images are mirrored left to right.
    """
    n, _, height, width = images.shape
    theta = _affine(n, strength, generator, flips=flips)
    grid = functional.affine_grid(theta, [n, 1, height, width], align_corners=False)
    if strength.elastic:
        points = torch.randn(n, 2, _CONTROL_POINTS, _CONTROL_POINTS, generator=generator)
        points *= 2 * strength.elastic
        displacement = functional.interpolate(
            points, size=(height, width), mode="bicubic", align_corners=False
        )
        grid = grid + displacement.permute(0, 2, 3, 1)
    grid = grid.to(images.device)
    out = functional.grid_sample(images, grid, padding_mode="border", align_corners=False)
    if strength.contrast or strength.brightness:
        factor = torch.exp(_uniform(n, generator) * strength.contrast).to(images.device)
        offset = (_uniform(n, generator) * strength.brightness).to(images.device)
        mean = out.mean((1, 2, 3), keepdim=True)
        out = (out - mean) * factor.view(-1, 1, 1, 1) + mean + offset.view(-1, 1, 1, 1)
    return out.contiguous(memory_format=torch.channels_last)


def shift_maps(maps: Tensor, generator: torch.Generator) -> Tensor:
    """(N, C, H, W) -> the same shape; each is moved by whole cells, its border repeated.

    Maps of a frozen net cannot be turned or scaled: their channels know directions and sizes.
    """
    height, width = maps.shape[-2:]
    most = (round(_MAP_SHIFT * height), round(_MAP_SHIFT * width))
    around = functional.pad(maps, [most[1], most[1], most[0], most[0]], mode="replicate")
    down, across = (torch.randint(2 * m + 1, (len(maps),), generator=generator) for m in most)
    moved = [
        each[:, y : y + height, x : x + width]
        for each, y, x in zip(around, down.tolist(), across.tolist(), strict=True)
    ]
    return torch.stack(moved).contiguous(memory_format=torch.channels_last)


def _affine(n: int, strength: Augmentation, generator: torch.Generator, *, flips: bool) -> Tensor:
    """(n, 2, 3): random rotation, scale, shear and shift."""
    angle = _uniform(n, generator) * math.radians(strength.rotation)
    scale_x = torch.exp(_uniform(n, generator) * strength.scale)
    scale_y = torch.exp(_uniform(n, generator) * strength.scale)
    shear = _uniform(n, generator) * strength.shear
    shifts = torch.stack([_uniform(n, generator), _uniform(n, generator)], dim=1)
    shift = 2 * strength.shift * shifts
    cos, sin = torch.cos(angle), torch.sin(angle)
    if flips:
        scale_x = torch.where(_uniform(n, generator) > 0, scale_x, -scale_x)
    rows = [
        torch.stack([cos * scale_x, -sin * scale_y + shear, shift[:, 0]], dim=1),
        torch.stack([sin * scale_x, cos * scale_y, shift[:, 1]], dim=1),
    ]
    return torch.stack(rows, dim=1)


def _uniform(n: int, generator: torch.Generator) -> Tensor:
    """(n,) in [-1, 1)."""
    return torch.rand(n, generator=generator) * 2 - 1
