"""Two datasets of stripes: the second has its brightness turned round, as another camera might."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import ImageOps
from session_data import stripes, tiny, write_labels, write_stripes

import surelabel
from surelabel import Run
from surelabel.catalog import Catalog

NAMES = ("across", "down")


def old_run(place: Path, **changes: object) -> Run:
    """A finished run on plain stripes."""
    names = [write_stripes(place / "old", name, range(30)) for name in NAMES]
    labels = write_labels(place / "old.csv", [file for files in names for file in files[:20]])
    settings = {"steps": 60, "max_rounds": 1, **changes}
    return surelabel.label(
        place / "old", labels, place / "run2", config=tiny(place / "cache", **settings)
    )


def new_images(place: Path, n: int, n_labelled: int, *, mixed: bool = False) -> tuple[Path, Path]:
    """n negatives of each class, so many of them labelled.

    ``mixed`` makes every other image a positive of the other class's pattern: what the old nets
    say is then right half the time, and so is a class mean, but clusters tell the four kinds.
    """
    folder = place / "new"
    folder.mkdir(parents=True)
    few = []
    for name, other in (NAMES, NAMES[::-1]):
        for number in range(100, 100 + n):
            file = f"{name}-{number}.png"
            odd = mixed and number % 2
            made = stripes(other, number) if odd else ImageOps.invert(stripes(name, number))
            made.save(folder / file)
            few += [file] if number < 100 + n_labelled else []
    return folder, write_labels(place / "few.csv", few)


def in_other_words(table: Path, catalog: Catalog, ids: np.ndarray) -> Path:
    """The label table with the labels of ``ids`` exchanged, into a file beside it."""
    paths = set(catalog.paths[catalog.rows(ids)].tolist())
    lines = table.read_text(encoding="utf-8").splitlines()
    other = {"across": "down", "down": "across"}
    changed = [lines[0]]
    for line in lines[1:]:
        path, label = line.split(",")
        changed.append(f"{path},{other[label] if path in paths else label}")
    made = table.with_name("other.csv")
    made.write_text("\n".join(changed) + "\n", encoding="utf-8")
    return made
