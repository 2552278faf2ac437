"""Images made from others, where the paper filled a class by augmentation."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

import numpy as np
from PIL import Image, ImageEnhance

from surelabel.atomic import atomic_path
from surelabel.types import derive_seed

_MARGIN = 2
"""Pixels around a printed date that are painted over with it."""
_BORDER = 6
"""Pixels around the box whose color goes on through it."""


class Made(StrEnum):
    """How an image is made from another."""

    COPY = "copy"
    """Turned, moved and lit a little differently."""
    PARTIAL = "partial"
    """A complete date with the day or the month painted over."""
    BLANK = "blank"
    """A complete date painted over."""


def make(how: Made, source: Path, boxes: Sequence[str], number: int, target: Path) -> Path:
    """The image made from ``source``, written once; ``number`` makes copies of one image differ.

    ``boxes`` are those of the day and the month, as the table of the set writes them.
    """
    if target.exists():
        return target
    rng = np.random.default_rng(derive_seed(number, "made", how, target.name))
    with Image.open(source) as file:
        image = file.convert("RGB")
    if how is Made.COPY:
        image = _changed(image, rng)
    else:
        chosen = boxes if how is Made.BLANK else [boxes[number % 2]]
        image = painted_over(image, [parse_box(box) for box in chosen], rng)
    with atomic_path(target) as temporary:
        image.save(temporary, format="JPEG", quality=92)
    return target


def parse_box(text: str) -> tuple[float, float, float, float]:
    """Left, top, right, bottom in pixels."""
    left, top, right, bottom = map(float, text.split())
    return left, top, right, bottom


def painted_over(
    image: Image.Image,
    boxes: Sequence[tuple[float, float, float, float]],
    rng: np.random.Generator,
) -> Image.Image:
    """``image`` with the ground around each box drawn on through it, as rough as it is there."""
    pixels = np.asarray(image, dtype=np.float64).copy()
    height, width = pixels.shape[:2]
    for left, top, right, bottom in boxes:
        x0, x1 = max(0, int(left) - _MARGIN), min(width, int(right) + 1 + _MARGIN)
        y0, y1 = max(0, int(top) - _MARGIN), min(height, int(bottom) + 1 + _MARGIN)
        around = np.zeros((height, width), dtype=bool)
        around[max(0, y0 - _BORDER) : y1 + _BORDER, max(0, x0 - _BORDER) : x1 + _BORDER] = True
        around[y0:y1, x0:x1] = False
        if around.any() and y1 > y0 and x1 > x0:
            plane, rough = _ground(pixels, around)
            rows, columns = np.mgrid[y0:y1, x0:x1]
            flat = np.stack([rows, columns, np.ones_like(rows)], axis=-1) @ plane
            pixels[y0:y1, x0:x1] = flat + rng.normal(0, rough, (*rows.shape, 1))
    return Image.fromarray(pixels.round().clip(0, 255).astype(np.uint8))


def _ground(pixels: np.ndarray, around: np.ndarray) -> tuple[np.ndarray, float]:
    """The plane of color (3, 3) through the pixels ``around`` that are not print, and its noise."""
    rows, columns = np.nonzero(around)
    at = np.stack([rows, columns, np.ones_like(rows)], axis=1).astype(np.float64)
    color = pixels[around]
    off = np.abs(color - np.median(color, axis=0)).sum(axis=1)
    kept = off <= np.median(off)
    for _ in range(3):
        plane = np.linalg.lstsq(at[kept], color[kept], rcond=None)[0]
        off = np.abs(color - at @ plane).sum(axis=1)
        kept = off <= np.median(off)
    return plane, float((color[kept] - at[kept] @ plane).std())


def _changed(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    across, down = rng.integers(-6, 7, 2).tolist()
    turned = image.rotate(
        float(rng.uniform(-6, 6)),
        Image.Resampling.BICUBIC,
        translate=(across, down),
        fillcolor=tuple(int(v) for v in np.asarray(image).mean((0, 1))),
    )
    lit = ImageEnhance.Brightness(turned).enhance(float(rng.uniform(0.88, 1.12)))
    return ImageEnhance.Contrast(lit).enhance(float(rng.uniform(0.9, 1.1)))
