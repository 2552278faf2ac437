"""Parts of printed packaging: words, tables, bar codes, logos, stickers, pictures of food."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from surelabel.datasets.use_by_dates.glyphs import font
from surelabel.datasets.use_by_dates.textures import Array, fractal

Color = tuple[int, int, int]
Area = tuple[float, float, float, float]

WHITE: Color = (246, 245, 240)
BLACK: Color = (24, 22, 22)


class Sheet:
    """A flat piece of packaging; lengths are in pixels of a photograph 299 wide."""

    def __init__(self, side: float, unit: float, color: Color, rng: np.random.Generator) -> None:
        self.unit, self.side, self.rng = unit, side, rng
        self.is_mirrored = bool(rng.random() < 0.5)
        pixels = round(side * unit)
        self.image = Image.new("RGB", (pixels, pixels), color)
        self.draw = ImageDraw.Draw(self.image)

    def area(self, area: Area) -> tuple[int, int, int, int]:
        """An area (x0, y0, x1, y1) in pixels."""
        x0, y0, x1, y1 = (round(v * self.unit) for v in area)
        return x0, y0, max(x0 + 1, x1), max(y0 + 1, y1)

    def place(self, x0: float, y0: float, x1: float, y1: float) -> Area:
        """An area that is on the other side of mirrored packaging, and never quite the same."""
        dx, dy = self.rng.uniform(-9, 9, 2)
        if self.is_mirrored:
            x0, x1 = self.side - x1, self.side - x0
        return (x0 + dx, y0 + dy, x1 + dx, y1 + dy)

    def fill(self, area: Area, color: Color, radius: float = 0.0) -> None:
        """A rectangle, with round corners if ``radius`` says so."""
        self.draw.rounded_rectangle(self.area(area), radius * self.unit, fill=color)

    def text(
        self, at: tuple[float, float], text: str, size: float, color: Color, bold: float = 0
    ) -> None:
        """A line of text with its top left corner ``at``."""
        stroke = round(bold * self.unit)
        place = (at[0] * self.unit, at[1] * self.unit)
        face = font(max(5, round(size * self.unit)))
        self.draw.text(place, text, color, face, stroke_width=stroke, stroke_fill=color)

    def shade(self, area: Area, factor: Array | float, add: Array | float = 0.0) -> None:
        """Multiply the pixels of an area; ``factor`` is a number or an array of its shape."""
        box = self.area(area)
        x0, y0 = max(0, box[0]), max(0, box[1])
        x1, y1 = min(box[2], self.image.width), min(box[3], self.image.height)
        pixels = np.asarray(self.image.crop((x0, y0, x1, y1)), dtype=np.float32)
        made = np.clip(pixels * factor + add, 0, 255).astype(np.uint8)
        self.image.paste(Image.fromarray(made), (x0, y0))

    def cloud(self, area: Area, cells: tuple[int, int], octaves: int = 3) -> Array:
        """Noise (h, w, 1) of unit deviation in the shape of an area inside the sheet."""
        x0, y0, x1, y1 = self.area(area)
        height, width = min(y1, self.image.height) - y0, min(x1, self.image.width) - x0
        return fractal(self.rng, height, width, cells, octaves)[..., None]


def gradient(sheet: Sheet, area: Area, one: Color, other: Color, angle: float) -> None:
    """A smooth change of color across an area."""
    x0, y0, x1, y1 = sheet.area(area)
    y, x = np.mgrid[0 : 1 : (y1 - y0) * 1j, 0 : 1 : (x1 - x0) * 1j].astype(np.float32)
    t = np.clip((x - 0.5) * np.cos(angle) + (y - 0.5) * np.sin(angle) + 0.5, 0, 1)[..., None]
    pixels = np.asarray(one, np.float32) * (1 - t) + np.asarray(other, np.float32) * t
    sheet.image.paste(Image.fromarray(pixels.astype(np.uint8)), (x0, y0))


def paragraph(sheet: Sheet, area: Area, words: Sequence[str], size: float, color: Color) -> None:
    """Small print that fills an area: ingredients, storage, addresses."""
    x0, y0, x1, y1 = area
    y = y0
    while y + size < y1:
        line, width = [], 0.0
        while width < (x1 - x0):
            word = str(sheet.rng.choice(words))
            if sheet.rng.random() < 0.1:
                word = f"{word} {sheet.rng.integers(1, 99)}%,"
            line.append(word)
            width += (len(word) + 1) * size * 0.52
        sheet.text((x0, y), " ".join(line[:-1]), size, color)
        y += size * 1.25


def nutrition(sheet: Sheet, area: Area, words: Sequence[str], color: Color) -> None:
    """A table of numbers that are not dates."""
    x0, y0, x1, y1 = area
    rng, row = sheet.rng, 11.0
    sheet.draw.rectangle(sheet.area(area), outline=color, width=max(1, round(sheet.unit)))
    for i in range(int((y1 - y0) / row)):
        y = y0 + i * row
        sheet.fill((x0, y, x1, y + 0.6), color)
        sheet.text((x0 + 3, y + 2), str(rng.choice(words)), 7.5, color)
        sheet.text((x1 - 32, y + 2), f"{rng.integers(0, 60)}.{rng.integers(10)} g", 7.5, color)


def barcode(sheet: Sheet, area: Area) -> None:
    """Thirteen digits as bars on white."""
    x0, y0, x1, y1 = area
    rng = sheet.rng
    sheet.fill((x0 - 6, y0 - 4, x1 + 6, y1 + 9), WHITE)
    modules = 95
    wide = (x1 - x0) / modules
    runs = rng.integers(1, 5, 60)
    at = 0
    for i, run in enumerate(runs):
        run = int(min(run, modules - at))
        if i % 2 == 0 and run > 0:
            sheet.draw.rectangle(
                sheet.area((x0 + at * wide, y0, x0 + (at + run) * wide, y1)), BLACK
            )
        at += run
        if at >= modules:
            break
    digits = "".join(map(str, rng.integers(0, 10, 13)))
    sheet.text((x0 - 2, y1 - 1), f"{digits[0]} {digits[1:7]} {digits[7:]}", 9.0, BLACK)


def logo(sheet: Sheet, center: tuple[float, float], size: float, name: str, color: Color) -> None:
    """A brand's name in an oval or a bar, a little turned."""
    rng, unit = sheet.rng, sheet.unit
    width = len(name) * size * 0.68 + size
    patch = Image.new("RGBA", (round(width * unit) + 8, round(size * 2 * unit) + 8))
    pen = ImageDraw.Draw(patch)
    box = (2, 2, patch.width - 3, patch.height - 3)
    rim = tinted(color, 0.15, 216)
    if rng.random() < 0.5:
        pen.ellipse(box, fill=color, outline=rim, width=max(2, round(2.5 * unit)))
    else:
        pen.rounded_rectangle(
            box, size * 0.5 * unit, fill=color, outline=rim, width=round(2 * unit)
        )
    face = font(round(size * 1.05 * unit))
    stroke = max(1, round(size * 0.05 * unit))
    middle = (patch.width / 2, patch.height / 2)
    pen.text(middle, name, WHITE, face, anchor="mm", stroke_width=stroke, stroke_fill=WHITE)
    turned = patch.rotate(float(rng.uniform(-9, 9)), Image.Resampling.BICUBIC, expand=True)
    at = (round(center[0] * unit - turned.width / 2), round(center[1] * unit - turned.height / 2))
    sheet.image.paste(turned, at, turned)


