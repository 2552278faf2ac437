"""Coding machines: ink-jet, dot-matrix, thermal and laser print as coverage masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from PIL import Image, ImageDraw

from surelabel_studies.use_by_dates.glyphs import (
    Dots,
    Mask,
    dots_5x7,
    dots_from_outline,
    font,
    size_for_caps,
)
from surelabel_studies.use_by_dates.textures import Array
from surelabel_studies.use_by_dates.wording import Piece

Box = tuple[float, float, float, float]
Line = Sequence[Piece]


class PrintKind(StrEnum):
    """The machine that printed the use-by line."""

    INKJET = "ink-jet"
    """Round drops of a 5x7 matrix that fly astray, with satellites."""
    DOT_MATRIX = "dot-matrix"
    """A finer matrix struck through a worn ribbon."""
    THERMAL = "thermal"
    """Sharp outlines with the lines of dead heating points."""
    LASER = "laser"
    """Thin burnt outlines of uneven depth."""


@dataclass(frozen=True)
class Print:
    """Ink coverage (H, W) of some lines, and where each role was printed (x0, y0, x1, y1)."""

    ink: Mask
    boxes: dict[str, Box]
    caps: float
    """Height of the capitals in pixels."""


def print_lines(
    rng: np.random.Generator, kind: PrintKind, lines: Sequence[Line], caps: float
) -> Print:
    """``lines`` by the machine ``kind``, with capitals ``caps`` pixels high."""
    if kind is PrintKind.INKJET:
        return _print_dots(rng, lines, caps, _Matrix(7, 5, dots_5x7))
    if kind is PrintKind.DOT_MATRIX:
        rows, columns = (9, 7) if rng.random() < 0.5 else (12, 8)
        matrix = _Matrix(rows, columns, lambda c: dots_from_outline(c, rows, columns), struck=True)
        return _print_dots(rng, lines, caps, matrix)
    made = _print_outlines(rng, lines, caps, bold=kind is PrintKind.THERMAL)
    wear = _dead_points if kind is PrintKind.THERMAL else _uneven_burn
    return Print(wear(rng, made.ink), made.boxes, made.caps)


@dataclass(frozen=True)
class _Matrix:
    """The dots of a machine: ``rows`` x ``columns`` a character, and a gap between two."""

    rows: int
    columns: int
    glyph: Callable[[str], Dots]
    struck: bool = False

    def dots(self, character: str) -> Dots:
        """(rows, columns) of a character."""
        if character == " ":
            return np.zeros((self.rows, self.columns), dtype=bool)
        return self.glyph(character)


def _print_dots(
    rng: np.random.Generator, lines: Sequence[Line], caps: float, matrix: _Matrix
) -> Print:
    """Every dot is a soft disk with its own place and size."""
    pitch = caps / matrix.rows
    advance = matrix.columns + (1.6 if matrix.struck else 1.3)
    stretch, lean = float(rng.uniform(0.85, 1.15)), float(rng.normal(0, 0.06))
    leading = matrix.rows * float(rng.uniform(1.45, 1.8))
    places: list[Array] = []
    boxes: dict[str, Box] = {}
    for row, line in enumerate(lines):
        column = 0.0
        for role, text in line:
            box = (column, row * leading, column + len(text) * advance - 1, row * leading)
            boxes[role] = _union(boxes.get(role), (*box[:3], box[3] + matrix.rows))
            for character in text:
                y, x = np.nonzero(matrix.dots(character))
                leaning = x + column - lean * (y - matrix.rows / 2)
                places.append(np.stack([y + row * leading, leaning], axis=1))
                column += advance
    dots: Array = np.concatenate(places) * [pitch, pitch * stretch]
    dots += rng.normal(0, (0.05 if matrix.struck else 0.11) * pitch, dots.shape)
    margin = caps
    radius = pitch * float(rng.uniform(0.5, 0.62) if matrix.struck else rng.uniform(0.42, 0.58))
    radii: Array = radius * rng.normal(1, 0.08, len(dots))
    if not matrix.struck:
        dots, radii = _with_satellites(rng, dots, radii, pitch)
    ink = _splat(dots + margin, radii)
    scaled = {
        role: (
            x0 * pitch * stretch + margin - pitch / 2,
            y0 * pitch + margin - pitch / 2,
            x1 * pitch * stretch + margin,
            y1 * pitch + margin - pitch / 2,
        )
        for role, (x0, y0, x1, y1) in boxes.items()
    }
    return Print(ink, scaled, caps)


def _with_satellites(
    rng: np.random.Generator, dots: Array, radii: Array, pitch: float
) -> tuple[Array, Array]:
    """A few small drops beside the ones they broke from."""
    n = max(1, int(len(dots) * rng.uniform(0.0, 0.08)))
    parents = rng.integers(0, len(dots), n)
    around = dots[parents] + rng.normal(0, pitch * 0.9, (n, 2))
    return np.concatenate([dots, around]), np.concatenate([radii, radii[parents] * 0.45])


def _splat(dots: Array, radii: Array) -> Mask:
    """The greatest coverage by any disk; ``dots`` are (y, x)."""
    margin = dots.min()
    height, width = (np.ceil(dots.max(axis=0)) + max(4.0, margin)).astype(int)
    reach = int(np.ceil(radii.max())) + 1
    offsets = np.stack(
        np.meshgrid(np.arange(-reach, reach + 1), np.arange(-reach, reach + 1), indexing="ij"), -1
    ).reshape(-1, 2)
    whole = np.round(dots).astype(int)
    at = whole[:, None] + offsets[None]
    distance = np.hypot(at[..., 0] - dots[:, None, 0], at[..., 1] - dots[:, None, 1])
    cover = np.clip(radii[:, None] - distance + 0.5, 0, 1).astype(np.float32)
    rows, columns = at[..., 0].ravel(), at[..., 1].ravel()
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    ink = np.zeros((height, width), np.float32)
    np.maximum.at(ink, (rows[inside], columns[inside]), cover.ravel()[inside])
    return ink


def _union(one: Box | None, other: Box) -> Box:
    if one is None:
        return other
    return (
        min(one[0], other[0]),
        min(one[1], other[1]),
        max(one[2], other[2]),
        max(one[3], other[3]),
    )


def _print_outlines(
    rng: np.random.Generator, lines: Sequence[Line], caps: float, *, bold: bool
) -> Print:
    face = font(size_for_caps(round(caps)))
    stroke = max(1, round(caps / 16)) if bold and rng.random() < 0.6 else 0
    leading, margin = caps * float(rng.uniform(1.45, 1.8)), caps
    _, top, _, bottom = face.getbbox("H")
    spread = float(rng.uniform(0.0, 0.14)) * caps
    wide = max(sum(len(t) for _, t in line) for line in lines) * caps * 1.2 + 2 * margin
    image = Image.new("L", (int(wide), int(len(lines) * leading + 2 * margin)))
    draw, right = ImageDraw.Draw(image), 0.0
    boxes: dict[str, Box] = {}
    for row, line in enumerate(lines):
        x, y = margin, margin + row * leading
        for role, text in line:
            start = x
            for character in text:
                draw.text((x, y - top), character, 255, face, stroke_width=stroke)
                x += (caps * 0.6 if character == " " else face.getlength(character)) + spread
            boxes[role] = _union(boxes.get(role), (start, y, x - spread, y + bottom - top))
        right = max(right, x)
    cropped = image.crop((0, 0, int(right + margin), image.height))
    return Print(np.asarray(cropped, dtype=np.float32) / np.float32(255), boxes, caps)


def _dead_points(rng: np.random.Generator, ink: Mask) -> Mask:
    """A thermal head has broken points: thin lines along the feed stay white."""
    worn = ink.copy()
    for at in rng.integers(0, len(ink), int(rng.integers(0, 3))):
        worn[at] *= np.float32(0.25)
    return worn * np.float32(rng.uniform(0.85, 1.0))


def _uneven_burn(rng: np.random.Generator, ink: Mask) -> Mask:
    """A laser's depth wanders along the line."""
    period = rng.uniform(30, 90)
    wave = 0.86 + 0.14 * np.sin(np.arange(ink.shape[1]) / period * 6.3 + rng.uniform(0, 6.3))
    return (ink * wave).astype(np.float32)
