"""Draws the contact sheets of the synthetic use-by dates, ``docs/pictures/use-by-dates-*.jpg``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from surelabel.types import derive_seed
from surelabel_studies.use_by_dates.faults import Fault, draw_difficulties
from surelabel_studies.use_by_dates.locations import LOCATIONS
from surelabel_studies.use_by_dates.scene import render_scene
from surelabel_studies.use_by_dates.sets import Assignment, Category, Like

PICTURES = Path(__file__).resolve().with_name("pictures")
TILE, GAP, LEFT, TOP = 200, 4, 88, 46
STEPS = (0.1, 0.3, 0.45, 0.55, 0.7, 0.9)
QUALITY = 72


def scene(location: str, category: Category, number: int, **faults: float) -> Image.Image:
    """A photograph of one location and category; with ``faults``, these and no others."""
    rng = np.random.default_rng(derive_seed(0, "contact sheet", location, category, number))
    day, month = int(rng.integers(1, 29)), int(rng.integers(1, 13))
    assigned = Assignment(
        category, location, day if category.has_day else 0, month if category.has_month else 0
    )
    drawn = draw_difficulties(rng, category, Like.SET1, LOCATIONS[location].faults)
    if faults:
        drawn = {fault: faults.get(str(fault), 0.0) for fault in Fault}
    image, _ = render_scene(rng, assigned, drawn, Like.SET1)
    return image


def write_sheet(
    name: str, title: str, columns: Sequence[str], rows: Sequence[tuple[str, list[Image.Image]]]
) -> None:
    """A grid of photographs with the names of its rows and columns."""
    wide, high = LEFT + len(columns) * (TILE + GAP), TOP + len(rows) * (TILE + GAP)
    sheet = Image.new("RGB", (wide, high), "white")
    pen, face = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    pen.text((8, 6), title, "black", face)
    for j, text in enumerate(columns):
        pen.text((LEFT + j * (TILE + GAP) + TILE / 2, 35), text, "black", face, anchor="mm")
    for i, (text, images) in enumerate(rows):
        y = TOP + i * (TILE + GAP)
        pen.text((8, y + TILE / 2), text, "black", face, anchor="lm")
        for j, image in enumerate(images):
            small = image.resize((TILE, TILE), Image.Resampling.LANCZOS)
            sheet.paste(small, (LEFT + j * (TILE + GAP), y))
    PICTURES.mkdir(exist_ok=True)
    sheet.save(PICTURES / f"use-by-dates-{name}.jpg", quality=QUALITY, optimize=True)


def main() -> None:
    write_sheet(
        "locations",
        "Synthetic photographs, not real ones: seven locations, five categories",
        list(Category),
        [(name, [scene(name, c, 3) for c in Category]) for name in LOCATIONS],
    )
    places = list(LOCATIONS)
    at = {fault: places[i % len(places)] for i, fault in enumerate(Fault)}
    rows = [
        (
            fault.replace("_", " "),
            [scene(at[fault], Category.COMPLETE, 1, **{fault: d}) for d in STEPS],
        )
        for fault in Fault
    ]
    steps = [f"{d:g} {'readable' if d < 0.5 else 'unreadable'}".lstrip("0") for d in STEPS]
    write_sheet("faults", "Synthetic photographs: one fault each, difficulty rising", steps, rows)


if __name__ == "__main__":
    main()
