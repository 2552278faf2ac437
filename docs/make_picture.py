"""Draws ``docs/photographs.png``: photographs of a real run, with the labels it gave them.

The photographs are synthetic (``surelabel data use-by-dates``), so they may be shown. The tiles are
drawn at random, not chosen; wrong labels are marked. Part of ``make docs``.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw, ImageFont

import surelabel
from surelabel_studies.use_by_dates.records import Settings
from surelabel_studies.use_by_dates.sets import Like
from surelabel_studies.use_by_dates.writer import write_use_by_dates

TARGET = Path(__file__).resolve().with_name("photographs.png")
SCALE, N_LABELS, SEED = 0.1, 300, 0
COLUMNS, TILE, GAP, MARGIN = 8, 136, 12, 16
HEADING, CAPTION = 40, 24
WIDTH = 2 * MARGIN + COLUMNS * TILE + (COLUMNS - 1) * GAP
INK, GRAY, BLUE, ORANGE, RED = "#1f2328", "#59636e", "#0969da", "#9a6700", "#cf222e"


@dataclass(frozen=True)
class Tile:
    """One photograph with a line of text below it."""

    photograph: Path
    text: str
    color: str
    is_wrong: bool = False


@dataclass(frozen=True)
class Strip:
    """A heading with a row or more of photographs."""

    heading: str
    color: str
    tiles: Sequence[Tile]

    @property
    def height(self) -> int:
        n_rows = -(-len(self.tiles) // COLUMNS)
        return HEADING + n_rows * (TILE + CAPTION)


def label_photographs(folder: Path) -> tuple[pd.DataFrame, dict[str, str]]:
    """Render photographs and label them from ``N_LABELS`` random labels; annotations and truth."""
    write_use_by_dates(folder / "dates", Settings(Like.SET4, SEED, SCALE, 299))
    table = pd.read_csv(folder / "dates" / "labels.csv", dtype=str)
    table["path"] = table["path"].str.removeprefix("images/")
    drawn = table.sample(N_LABELS, random_state=SEED)[["path", "label"]]
    drawn.to_csv(folder / "labels.csv", index=False)
    run = surelabel.label(
        folder / "dates" / "images", labels=folder / "labels.csv", out=folder / "run", seed=SEED
    )
    return run.annotations, dict(zip(table["path"], table["label"], strict=True))


def strips(annotations: pd.DataFrame, truth: dict[str, str], images: Path) -> list[Strip]:
    """What people labeled, what the run labeled, and what it left unlabeled."""
    source, label = annotations["source"].fillna(""), annotations["label"].fillna("")
    given, pseudo = annotations[source == "given"], annotations[source == "pseudo"]
    left = annotations[label == ""]
    pairs = zip(pseudo["path"].astype(str), pseudo["label"].astype(str), strict=True)
    n_wrong = sum(name != truth[path] for path, name in pairs)
    rng = np.random.default_rng(SEED)

    def tiles(rows: pd.DataFrame, n: int, column: str, color: str) -> list[Tile]:
        """``n`` of the rows at random, with the class in ``column`` and its probability."""
        chosen = rows.iloc[rng.permutation(len(rows))[:n]]
        made = []
        for path, name, p in zip(
            chosen["path"].astype(str),
            chosen[column].astype(str),
            chosen["probability"].astype(float),
            strict=True,
        ):
            text = name if color == INK else f"{name} {p:.2f}{'?' if column == 'guess' else ''}"
            is_wrong = column == "label" and name != truth[path]
            made.append(Tile(images / path, text, color, is_wrong))
        return made

    return [
        Strip(
            f"Labels given: {len(given):,} of {len(annotations):,} photographs",
            INK,
            tiles(given, COLUMNS, "label", INK),
        ),
        Strip(
            f"Labeled by surelabel, with its probability: {len(pseudo):,}, "
            f"{n_wrong:,} of them wrong",
            BLUE,
            tiles(pseudo, COLUMNS, "label", BLUE),
        ),
        Strip(
            f"Left for a person, with surelabel's guess: {len(left):,}",
            ORANGE,
            tiles(left, COLUMNS, "guess", ORANGE),
        ),
    ]


def draw(sheet_strips: Sequence[Strip]) -> Image.Image:
    """All strips one below the other."""
    height = sum(strip.height for strip in sheet_strips) + MARGIN
    sheet = Image.new("RGB", (WIDTH, height), "white")
    top = 0
    for strip in sheet_strips:
        _draw_strip(sheet, strip, top)
        top += strip.height
    return sheet


def _draw_strip(sheet: Image.Image, strip: Strip, top: int) -> None:
    pen = ImageDraw.Draw(sheet)
    middle = top + HEADING / 2 + 2
    pen.text((MARGIN, middle), strip.heading, strip.color, ImageFont.load_default(20), anchor="lm")
    for number, tile in enumerate(strip.tiles):
        row, column = divmod(number, COLUMNS)
        x = MARGIN + column * (TILE + GAP)
        y = top + HEADING + row * (TILE + CAPTION)
        with Image.open(tile.photograph) as photograph:
            small = photograph.convert("RGB").resize((TILE, TILE), Image.Resampling.LANCZOS)
        sheet.paste(small, (x, y))
        text, color = tile.text, tile.color
        if tile.is_wrong:
            pen.rectangle((x, y, x + TILE - 1, y + TILE - 1), outline=RED, width=4)
            text, color = f"{text}  wrong", RED
        pen.text(
            (x + TILE / 2, y + TILE + CAPTION / 2 - 2),
            text,
            color,
            ImageFont.load_default(15),
            anchor="mm",
        )


def write_picture(annotations: pd.DataFrame, truth: dict[str, str], images: Path) -> None:
    """With 256 colors, which keeps a PNG of photographs small."""
    sheet = draw(strips(annotations, truth, images))
    sheet.quantize(256, dither=Image.Dither.FLOYDSTEINBERG).save(TARGET, optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        annotations, truth = label_photographs(folder)
        write_picture(annotations, truth, folder / "dates" / "images")
    print(f"Wrote {TARGET}.", file=sys.stderr)


if __name__ == "__main__":
    main()
