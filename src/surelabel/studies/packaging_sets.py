"""The photographs of the packaging study: synthetic sets, or a user's own folders."""

from __future__ import annotations

import math
import os
from pathlib import Path

import pandas as pd

from surelabel.catalog.walk import walk_images
from surelabel.datasets.use_by_dates import READABLE, Category, Like, Settings, write_use_by_dates
from surelabel.errors import InputError, LabelsError
from surelabel.studies.packaging_making import parse_box
from surelabel.types import OnProgress, no_progress

COLUMNS = ("category", "location", "day", "month", "day_box", "month_box", "difficulty")
_NUMBERS = ("day", "month", "difficulty")
_BOXES = ("day_box", "month_box")

#: Photographs by set; columns ``file`` and ``COLUMNS``, empty or nan where nothing is known.
Sets = dict[Like, pd.DataFrame]


def synthetic_sets(
    folder: Path, scale: float, size: int, on_progress: OnProgress = no_progress
) -> Sets:
    """All four sets, rendered below ``folder``; what is there already is not made again."""
    found = {}
    for like in Like:
        place = folder / str(like)
        write_use_by_dates(place, Settings(like, 0, scale, size), on_progress=on_progress)
        found[like] = _read(place)
    return found


def own_sets(folder: Path) -> Sets:
    """The sets that ``folder`` holds: ``set1`` to ``set4``, each with class folders or a table."""
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
    found = _of_table(table) if table.exists() else _of_folders(place)
    for name in COLUMNS:
        if name not in found:
            found[name] = ""
    for name in _NUMBERS:
        found[name] = pd.to_numeric(found[name], errors="coerce")
    found["category"] = found["category"].replace(READABLE, str(Category.COMPLETE))
    unknown = sorted(set(found["category"]) - set(map(str, Category)))
    if unknown:
        raise LabelsError(
            f"{place} has the category '{unknown[0]}': it can be {', '.join(Category)} or "
            f"{READABLE}."
        )
    _check_boxes(found, table)
    return _once(found[["file", *COLUMNS]], table)


def _check_boxes(found: pd.DataFrame, table: Path) -> None:
    for column in _BOXES:
        for row, text in enumerate(found[column], start=1):
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


def _once(found: pd.DataFrame, table: Path) -> pd.DataFrame:
    """Each photograph once; two rows that say different things of it are refused."""
    found = found.drop_duplicates(ignore_index=True)
    again = found["file"][found["file"].duplicated()]
    if len(again):
        path = os.path.relpath(again.iloc[0], table.parent)
        rows = found[found["file"] == again.iloc[0]]
        column = next(name for name in COLUMNS if len(rows[name].drop_duplicates()) > 1)
        raise LabelsError(
            f"{table} names '{path}' twice with different values of {column}: keep one of the rows."
        )
    return found


def _of_table(table: Path) -> pd.DataFrame:
    try:
        found = pd.read_csv(table, dtype=str, keep_default_na=False, encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        first = str(error).strip().splitlines()[:1]
        raise LabelsError(
            f"{table} cannot be read as a table ({' '.join(first)}): it needs the columns "
            "path,category, in UTF-8."
        ) from None
    lacking = [name for name in ("path", "category") if name not in found]
    if lacking:
        raise LabelsError(f"{table} has no column '{lacking[0]}'; it needs path,category.")
    if not len(found):
        raise LabelsError(f"{table} names no photographs.")
    found["file"] = [os.path.normpath(table.parent / path) for path in found["path"]]
    return found


def _of_folders(place: Path) -> pd.DataFrame:
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
