"""Two datasets of stripes; the second has images that the nets of the first get wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PIL import ImageOps
from workflow_data import stripes, tiny, write_labels, write_stripes

import surelabel
from surelabel.api import Run

NAMES = ("across", "down")
OTHER = dict(zip(NAMES, NAMES[::-1], strict=True))
FIRST, LAST = 100, 170
KS = (24,)


def old_run(place: Path, **changes: object) -> Run:
    """A finished run on plain stripes."""
    names = [write_stripes(place / "old", name, range(30)) for name in NAMES]
    labels = write_labels(place / "old.csv", [file for files in names for file in files[:20]])
    settings = {"steps": 60, "max_rounds": 1, **changes}
    return surelabel.label(
        place / "old", labels, place / "run2", config=tiny(place / "cache", **settings)
    )


def new_images(folder: Path) -> Path:
    """Even numbers are negatives of the class's stripes, odd ones look like the other class.

    The old nets are then right half the time, and so are class means, but clusters separate the
    four kinds.
    """
    folder.mkdir(parents=True)
    for name, other in OTHER.items():
        for number in range(FIRST, LAST):
            made = stripes(other, number) if number % 2 else ImageOps.invert(stripes(name, number))
            made.save(folder / f"{name}-{number}.png")
    return folder


def few_labels(
    path: Path, split_of: Callable[[int], str], *, wrong_on: str = "", upto: int = 150
) -> Path:
    """Labels of the first images in the splits of ``split_of``, wrong ones in one split."""
    lines = []
    for name in NAMES:
        for number in range(FIRST, upto):
            split = split_of(number)
            label = OTHER[name] if split == wrong_on else name
            lines.append(f"{name}-{number}.png,{label},{split}")
    return write_labels(path, lines, "path,label,split")


def split_of(number: int) -> str:
    """22 labels of each class to learn and decide from, fewer than ``KS`` to fit; then others."""
    if number >= 150:
        return "certify"
    return "train" if number < 122 else "tune"
