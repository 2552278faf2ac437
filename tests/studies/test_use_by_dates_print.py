"""What is printed is what the record says: the dots are read back."""

from __future__ import annotations

import string

import numpy as np
import pytest

from surelabel_studies.use_by_dates.glyphs import dots_5x7, dots_from_outline
from surelabel_studies.use_by_dates.layout import lay_out
from surelabel_studies.use_by_dates.locations import LOCATIONS, Location
from surelabel_studies.use_by_dates.printing import Box, PrintKind, print_lines
from surelabel_studies.use_by_dates.sets import Category
from surelabel_studies.use_by_dates.textures import Array
from surelabel_studies.use_by_dates.wording import write_date

CHARACTERS = string.digits + string.ascii_uppercase
SPOT = (40.0, 60.0, 420.0, 200.0)


def read(ink: Array, box: Box, n: int) -> str:
    """The characters in a box of 5x7 print: for each cell the nearest glyph."""
    x0, y0, x1, y1 = box
    wide, high = (x1 - x0) / (n * 6.3 - 0.5), (y1 - y0) / 7
    text = ""
    for i in range(n):
        cell = np.zeros((7, 5))
        for row, column in np.ndindex(7, 5):
            y, x = round(y0 + (row + 0.5) * high), round(x0 + (i * 6.3 + column + 0.5) * wide)
            cell[row, column] = ink[y - 1 : y + 2, x - 1 : x + 2].mean()
        fits = {c: float(np.corrcoef(cell.ravel(), dots_5x7(c).ravel())[0, 1]) for c in CHARACTERS}
        text += max(fits, key=lambda c: fits[c])
    return text


@pytest.mark.parametrize("place", LOCATIONS.values(), ids=lambda place: place.name)
def test_day_and_month_can_be_read_from_the_ink(place: Location) -> None:
    wrong = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        day, month = 1 + (seed * 5) % 28, 1 + seed % 12
        text = write_date(rng, place.language, Category.COMPLETE, day, month)
        block = lay_out(rng, text, PrintKind.INKJET, place.language, SPOT, 3.0)
        assert block.made is not None
        spelled = dict(text.pieces)
        for role in ("day", "month"):
            spelling = read(block.made.ink, block.made.boxes[role], len(spelled[role]))
            wrong += spelling != spelled[role]
        assert int(spelled["day"]) == day
        assert spelled["month"] in (f"{month:02d}", place.language.months[month - 1])
        assert spelled["day"] in text.printed
        assert spelled["month"] in text.printed
    assert wrong <= 1, "stray drops may make one of 12 ambiguous"


def test_what_a_category_lacks_is_not_printed() -> None:
    rng = np.random.default_rng(0)
    for place in LOCATIONS.values():
        for _ in range(20):
            nothing = write_date(rng, place.language, Category.NO_DATE, 0, 0)
            assert nothing.printed == ""
            month_only = write_date(rng, place.language, Category.DAY_MISSING, 0, 11)
            assert "day" not in dict(month_only.pieces)
            assert dict(month_only.pieces)["month"] in ("11", place.language.months[10])
            day_only = write_date(rng, place.language, Category.MONTH_MISSING, 7, 0)
            assert dict(day_only.pieces)["day"] == "07"
            assert "month" not in dict(day_only.pieces)
            assert not set(day_only.printed) & set(string.ascii_uppercase)


@pytest.mark.parametrize("kind", PrintKind)
def test_ink_is_inside_the_boxes_of_its_roles(kind: PrintKind) -> None:
    line = [("legend", "USE BY "), ("day", "23"), ("date", " "), ("month", "OCT")]
    made = print_lines(np.random.default_rng(1), kind, [line], 40.0)
    for role in ("day", "month"):
        x0, y0, x1, y1 = (round(side) for side in made.boxes[role])
        inside = made.ink[y0:y1, x0:x1].mean()
        above = made.ink[: y0 - 6].mean()
        assert inside > 0.08
        assert above < 0.01


@pytest.mark.parametrize("kind", PrintKind)
def test_print_has_the_height_that_was_asked_for(kind: PrintKind) -> None:
    made = print_lines(np.random.default_rng(2), kind, [[("day", "8")]], 42.0)
    rows = np.flatnonzero(made.ink.max(axis=1) > 0.5)
    assert abs(rows[-1] - rows[0] + 1 - 42) < 9


def test_every_month_and_legend_has_dots() -> None:
    for place in LOCATIONS.values():
        for text in (*place.language.months, *place.language.legends, place.language.lot):
            for character in text:
                if character != " ":
                    assert dots_5x7(character).any()
                    assert dots_from_outline(character, 9, 7).any()
