"""Noise for surfaces and sensors, drawn once per process from a fixed seed."""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from surelabel.types import FloatArray, derive_seed

Array: TypeAlias = FloatArray
Pixels: TypeAlias = npt.NDArray[np.uint8]

_FIELD = 96
_N_FIELDS = 24
_GRAIN = 640


def resized(values: Array, height: int, width: int) -> Array:
    """A smooth (height, width) version of a small array."""
    image = Image.fromarray(np.ascontiguousarray(values, dtype=np.float32))
    return np.asarray(image.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float32)


def fractal(
    rng: np.random.Generator, height: int, width: int, cells: tuple[int, int], octaves: int = 3
) -> Array:
    """Cloudy noise of mean 0 and standard deviation 1; ``cells`` bumps down and across."""
    total = np.zeros((height, width), np.float32)
    for octave in range(octaves):
        rows, columns = (min(n * 2**octave + 1, 512) for n in cells)
        bumps = rng.standard_normal((rows, columns), dtype=np.float32)
        total += resized(bumps, height, width) * np.float32(0.55**octave)
    return np.asarray((total - total.mean()) / (total.std() + 1e-6), dtype=np.float32)


@cache
def _fields(kind: str) -> tuple[Array, ...]:
    rng = np.random.default_rng(derive_seed(0, "use-by-dates", "fields", kind))
    cells = {"soft": (2, 2), "wrinkles": (5, 2), "patches": (7, 9), "streaks": (24, 2)}[kind]
    return tuple(fractal(rng, _FIELD, _FIELD, cells) for _ in range(_N_FIELDS))


def field(rng: np.random.Generator, kind: str, side: int) -> Array:
    """A (side, side) piece of stored noise, side <= 96, turned at random."""
    stored = _fields(kind)[int(rng.integers(_N_FIELDS))]
    y, x = rng.integers(0, _FIELD - side + 1, 2)
    turn = int(rng.integers(4))
    piece = stored[y : y + side, x : x + side]
    if turn & 1:
        piece = piece[::-1]
    if turn & 2:
        piece = piece[:, ::-1]
    return piece


@cache
def _grain(kind: str) -> Array:
    rng = np.random.default_rng(derive_seed(0, "use-by-dates", "grain", kind))
    white = rng.standard_normal((_GRAIN, _GRAIN, 3), dtype=np.float32)
    if kind == "fine":
        shared = white.mean(axis=2, keepdims=True) * np.float32(1.4)
        return np.asarray(white * np.float32(0.55) + shared)
    coarse = np.stack([resized(white[::3, ::3, c], _GRAIN, _GRAIN) for c in range(3)], axis=2)
    shared = coarse.mean(axis=2, keepdims=True) * np.float32(1.7)
    return np.asarray(coarse * 0.45 + shared + 0.3 * white, dtype=np.float32)


def grain(rng: np.random.Generator, kind: str, height: int, width: int) -> Array:
    """Sensor noise (height, width, 3) of about unit deviation; ``fine`` or ``coarse``."""
    stored = _grain(kind)
    times = -(-max(height, width) // _GRAIN)
    if times > 1:
        stored = np.tile(stored, (times, times, 1))
    y = int(rng.random() * (len(stored) - height))
    x = int(rng.random() * (len(stored) - width))
    return stored[y : y + height, x : x + width]
