"""The photographs of the packaging study: synthetic sets, or a user's own folders."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from surelabel.catalog.walk import walk_images
from surelabel.datasets.use_by_dates import READABLE, Category, Like, Settings, write_use_by_dates
from surelabel.errors import InputError, LabelsError
from surelabel.types import OnProgress, no_progress

COLUMNS = ("category", "location", "day", "month", "day_box", "month_box", "difficulty")
_NUMBERS = ("day", "month", "difficulty")

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
    return found[["file", *COLUMNS]]


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
    found["file"] = [str(table.parent / path) for path in found["path"]]
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