def sticker(sheet: Sheet, area: Area, color: Color, radius: float = 5.0) -> None:
    """A label stuck on: a soft shadow, paper, a thin edge."""
    x0, y0, x1, y1 = area
    for i in range(4):
        edge = 3.0 - i
        sheet.draw.rounded_rectangle(
            sheet.area((x0 - edge + 1.5, y0 - edge + 2, x1 + edge + 1.5, y1 + edge + 2)),
            (radius + edge) * sheet.unit,
            outline=(60, 58, 56) if i > 1 else (110, 106, 102),
        )
    sheet.fill(area, color, radius)
    sheet.shade(
        (x0 + 2, y0 + 2, x1 - 2, y1 - 2),
        1.0,
        sheet.cloud((x0 + 2, y0 + 2, x1 - 2, y1 - 2), (60, 60), 2) * 2.2,
    )


def pieces(sheet: Sheet, area: Area, palette: Sequence[Color], size: float, n: int) -> None:
    """Berries, peas, pasta, croutons: heaped ovals with a light and a dark side."""
    x0, y0, x1, y1 = area
    rng = sheet.rng
    for _ in range(n):
        x, y = rng.uniform(x0, x1), rng.uniform(y0, y1)
        a, b = size * rng.uniform(0.7, 1.3), size * rng.uniform(0.5, 1.0)
        color = np.array(palette[int(rng.integers(len(palette)))]) * rng.uniform(0.8, 1.15)
        for t in np.linspace(0, 1, 8):
            k, shift = 1.08 - 0.9 * t, t * size * 0.28
            tone = tinted(color, 0.5 + 0.75 * t**0.6 + 0.3 * t**6)
            box = (x - a * k - shift, y - b * k - shift, x + a * k - shift, y + b * k - shift)
            sheet.draw.ellipse(sheet.area(box), fill=tone)
    _photographed(sheet, (x0 - 2 * size, y0 - 2 * size, x1 + 2 * size, y1 + 2 * size))


