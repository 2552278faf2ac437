"""The date block on the flat packaging: legend, date, lot number, each where coders put it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw

from surelabel_studies.use_by_dates.glyphs import font
from surelabel_studies.use_by_dates.packaging import Artwork
from surelabel_studies.use_by_dates.printing import Box, Line, Print, PrintKind, print_lines
from surelabel_studies.use_by_dates.textures import Array, Pixels
from surelabel_studies.use_by_dates.wording import DateText, Language, Piece

_LONGEST_LEGEND = 13
_LONGEST_LINE = 16


@dataclass(frozen=True)
class Block:
    """The coder's lines, printed but not yet on the packaging; places in its pixels."""

    made: Print | None
    at: tuple[int, int]
    """Left and top of the ink mask."""
    target: Box
    """Day and month, or where they would be."""
    boxes: dict[str, Box]
    caps: float
    legend: tuple[str, float, float] | None
    """The legend that the packaging carries, and where."""


def lay_out(
    rng: np.random.Generator,
    text: DateText,
    kind: PrintKind,
    language: Language,
    spot: Box,
    unit: float,
) -> Block:
    """Choose lines, size and place in the spot (in pixels of a photograph 299 wide)."""
    lines, preprinted = _lines(rng, text, language)
    x0, y0, x1, y1 = (v * unit for v in spot)
    longest = max((sum(len(t) for _, t in line) for line in lines), default=10)
    size = float(rng.uniform(16, 24))
    by_width = (x1 - x0) * 1.02 / (max(longest, 5) * 0.95)
    caps = min(size * unit, by_width, (y1 - y0) / (max(len(lines), 1) * 1.6))
    slack_x, slack_y = rng.random(2)
    made = print_lines(rng, kind, lines, caps) if lines else None
    height, width = made.ink.shape if made else (caps * 3, caps * 8)
    left = x0 - caps + slack_x * max(0.0, (x1 - x0) - (width - 2 * caps))
    top = y0 - caps * 0.8 + slack_y * max(0.0, (y1 - y0) - (height - 2 * caps))
    at = (round(left), round(top))
    boxes = {role: _moved(box, at) for role, box in made.boxes.items()} if made else {}
    dated = [boxes[role] for role in ("day", "month") if role in boxes]
    target = _around(dated) if dated else _beside(boxes, (x0, y0, x1, y1), caps)
    where = None
    if preprinted:
        first = min((box[1] for box in boxes.values()), default=y0 + caps)
        where = (preprinted, at[0] + caps, first - 15 * unit)
    return Block(made, at, target, boxes, caps, where)


def _lines(rng: np.random.Generator, text: DateText, language: Language) -> tuple[list[Line], str]:
    date: list[Piece] = list(text.pieces)
    by_coder, has_lot, lot_first = rng.random(3)
    lot: list[Piece] = [("lot", _lot(rng, language))]
    lines: list[Line] = [date] if date else []
    preprinted = ""
    if text.legend and (len(text.legend) > _LONGEST_LEGEND or by_coder < 0.4):
        preprinted = text.legend
    elif text.legend and len(text.legend) + 1 + len(text.printed) <= _LONGEST_LINE:
        lines = [[("legend", text.legend + " "), *date]]
    elif text.legend:
        lines = [[("legend", text.legend)], *lines]
    if has_lot < 0.65:
        lines = [lot, *lines] if lot_first < 0.2 and not preprinted else [*lines, lot]
    return lines, preprinted


def _lot(rng: np.random.Generator, language: Language) -> str:
    number, hour, minute = rng.integers(1000, 99999), rng.integers(0, 24), rng.integers(0, 60)
    form = int(rng.integers(4))
    if form == 0:
        return f"{language.lot} {number}"
    if form == 1:
        return f"L{number} {hour:02d}:{minute:02d}"
    if form == 2:
        return f"{hour:02d}:{minute:02d} {'ABCDEF'[int(rng.integers(6))]}{number % 100}"
    return f"{language.lot}{number}{'ABCDEF'[int(rng.integers(6))]}"


def _moved(box: Box, at: tuple[int, int]) -> Box:
    return (box[0] + at[0], box[1] + at[1], box[2] + at[0], box[3] + at[1])


def _around(boxes: list[Box]) -> Box:
    x0, y0, x1, y1 = zip(*boxes, strict=True)
    return (min(x0), min(y0), max(x1), max(y1))


def _beside(boxes: dict[str, Box], spot: Box, caps: float) -> Box:
    """Where the date of a package without one would be: after the legend, or in the spot."""
    if "legend" in boxes:
        x0, _, x1, y1 = boxes["legend"]
        return (x0, y1 - caps, max(x1, x0 + 6 * caps), y1 + caps * 0.5)
    x, y = (spot[0] + spot[2]) / 2, (spot[1] + spot[3]) / 2
    return (x - 3 * caps, y - caps / 2, x + 3 * caps, y + caps / 2)


def put_on(art: Artwork, block: Block, strength: Array | float, unit: float) -> Pixels:
    """The packaging with the block on it; ``strength`` is how much of the ink is left."""
    image = Image.fromarray(art.pixels)
    if block.legend is not None:
        text, x, y = block.legend
        face = font(max(6, round(11.5 * unit)))
        ImageDraw.Draw(image).text((x, y), text, art.small_print, face)
    pixels = np.array(image)
    if block.made is None:
        return pixels
    left, top = block.at
    ink = block.made.ink * strength
    y0, x0 = max(0, top), max(0, left)
    y1, x1 = min(len(pixels), top + ink.shape[0]), min(pixels.shape[1], left + ink.shape[1])
    cover = ink[y0 - top : y1 - top, x0 - left : x1 - left, None] * np.float32(0.93)
    under = pixels[y0:y1, x0:x1]
    pixels[y0:y1, x0:x1] = (under * (1 - cover) + np.asarray(art.ink) * cover).astype(np.uint8)
    return pixels
