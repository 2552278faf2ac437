"""The photographs of the packaging study: synthetic, a user's own, or made from other ones."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd
from PIL import Image, ImageEnhance

from surelabel.dataset.sources import walk_images
from surelabel.errors import InputError, LabelsError
from surelabel.files.atomic import atomic_path
from surelabel.types import OnProgress, derive_seed, no_progress
from surelabel_studies.use_by_dates.records import Settings
from surelabel_studies.use_by_dates.sets import READABLE, Category, Like
from surelabel_studies.use_by_dates.writer import write_use_by_dates

#: The photographs of each set, in columns ``file`` and ``COLUMNS``; empty or nan where unknown.
Sets: TypeAlias = dict[Like, pd.DataFrame]

COLUMNS = ("category", "location", "day", "month", "day_box", "month_box", "difficulty")
_NUMBERS = ("day", "month", "difficulty")
_BOXES = ("day_box", "month_box")
_MARGIN = 2
"""Pixels around a printed date that are painted over with it."""
_BORDER = 6
"""Pixels around the box from which its background is estimated."""


class Made(StrEnum):
    """How an image is made from another."""

    COPY = "copy"
    """Rotated, shifted and lit a little differently."""
    PARTIAL = "partial"
    """A complete date with the day or the month painted over."""
    BLANK = "blank"
    """A complete date painted over."""


def make(how: Made, source: Path, boxes: Sequence[str], number: int, target: Path) -> Path:
    """Make an image from ``source`` at ``target``, unless it is there; returns ``target``.

    ``number`` makes copies of one image differ. ``boxes`` are those of the day and the month, as
    the set's table has them.
    """
    if target.exists():
        return target
    rng = np.random.default_rng(derive_seed(number, "made", how, target.name))
    with Image.open(source) as file:
        image = file.convert("RGB")
    if how is Made.COPY:
        image = _perturbed(image, rng)
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
    """``image`` with each box filled by the background around it, with the same roughness."""
    pixels = np.asarray(image, dtype=np.float64).copy()
    height, width = pixels.shape[:2]
    for left, top, right, bottom in boxes:
        x0, x1 = max(0, int(left) - _MARGIN), min(width, int(right) + 1 + _MARGIN)
        y0, y1 = max(0, int(top) - _MARGIN), min(height, int(bottom) + 1 + _MARGIN)
        around = np.zeros((height, width), dtype=bool)
        around[max(0, y0 - _BORDER) : y1 + _BORDER, max(0, x0 - _BORDER) : x1 + _BORDER] = True
        around[y0:y1, x0:x1] = False
        if around.any() and y1 > y0 and x1 > x0:
            plane, noise = _background(pixels, around)
            rows, columns = np.mgrid[y0:y1, x0:x1]
            flat = np.stack([rows, columns, np.ones_like(rows)], axis=-1) @ plane
            pixels[y0:y1, x0:x1] = flat + rng.normal(0, noise, (*rows.shape, 1))
    return Image.fromarray(pixels.round().clip(0, 255).astype(np.uint8))


def _background(pixels: np.ndarray, around: np.ndarray) -> tuple[np.ndarray, float]:
    """A plane of color (3, 3) fitted to the pixels ``around`` that are not print, and the noise."""
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


def _perturbed(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    across, down = rng.integers(-6, 7, 2).tolist()
    turned = image.rotate(
        float(rng.uniform(-6, 6)),
        Image.Resampling.BICUBIC,
        translate=(across, down),
        fillcolor=tuple(int(v) for v in np.asarray(image).mean((0, 1))),
    )
    lit = ImageEnhance.Brightness(turned).enhance(float(rng.uniform(0.88, 1.12)))
    return ImageEnhance.Contrast(lit).enhance(float(rng.uniform(0.9, 1.1)))


def synthetic_sets(
    folder: Path,
    likes: Iterable[Like],
    scale: float,
    size: int,
    on_progress: OnProgress = no_progress,
) -> Sets:
    """These sets, rendered below ``folder`` as far as they are not there yet."""
    sets = {}
    for like in likes:
        place = folder / str(like)
        write_use_by_dates(place, Settings(like, 0, scale, size), on_progress=on_progress)
        sets[like] = _read(place)
    return sets


def own_sets(folder: Path) -> Sets:
    """The sets in ``folder``: ``set1`` to ``set4``, each with category folders or a table."""
    there = [like for like in Like if (folder / str(like)).is_dir()]
    if not there:
        raise InputError(
            f"{folder} has none of the folders {', '.join(Like)}: put the photographs of each set "
            f"into folders named after the categories ({', '.join(Category)}; in set4 {READABLE} "
            "and unreadable), or beside a table labels.csv with the columns path,category."
        )
    return {like: _read(folder / str(like)) for like in there}


def _read(place: Path) -> pd.DataFrame:
    table = place / "labels.csv"
    photos = _read_table(table) if table.exists() else _read_folders(place)
    for name in COLUMNS:
        if name not in photos:
            photos[name] = ""
    for name in _NUMBERS:
        photos[name] = pd.to_numeric(photos[name], errors="coerce")
    photos["category"] = photos["category"].replace(READABLE, str(Category.COMPLETE))
    unknown = sorted(set(photos["category"]) - set(map(str, Category)))
    if unknown:
        raise LabelsError(
            f"{place} has the category '{unknown[0]}': it can be {', '.join(Category)} or "
            f"{READABLE}."
        )
    _check_boxes(photos, table)
    return _without_duplicates(photos[["file", *COLUMNS]], table)


def _check_boxes(photos: pd.DataFrame, table: Path) -> None:
    for column in _BOXES:
        for row, text in enumerate(photos[column], start=1):
            if text and not _is_box(text):
                raise LabelsError(
                    f"{table}, row {row}: the {column} '{text}' has to be left, top, right and "
                    "bottom in pixels with blanks between them, such as '10 20 40 30', or empty."
                )


def _is_box(text: str) -> bool:
    try:
        left, top, right, bottom = box = parse_box(text)
    except ValueError:
        return False
    return all(map(math.isfinite, box)) and left < right and top < bottom


def _without_duplicates(photos: pd.DataFrame, table: Path) -> pd.DataFrame:
    """Each photograph once; two rows that contradict each other are refused."""
    photos = photos.drop_duplicates(ignore_index=True)
    again = photos["file"][photos["file"].duplicated()]
    if len(again):
        path = os.path.relpath(again.iloc[0], table.parent)
        rows = photos[photos["file"] == again.iloc[0]]
        column = next(name for name in COLUMNS if len(rows[name].drop_duplicates()) > 1)
        raise LabelsError(
            f"{table} names '{path}' twice with different values of {column}: keep one of the rows."
        )
    return photos


def _read_table(table: Path) -> pd.DataFrame:
    try:
        photos = pd.read_csv(table, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[:1]
        raise LabelsError(
            f"{table} cannot be read as a table ({' '.join(first)}): it needs the columns "
            "path,category, in UTF-8."
        ) from None
    lacking = [name for name in ("path", "category") if name not in photos]
    if lacking:
        raise LabelsError(f"{table} has no column '{lacking[0]}'; it needs path,category.")
    if not len(photos):
        raise LabelsError(f"{table} names no photographs.")
    photos["file"] = [os.path.normpath(table.parent / path) for path in photos["path"]]
    return photos


def _read_folders(place: Path) -> pd.DataFrame:
    keys, _ = walk_images(place)
    inside = [key for key in keys if "/" in key]
    if not inside:
        raise InputError(f"{place} has no images in folders, and no table labels.csv.")
    return pd.DataFrame(
        {
            "file": [str(place / key) for key in inside],
            "category": [key.split("/")[0] for key in inside],
        }
    )