def tinted(color: Sequence[float] | Array, factor: float, add: float = 0.0) -> Color:
    """A color made darker or lighter."""
    r, g, b = (min(255, max(0, int(v * factor + add))) for v in color)
    return r, g, b


def _photographed(sheet: Sheet, area: Area) -> None:
    """Soften and roughen an area: printed pictures are photographs, not drawings."""
    x0, y0, x1, y1 = sheet.area(area)
    box = (max(0, x0), max(0, y0), min(x1, sheet.image.width), min(y1, sheet.image.height))
    soft = sheet.image.crop(box).filter(ImageFilter.GaussianBlur(1.1 * sheet.unit))
    pixels = np.asarray(soft, np.float32)
    height, width = pixels.shape[:2]
    rough = fractal(sheet.rng, height, width, (40, 40), 2)[..., None]
    made = np.clip(pixels * (1 + 0.05 * rough), 0, 255).astype(np.uint8)
    sheet.image.paste(Image.fromarray(made), box[:2])


def leaves(sheet: Sheet, area: Area, palette: Sequence[Color], n: int) -> None:
    """Salad: pointed leaves with a vein."""
    x0, y0, x1, y1 = area
    rng, unit = sheet.rng, sheet.unit
    t = np.linspace(-1, 1, 9)
    for _ in range(n):
        x, y, turn = rng.uniform(x0, x1), rng.uniform(y0, y1), rng.uniform(0, 6.3)
        length, width = rng.uniform(18, 46), rng.uniform(6, 15)
        side = width * (1 - t**2) * (1 + 0.15 * rng.standard_normal(9))
        rim = np.concatenate(
            [np.stack([t * length, side], 1), np.stack([t * length, -side], 1)[::-1]]
        )
        rotation = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        shape = (rim @ rotation + [x, y]) * unit
        color = np.array(palette[int(rng.integers(len(palette)))]) * rng.uniform(0.55, 1.2)
        tone, vein = tinted(color, 1.0), tinted(color, 1.3)
        sheet.draw.polygon([(float(a), float(b)) for a, b in shape], fill=tone)
        ends = (np.array([[-length, 0], [length, 0]]) @ rotation + [x, y]) * unit
        sheet.draw.line(
            [(float(a), float(b)) for a, b in ends], fill=vein, width=max(1, round(unit))
        )
    _photographed(sheet, area)


def meat(sheet: Sheet, area: Area, color: Color) -> None:
    """A cut of meat with its fat."""
    base = np.asarray(color, np.float32)
    fibers = sheet.cloud(area, (30, 6), 3)
    fat = np.clip((sheet.cloud(area, (9, 5), 3) - 0.9) * 3, 0, 1)
    made = (base * (1 + 0.14 * fibers)) * (1 - fat) + np.array([232, 214, 200], np.float32) * fat
    box = sheet.area(area)
    pixels = Image.fromarray(np.clip(made, 0, 255).astype(np.uint8))
    mask = Image.new("L", pixels.size)
    ImageDraw.Draw(mask).rounded_rectangle((0, 0, *pixels.size), 40 * sheet.unit, fill=255)
    sheet.image.paste(pixels, box[:2], mask)


def badge(sheet: Sheet, center: tuple[float, float], size: float, color: Color, text: str) -> None:
    """A star or a disk with a price."""
    x, y = center[0] * sheet.unit, center[1] * sheet.unit
    angles = np.linspace(0, 2 * np.pi, 33)[:-1]
    radius = np.where(np.arange(32) % 2, 0.86 if sheet.rng.random() < 0.5 else 1.0, 1.0)
    radius = radius * size * sheet.unit
    rim = [(x + r * np.cos(a), y + r * np.sin(a)) for r, a in zip(radius, angles, strict=True)]
    sheet.draw.polygon(rim, fill=color)
    ink = BLACK if sum(color) > 400 else WHITE
    sheet.draw.text((x, y), text, ink, font(round(size * 0.62 * sheet.unit)), anchor="mm")
