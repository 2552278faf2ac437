"""Light on the package: uneven lamps, shadows, wrinkles of film, reflections, glare."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surelabel_studies.use_by_dates.camera import Pose, is_cylinder
from surelabel_studies.use_by_dates.locations import Light
from surelabel_studies.use_by_dates.printing import Box
from surelabel_studies.use_by_dates.textures import Array, field, resized

_COARSE = 48
_MEDIUM = 100


@dataclass(frozen=True)
class Lit:
    """What light does to the photograph's pixels: multiply, then blend towards white."""

    factor: Array
    """(H, W)"""
    white: Array
    """(H, W) from 0 to 1."""


def _grid(n: int) -> tuple[Array, Array]:
    ends = np.linspace(-1, 1, n, dtype=np.float32)
    v, u = np.meshgrid(ends, ends, indexing="ij")
    return u, v


def shine(rng: np.random.Generator, light: Light, pose: Pose, target: Box) -> Lit:
    """The light of a place; reflections stay off the date, as good photographers see to it."""
    size = pose.size
    factor = resized(_diffuse(rng, light, pose), size, size)
    away = _distance(_MEDIUM, size, target)
    white = _reflections(rng, light, pose) * np.clip(away - 0.75, 0.0, 1.0)
    return Lit(factor, resized(white, size, size).clip(0, 1))


def _distance(n: int, size: int, target: Box) -> Array:
    """Distance from the target; 1 at its corners."""
    u, v = _grid(n)
    x0, y0, x1, y1 = (c / size * 2 - 1 for c in target)
    wide, high = max(0.15, (x1 - x0) / 2), max(0.10, (y1 - y0) / 2)
    scaled = ((u - (x0 + x1) / 2) / wide) ** 2 + ((v - (y0 + y1) / 2) / high) ** 2
    return np.asarray(np.sqrt(scaled / 2), dtype=np.float32)


def _diffuse(rng: np.random.Generator, light: Light, pose: Pose) -> Array:
    u, v = _grid(_COARSE)
    angle = rng.uniform(0, 2 * np.pi)
    slope = light.slope * rng.uniform(0.2, 1.0)
    made = float(rng.uniform(0.84, 1.06)) + slope * (np.cos(angle) * u + np.sin(angle) * v)
    made = made - light.vignette * (u * u + v * v) * 0.6
    made = made * (1 + 0.05 * field(rng, "soft", _COARSE))
    made = made * (1 + light.wrinkles * 0.6 * field(rng, "wrinkles", _COARSE))
    if is_cylinder(pose):
        across, _ = pose.unrolled(u, v)
        bent = np.clip(across / pose.radius + rng.uniform(-0.25, 0.25), -1, 1)
        made = made * (0.35 + 0.7 * np.sqrt(np.clip(1 - bent**2, 0, 1)))
    if rng.random() < 0.3:
        made = made * _shadow(rng, u, v)
    return np.asarray(made, dtype=np.float32).clip(0.08, 1.6)


def _shadow(rng: np.random.Generator, u: Array, v: Array) -> Array:
    """The shadow of a hand, a phone or a shelf."""
    angle, edge = rng.uniform(0, 2 * np.pi), rng.uniform(-0.2, 0.8)
    soft = rng.uniform(0.05, 0.3)
    inside = 1 / (1 + np.exp(-(np.cos(angle) * u + np.sin(angle) * v - edge) / soft))
    return np.asarray(1 - rng.uniform(0.15, 0.45) * inside, dtype=np.float32)


def _reflections(rng: np.random.Generator, light: Light, pose: Pose) -> Array:
    """Lamps mirrored in film, foil and lacquer."""
    u, v = _grid(_MEDIUM)
    made = np.zeros((_MEDIUM, _MEDIUM), np.float32)
    if is_cylinder(pose):
        across, _ = pose.unrolled(u, v)
        for _ in range(int(rng.integers(1, 3))):
            place, width = rng.uniform(-0.75, 0.75) * pose.radius, rng.uniform(0.03, 0.1)
            streak = np.exp(-(((across - place) / width) ** 2))
            made += streak * light.gloss * float(rng.uniform(0.3, 0.9))
        return made
    if light.wrinkles > 0.05:
        height = resized(field(rng, "wrinkles", 60), _MEDIUM, _MEDIUM)
        lean = np.gradient(height, axis=0) * 8 + np.gradient(height, axis=1) * 4
        glint = np.exp(-(((lean - rng.uniform(0.6, 1.1)) / 0.16) ** 2))
        where = np.clip(field(rng, "soft", 48), 0, 1.2)
        made += glint * resized(where, _MEDIUM, _MEDIUM) * light.gloss
    for _ in range(int(rng.poisson(1.3 * light.gloss))):
        made += _lamp(rng, u, v) * light.gloss * float(rng.uniform(0.4, 1.0))
    return made


def _lamp(rng: np.random.Generator, u: Array, v: Array) -> Array:
    """A tube or a bulb."""
    x, y, angle = rng.uniform(-1, 1), rng.uniform(-1, 1), rng.uniform(0, np.pi)
    long, wide = rng.uniform(0.2, 0.8), rng.uniform(0.04, 0.16)
    a = ((u - x) * np.cos(angle) + (v - y) * np.sin(angle)) / long
    b = ((v - y) * np.cos(angle) - (u - x) * np.sin(angle)) / wide
    return np.asarray(np.exp(-(a**4) - np.abs(b) ** 2.5), dtype=np.float32)


def glare(
    rng: np.random.Generator, target: Box, size: int, difficulty: float, faintest: float
) -> Array:
    """How white (H, W) a reflection on the date makes the photograph.

    At difficulty .5 the share ``faintest`` of the contrast is left in its middle.
    """
    u, v = _grid(_MEDIUM)
    x0, y0, x1, y1 = (c / size * 2 - 1 for c in target)
    angle = float(np.arctan2(y1 - y0, x1 - x0) * rng.uniform(-0.6, 0.6))
    du, dv = u - (x0 + x1) / 2, v - (y0 + y1) / 2
    long = (x1 - x0) * (0.38 + 0.5 * difficulty) + 0.05
    wide = (y1 - y0) * (0.45 + 0.9 * difficulty) + 0.03
    a = (du * np.cos(angle) + dv * np.sin(angle)) / long
    b = (dv * np.cos(angle) - du * np.sin(angle)) / wide
    rough = 0.22 * resized(field(rng, "streaks", 60), _MEDIUM, _MEDIUM)
    rough += 0.12 * resized(field(rng, "wrinkles", 60), _MEDIUM, _MEDIUM)
    shape = np.exp(-((a**2 + b**2) ** 1.5) * np.exp(rough))
    halo = 0.35 * np.exp(-(a**2 + b**2) * 0.25)
    strength = 1 - faintest ** (2 * difficulty)
    white: Array = resized(np.clip(shape + halo, 0, 1), size, size) * strength
    return white.clip(0, 1)
