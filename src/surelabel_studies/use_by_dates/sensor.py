"""Lens and sensor: focus, motion, exposure, noise, tone."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageFilter

from surelabel_studies.use_by_dates.faults import Difficulties, Fault
from surelabel_studies.use_by_dates.light import Lit
from surelabel_studies.use_by_dates.locations import Light, Sensor
from surelabel_studies.use_by_dates.textures import Array, grain

_BRIGHTEST = 238.0
"""A reflection, before contrast lifts it to white: clipped any lower it would hide too much."""
_GRAY = np.array([0.30, 0.59, 0.11], np.float32)


def expose(image: Image.Image, lit: Lit, light: Light) -> Image.Image:
    """The scene in its light."""
    cast = np.asarray(light.cast, np.float32)
    keeps = 1 - lit.white
    pixels = np.asarray(image, np.float32) * ((lit.factor * keeps)[..., None] * cast)
    pixels += (lit.white * np.float32(_BRIGHTEST))[..., None]
    return _stored(pixels)


def _stored(pixels: Array) -> Image.Image:
    np.clip(pixels, 0, 255, out=pixels)
    return Image.fromarray(pixels.astype(np.uint8))


def develop(
    rng: np.random.Generator,
    image: Image.Image,
    sensor: Sensor,
    difficulties: Difficulties,
    caps: float,
    contrast: float,
) -> Image.Image:
    """The photograph that the camera stores.

    ``caps`` is the print's height in its pixels, ``contrast`` how much it differs from the paper.
    """
    unit = image.width / 299
    sigma = np.hypot(sensor.blur * unit, 0.46 * difficulties[Fault.BLUR] * caps)
    image = image.filter(_focus(float(sigma)))
    pixels = np.array(image, np.float32)
    if difficulties[Fault.MOTION] > 0:
        pixels = _shake(rng.spawn(1)[0], pixels, 1.6 * difficulties[Fault.MOTION] * caps)
    pixels = _tone(rng, pixels, sensor)
    dark = difficulties[Fault.LOW_LIGHT]
    noise = sensor.noise * float(rng.uniform(0.6, 1.4))
    pixels *= np.float32(2 ** (-4.2 * dark))
    pixels += grain(rng, "fine", *pixels.shape[:2]) * np.float32(noise)
    if dark > 0:
        pixels += grain(rng, "coarse", *pixels.shape[:2]) * np.float32(0.17 * contrast * dark)
        pixels += np.float32(10 * dark)
    return _stored(pixels)


def _focus(sigma: float) -> ImageFilter.MultibandFilter:
    """A lens out of focus; one box of the same deviation is enough for a little."""
    if sigma > 1.2:
        return ImageFilter.GaussianBlur(sigma)
    return ImageFilter.BoxBlur(float(np.sqrt(12 * sigma**2 + 1) - 1) / 2)


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
    rows = np.clip(np.arange(height) - dy, 0, height - 1)
    columns = np.clip(np.arange(width) - dx, 0, width - 1)
    return pixels[rows][:, columns]


def _tone(rng: np.random.Generator, pixels: Array, sensor: Sensor) -> Array:
    contrast = sensor.contrast * float(rng.uniform(0.92, 1.06))
    brightness = float(rng.normal(2, 7))
    if sensor.saturation != 1.0:
        gray = (pixels @ _GRAY)[..., None] * np.float32(1 - sensor.saturation)
        pixels *= np.float32(sensor.saturation)
        pixels += gray
    pixels *= np.float32(contrast)
    pixels += np.float32(118 * (1 - contrast) + brightness)
    return pixels
