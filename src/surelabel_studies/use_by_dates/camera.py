"""The position of the camera: which point of the flat packaging each pixel shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from PIL import Image

from surelabel_studies.use_by_dates.locations import View
from surelabel_studies.use_by_dates.printing import Box
from surelabel_studies.use_by_dates.textures import Array, Pixels, field, resized

_CELLS = 11
_FLAT = 1e6


@dataclass(frozen=True)
class Pose:
    """The camera and the shape of the package; u and v run from -1 to 1 in the photograph."""

    size: int
    center: tuple[float, float]
    """The point of the flat picture that the view is counted from, in its pixels."""
    zoom: float
    turn: float
    tilt: tuple[float, float]
    radius: float
    """Radius of a cylinder standing upright, in halves of the photograph."""
    bend: float
    """How much the rings of a cylinder curve because the camera is above it."""

    def unrolled(self, u: Array, v: Array) -> tuple[Array, Array]:
        """Coordinates on the package across and along, before its surface is unrolled."""
        depth = 1 + self.tilt[0] * u + self.tilt[1] * v
        a, b = u / depth, v / depth
        c, s = np.cos(self.turn), np.sin(self.turn)
        return c * a - s * b, s * a + c * b

    def seen(self, u: Array, v: Array) -> tuple[Array, Array]:
        """The point of the flat picture that is seen at (u, v), in its pixels."""
        across, along = self.unrolled(u, v)
        if self.radius < _FLAT:
            inside = np.clip(across / self.radius, -0.97, 0.97)
            along = along + self.bend * inside**2
            across = self.radius * np.arcsin(inside)
        half = self.size / 2 / self.zoom
        return self.center[0] + across * half, self.center[1] + along * half

    def projected(self, x: Array, y: Array) -> tuple[Array, Array]:
        """Where (u, v) in the photograph points of the flat picture are; inverts ``seen``.

        By Newton's method.
        """
        u, v, step = np.zeros_like(x), np.zeros_like(y), 1e-3
        for _ in range(5):
            x0, y0 = self.seen(u, v)
            xu, yu = self.seen(u + step, v)
            xv, yv = self.seen(u, v + step)
            a, b, c, d = (xu - x0) / step, (xv - x0) / step, (yu - y0) / step, (yv - y0) / step
            det = a * d - b * c
            du, dv = (d * (x - x0) - b * (y - y0)) / det, (a * (y - y0) - c * (x - x0)) / det
            u, v = np.clip(u + du, -1.5, 1.5), np.clip(v + dv, -1.5, 1.5)
        return u, v

    def boxes_in_photo(self, boxes: Mapping[str, Box]) -> dict[str, Box]:
        """The boxes around boxes of the flat picture, in pixels of the photograph."""
        corners = np.array(
            [[(x0, y0), (x1, y0), (x1, y1), (x0, y1)] for x0, y0, x1, y1 in boxes.values()]
        )
        u, v = self.projected(corners[..., 0], corners[..., 1])
        x, y = (u + 1) * self.size / 2, (v + 1) * self.size / 2
        sides = zip(x.min(axis=1), y.min(axis=1), x.max(axis=1), y.max(axis=1), strict=True)
        return {
            name: (float(a), float(b), float(c), float(d))
            for name, (a, b, c, d) in zip(boxes, sides, strict=True)
        }


def aim(rng: np.random.Generator, view: View, block: Box, size: int, unit: float) -> Pose:
    """A camera that has all of ``block`` in view, not always in the center."""
    x0, y0, x1, y1 = block
    zoom = float(rng.uniform(*view.zoom))
    is_curved = rng.random() < view.curved
    extent = 1.5 if is_curved else 1.75
    zoom = min(zoom, extent * size / 2 / (x1 - x0), extent * size / 2 / (y1 - y0))
    turn = float(np.clip(rng.normal(0, view.turn), -2.2 * view.turn, 2.2 * view.turn))
    across, down = np.clip(rng.normal(0, 1, 2), -2, 2) * view.tilt
    radius = float(rng.uniform(0.98, 1.5)) if is_curved else 2 * _FLAT
    bend = float(rng.uniform(-0.16, 0.16))
    flip = -1 if rng.random() < 0.5 else 1
    tilt = (float(across), float(down) + flip * view.lean)
    free = rng.uniform(-1, 1, 2) * 0.75
    u = free[0] * max(0.0, 0.92 - (x1 - x0) / size * zoom)
    v = free[1] * max(0.0, 0.92 - (y1 - y0) / size * zoom)
    if is_curved:
        u *= 0.5
    loose = Pose(size, (0.0, 0.0), zoom, float(np.radians(turn)), tilt, radius, bend)
    dx, dy = loose.seen(np.array([u]), np.array([v]))
    center = ((x0 + x1) / 2 - float(dx[0]), (y0 + y1) / 2 - float(dy[0]))
    return Pose(size, center, zoom, loose.turn, tilt, radius, bend)


def photograph(rng: np.random.Generator, pixels: Pixels, pose: Pose, waves: float) -> Image.Image:
    """What the camera sees of the flat picture, before light and lens."""
    ends = np.linspace(-1, 1, _CELLS + 1)
    v, u = np.meshgrid(ends, ends, indexing="ij")
    x, y = pose.seen(u, v)
    if waves:
        x = x + waves * resized(field(rng, "soft", 48), *x.shape)
        y = y + waves * resized(field(rng, "soft", 48), *y.shape)
    at = np.round((ends + 1) * pose.size / 2).astype(int).tolist()
    mesh = [
        (
            (at[j], at[i], at[j + 1], at[i + 1]),
            (
                x[i, j], y[i, j], x[i + 1, j], y[i + 1, j],
                x[i + 1, j + 1], y[i + 1, j + 1], x[i, j + 1], y[i, j + 1],
            ),
        )
        for i in range(_CELLS)
        for j in range(_CELLS)
    ]  # fmt: skip
    around = tuple(int(c * 0.6) for c in pixels[4, 4])
    return Image.fromarray(pixels).transform(
        (pose.size, pose.size),
        Image.Transform.MESH,
        mesh,
        Image.Resampling.BILINEAR,
        fillcolor=around,
    )


def is_cylinder(pose: Pose) -> bool:
    """Whether the package is round."""
    return pose.radius < _FLAT
