"""Lens and sensor: focus, motion, exposure, noise, tone."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageFilter

from surelabel.datasets.use_by_dates.faults import Difficulties, Fault
from surelabel.datasets.use_by_dates.light import Lit
from surelabel.datasets.use_by_dates.locations import Light, Sensor
from surelabel.datasets.use_by_dates.textures import Array, grain

_GRAY = np.array([0.30, 0.59, 0.11], np.float32)


def expose(image: Image.Image, lit: Lit, light: Light) -> Image.Image:
    """The scene in its light."""
    cast = np.asarray(light.cast, np.float32)
    pixels = np.asarray(image, np.float32) * lit.factor[..., None] * cast
    white = lit.white[..., None]
    pixels += (np.float32(255) - pixels) * white
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def develop(
    rng: np.random.Generator,
    image: Image.Image,
    sensor: Sensor,
    difficulties: Difficulties,
    caps: float,
) -> Image.Image:
    """The photograph that the camera stores; ``caps`` is the print's height in its pixels."""
    unit = image.width / 299
    sigma = np.hypot(sensor.blur * unit, 0.5 * difficulties[Fault.BLUR] * caps)
    image = image.filter(ImageFilter.GaussianBlur(float(sigma)))
    pixels = np.asarray(image, np.float32)
    if difficulties[Fault.MOTION] > 0:
        pixels = _shake(rng, pixels, 1.9 * difficulties[Fault.MOTION] * caps)
    pixels = _tone(rng, pixels, sensor)
    dark = difficulties[Fault.LOW_LIGHT]
    noise = sensor.noise * float(rng.uniform(0.6, 1.4))
    pixels = pixels * np.float32(2 ** (-5.6 * dark))
    pixels += grain(rng, "fine", *pixels.shape[:2]) * np.float32(noise)
    if dark > 0:
        pixels += grain(rng, "coarse", *pixels.shape[:2]) * np.float32(26 * dark)
        pixels += np.float32(10 * dark)
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def _shake(rng: np.random.Generator, pixels: Array, length: float) -> Array:
    """The mean of the photograph along a straight way."""
    angle = float(rng.normal(0, 0.5))
    steps = max(2, min(16, int(length) + 1))
    total = np.zeros_like(pixels)
    for t in np.linspace(-0.5, 0.5, steps):
        dx, dy = round(t * length * np.cos(angle)), round(t * length * np.sin(angle))
        total += _moved(pixels, dx, dy)
    return total / np.float32(steps)


def _moved(pixels: Array, dx: int, dy: int) -> Array:
    """Shifted, with the edge repeated."""
    height, width = pixels.shape[:2]
    if dx == 0 and dy == 0:
        return pixels
    rows = np.clip(np.arange(height) - dy, 0, height - 1)
    columns = np.clip(np.arange(width) - dx, 0, width - 1)
    return pixels[rows][:, columns]


def _tone(rng: np.random.Generator, pixels: Array, sensor: Sensor) -> Array:
    contrast = sensor.contrast * float(rng.uniform(0.92, 1.06))
    brightness = float(rng.normal(2, 7))
    if sensor.saturation != 1.0:
        gray = (pixels @ _GRAY)[..., None]
        pixels = gray + (pixels - gray) * np.float32(sensor.saturation)
    return (pixels - np.float32(118)) * np.float32(contrast) + np.float32(118 + brightness)
