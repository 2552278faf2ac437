"""The three datasets of ``recipes``: MNIST, USPS, and letters rendered from fonts.

Each seed draws its own labels, tune images and pool, evenly by class. The truth of the pool is used
to report, never to decide. MNIST and USPS need ``../shared/data``; the letters need matplotlib,
which carries the fonts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from digits import DATA as MNIST
from digits import IMAGES, LABELS, Digits
from surelabel.dataset.arrays import read_idx
from surelabel.types import IntArray
from surelabel_studies.datasets.usps import load_usps

USPS = MNIST.parent / "usps"
Gray = npt.NDArray[np.uint8]

_FONTS = (
    "DejaVuSans",
    "DejaVuSans-*",
    "DejaVuSansMono*",
    "DejaVuSerif",
    "DejaVuSerif-*",
    "STIXGeneral*",
    "cm[br]10",
    "cmss10",
    "cmti10",
    "cmtt10",
)
"""Fonts of matplotlib that have all of A to Z."""
_N_LETTERS = 26
_SIDE = 28
_CANVAS = 3 * _SIDE
"""Letters are drawn three times as large and shrunk."""


@dataclass(frozen=True)
class Sizes:
    """How many images each part has: the first two per class, the pool in all."""

    labels: int
    tune: int
    pool: int


@dataclass(frozen=True)
class Dataset:
    """Where images come from, and how they are split."""

    sizes: Sizes
    read: Callable[[int, Sizes], tuple[Gray, IntArray]]
    """Seed and sizes -> images (N, 28, 28) and their classes (N,)."""
    is_there: Callable[[], bool]

    def draw(self, seed: int, *, n_pool: int = 0) -> Digits:
        """The split that ``seed`` draws, with another size of the pool where one is given."""
        sizes = Sizes(self.sizes.labels, self.sizes.tune, n_pool or self.sizes.pool)
        return split(*self.read(seed, sizes), seed, sizes)


def split(images: Gray, truth: IntArray, seed: int, sizes: Sizes) -> Digits:
    """Per class, of a seeded permutation of its images: labels, then tune images, then the pool."""
    rng = np.random.default_rng(seed)
    n_classes = int(truth.max()) + 1
    begins = np.cumsum([sizes.labels, sizes.tune])
    parts: list[list[IntArray]] = [[], [], []]
    for k in range(n_classes):
        rows = rng.permutation(np.flatnonzero(truth == k))
        train, tune, rest = np.split(rows, begins)
        n_pool = _share(sizes.pool, k, n_classes)
        if len(rest) < n_pool:
            raise ValueError(f"class {k} has {len(rest)} images for the pool; {n_pool} are wanted")
        for part, some in zip(parts, (train, tune, rest[:n_pool]), strict=True):
            part.append(some)
    chosen = [np.concatenate(part) for part in parts]
    kept = np.sort(np.concatenate(chosen))
    return Digits(images[kept], truth[kept], *(np.searchsorted(kept, part) for part in chosen))


def _share(total: int, k: int, n_classes: int) -> int:
    """How many of ``total`` are of class ``k``; the shares differ by at most 1."""
    return total // n_classes + (k < total % n_classes)


def _read_mnist(_seed: int, _sizes: Sizes) -> tuple[Gray, IntArray]:
    return read_idx(IMAGES), read_idx(LABELS).astype(np.int64)


def _read_usps(_seed: int, _sizes: Sizes) -> tuple[Gray, IntArray]:
    digits = load_usps(USPS)
    return digits.train_images, digits.train_labels


def _render_letters(seed: int, sizes: Sizes) -> tuple[Gray, IntArray]:
    """As many letters as the split takes, each in a random font, distorted at random."""
    rng = np.random.default_rng([seed, _N_LETTERS])
    fonts = _fonts()
    n_each = [
        sizes.labels + sizes.tune + _share(sizes.pool, k, _N_LETTERS) for k in range(_N_LETTERS)
    ]
    truth = np.repeat(np.arange(_N_LETTERS), n_each)
    images = [_letter(chr(ord("A") + k), fonts[rng.integers(len(fonts))], rng) for k in truth]
    return np.stack(images), truth


def _fonts() -> list[ImageFont.FreeTypeFont]:
    import matplotlib as mpl

    folder = Path(mpl.get_data_path()) / "fonts/ttf"
    found = sorted({path for name in _FONTS for path in folder.glob(f"{name}.ttf")})
    return [ImageFont.truetype(str(path), size=round(0.95 * _CANVAS)) for path in found]


def _letter(letter: str, font: ImageFont.FreeTypeFont, rng: np.random.Generator) -> Gray:
    """Rotated, sheared, scaled, shifted, blurred, faded and noisy: (28, 28)."""
    canvas = Image.new("L", (_CANVAS, _CANVAS))
    middle = _CANVAS / 2
    ImageDraw.Draw(canvas).text((middle, middle), letter, fill=255, font=font, anchor="mm")
    moved = canvas.transform(
        canvas.size, Image.Transform.AFFINE, _affine(rng), Image.Resampling.BILINEAR
    )
    blurred = moved.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 2.5)))
    small = np.asarray(blurred.resize((_SIDE, _SIDE), Image.Resampling.BOX), dtype=np.float64)
    contrast, paper = rng.uniform(0.6, 1.0), rng.uniform(0.0, 30.0)
    noise = rng.normal(0.0, rng.uniform(2.0, 10.0), small.shape)
    return (paper + contrast * small + noise).clip(0, 255).round().astype(np.uint8)


def _affine(rng: np.random.Generator) -> tuple[float, ...]:
    """The six numbers that take a place in the new image to its place on the canvas."""
    turn, shear = rng.normal(0.0, math.radians(6)), rng.normal(0.0, 0.1)
    width, height = np.exp(rng.normal(0.0, 0.08, 2))
    cos, sin = math.cos(turn), math.sin(turn)
    matrix = np.array([[cos, -sin], [sin, cos]]) @ np.array([[1.0, shear], [0.0, 1.0]])
    matrix = matrix @ np.diag([1 / width, 1 / height])
    middle = np.full(2, _CANVAS / 2)
    offset = middle - matrix @ (middle + rng.normal(0.0, 0.03 * _CANVAS, 2))
    return (*matrix[0].tolist(), float(offset[0]), *matrix[1].tolist(), float(offset[1]))


DATASETS: Mapping[str, Dataset] = {
    "MNIST": Dataset(Sizes(50, 100, 2500), _read_mnist, IMAGES.exists),
    "USPS": Dataset(Sizes(30, 50, 2500), _read_usps, USPS.exists),
    "letters": Dataset(Sizes(20, 40, 2500), _render_letters, lambda: True),
}
