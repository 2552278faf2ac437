"""Real image files and tables for the tests of the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from surelabel.dataset.catalog import Catalog


def write_photos(folder: Path, names: Iterable[str], side: int = 20, seed: int = 0) -> Path:
    """Write a PNG of random colors under each name below ``folder``; no two are equal."""
    for i, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng([seed, i]).integers(0, 256, (side, side, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(path, format="PNG")
    return folder


def write_text(path: Path, text: str) -> Path:
    """Write exactly ``text``."""
    path.write_text(text, encoding="utf-8", newline="")
    return path


def labels_by_path(catalog: Catalog) -> dict[str, str]:
    """What each labeled image is called, by path."""
    return {
        str(path): catalog.classes[label]
        for path, label in zip(catalog.paths, catalog.labels, strict=True)
        if label >= 0
    }


def splits_by_path(catalog: Catalog) -> dict[str, str]:
    """The split of each image, by path."""
    return dict(zip(catalog.paths.tolist(), catalog.splits.tolist(), strict=True))
