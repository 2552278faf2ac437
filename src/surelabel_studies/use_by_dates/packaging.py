"""The packaging of each location: products drawn flat, with the place where the date goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

from surelabel.types import derive_seed
from surelabel_studies.use_by_dates.glyphs import font
from surelabel_studies.use_by_dates.textures import Array, Pixels, fractal

Color: TypeAlias = tuple[int, int, int]
Area: TypeAlias = tuple[float, float, float, float]

SIDE = 540.0
"""Side of a product's flat picture, in pixels of a photograph 299 wide."""
N_PRODUCTS = 10
"""Products per location."""
WHITE: Color = (246, 245, 240)
BLACK: Color = (24, 22, 22)
_CACHE_BYTES = 200_000_000


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
        """A filled rectangle, with round corners if ``radius`` is not 0."""
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


_BRANDS = ("Halmo", "Vellor", "Brisca", "Tamaro", "Lunet", "Orvada", "Kestin", "Mirabo", "Sundal")
_TITLES = {
    "bakery": ("SOFT WHITE", "SEEDED LOAF", "BRIOCHE", "OAT ROLLS"),
    "dairy": ("Joghurt mild", "Erdbeer", "Frischer Quark", "Sahne Pudding"),
    "butcher": ("STEAK HACHE", "ENTRECOTE", "BOEUF 5%", "ROTI DE PORC"),
    "produce": ("VELDSLA", "RUCOLA", "SALADE MIX", "SPINAZIE"),
    "drinks": ("NARANJA", "LIMON", "COLA", "TE FRIO"),
    "frozen": ("PIZZA MARGHERITA", "LASAGNE", "PISELLI FINI", "GELATO"),
    "meals": ("SPAGHETTI", "GULASZ", "PIEROGI", "KURCZAK CURRY"),
}


@dataclass(frozen=True)
class Artwork:
    """The flat packaging of one product, before the date is printed on it."""

    pixels: Pixels
    spot: Area
    """Where the date is printed, in pixels of a photograph 299 wide."""
    ink: Color
    small_print: Color
    """Color of the legend where the packaging itself carries it."""


#: A painted sheet, the spot for the date, and the colors of ink and small print.
Painted: TypeAlias = tuple[Sheet, Area, Color, Color]
_drawn: dict[tuple[str, int, int, float], Artwork] = {}


def artwork(location: str, product: int, seed: int, unit: float, words: tuple[str, ...]) -> Artwork:
    """The flat picture of a product; the same for every photograph of it."""
    key = (location, product, seed, unit)
    if key not in _drawn:
        if sum(art.pixels.nbytes for art in _drawn.values()) > _CACHE_BYTES:
            _drawn.clear()
        rng = np.random.default_rng(derive_seed(seed, "use-by-dates", location, "product", product))
        sheet, spot, ink, small = _PAINTERS[location](rng, unit, words)
        _drawn[key] = Artwork(np.asarray(sheet.image), spot, ink, small)
    return _drawn[key]


def _pick(rng: np.random.Generator, *colors: Color) -> Color:
    return colors[int(rng.integers(len(colors)))]


def _name(rng: np.random.Generator, names: tuple[str, ...]) -> str:
    return names[int(rng.integers(len(names)))]


def _whole(sheet: Sheet) -> Area:
    return (0, 0, sheet.side, sheet.side)


def _price(rng: np.random.Generator) -> str:
    return f"{rng.integers(0, 9)}.{rng.integers(1, 10)}9"


def _bakery(rng: np.random.Generator, unit: float, words: tuple[str, ...]) -> Painted:
    """Paper bags and printed film around bread."""
    sheet = Sheet(SIDE, unit, (120, 96, 74), rng)
    paper = _pick(rng, (203, 168, 122), (226, 208, 176), (240, 232, 214), (233, 146, 48))
    brand = _pick(rng, (150, 40, 30), (44, 74, 46), (92, 52, 24), (28, 54, 110))
    bag = (36, 30, SIDE - 30, SIDE - 26)
    sheet.fill(bag, paper, 6)
    sheet.shade(bag, 1 + 0.035 * sheet.cloud(bag, (150, 22), 2) + 0.03 * sheet.cloud(bag, (8, 8)))
    window = (60, 48, SIDE - 90, 150)
    sheet.fill(window, (190, 130, 66), 30)
    pieces(
        sheet, (80, 64, SIDE - 110, 134), ((198, 138, 70), (214, 160, 92), (170, 104, 50)), 22, 40
    )
    sheet.fill((36, 168, SIDE - 30, 208), brand)
    sheet.text((70, 174), _name(rng, _TITLES["bakery"]), 26, WHITE, 0.8)
    logo(sheet, (SIDE - 130, 190), 26, _name(rng, _BRANDS), brand)
    paragraph(sheet, sheet.place(64, 330, 280, 400), words, 8.5, BLACK)
    barcode(sheet, sheet.place(330, 350, 450, 400))
    nutrition(sheet, sheet.place(64, 410, 250, 490), words, BLACK)
    if rng.random() < 0.5:
        sheet.fill((120, 222, 440, 318), (244, 238, 222), 4)
    return sheet, (132, 232, 430, 310), BLACK, brand


def _dairy(rng: np.random.Generator, unit: float, words: tuple[str, ...]) -> Painted:
    """White cups and foil lids on a steel conveyor."""
    sheet = Sheet(SIDE, unit, (92, 96, 100), rng)
    sheet.shade(_whole(sheet), 1 + 0.06 * sheet.cloud(_whole(sheet), (2, 200), 2))
    brand = _pick(rng, (24, 72, 160), (196, 30, 64), (30, 130, 90), (120, 60, 150))
    lid = (44, 44, SIDE - 44, SIDE - 44)
    radius = 60.0 if rng.random() < 0.6 else 226.0
    sheet.fill((40, 42, SIDE - 38, SIDE - 36), (70, 72, 76), radius)
    sheet.fill(lid, (236, 238, 240), radius)
    sheet.fill((54, 54, SIDE - 54, SIDE - 54), brand, radius - 10)
    sheet.fill((64, 64, SIDE - 64, SIDE - 64), (240, 242, 243), radius - 18)
    sheet.fill((100, 120, SIDE - 100, 172), brand, 20)
    logo(sheet, (SIDE / 2, 140), 34, _name(rng, _BRANDS), brand)
    fruit = _pick(rng, (206, 36, 52), (236, 150, 40), (70, 40, 110))
    green = (60, 130, 60)
    pieces(sheet, (130, 370, 400, 420), (fruit, fruit, green), 17, 26)
    sheet.text((160, 330), _name(rng, _TITLES["dairy"]), 24, brand, 0.6)
    paragraph(sheet, sheet.place(150, 440, 390, 474), words, 7.5, (70, 74, 90))
    sheet.text(
        (118, 186),
        f"{rng.integers(10, 99)}0 g  {rng.integers(1, 9)},{rng.integers(1, 9)}% Fett",
        11,
        brand,
    )
    relief = 1 + 0.02 * sheet.cloud(lid, (120, 120), 1)
    sheet.shade(lid, relief)
    return sheet, (116, 206, 424, 318), _pick(rng, BLACK, (22, 28, 70)), brand


def _butcher(rng: np.random.Generator, unit: float, words: tuple[str, ...]) -> Painted:
    """Meat in a black tray under film, with a weighing label."""
    tray = _pick(rng, (28, 28, 30), (36, 36, 44), (190, 192, 196))
    sheet = Sheet(SIDE, unit, (150, 152, 150), rng)
    sheet.fill((20, 22, SIDE - 18, SIDE - 20), tray, 44)
    sheet.fill((36, 38, SIDE - 36, SIDE - 38), tinted(tray, 0.8), 34)
    meat(
        sheet,
        (52, 56, SIDE - 54, SIDE - 60),
        _pick(rng, (168, 40, 44), (196, 84, 80), (140, 36, 40)),
    )
    label = (92, 128, 452, 414)
    sticker(sheet, label, _pick(rng, WHITE, (250, 246, 226), (244, 248, 250)))
    accent = _pick(rng, (190, 24, 30), (20, 60, 130), (216, 150, 20))
    sheet.fill((94, 130, 450, 166), accent, 3)
    sheet.text((104, 136), _name(rng, _TITLES["butcher"]), 23, WHITE, 0.5)
    paragraph(sheet, (104, 174, 330, 212), words, 8.0, BLACK)
    barcode(sheet, (110, 350, 262, 396))
    for i, (what, value) in enumerate(
        (
            ("kg", f"0.{rng.integers(200, 990)}"),
            ("EUR/kg", f"{rng.integers(8, 30)}.{rng.integers(10, 99)}"),
        )
    ):
        sheet.text((292, 326 + 24 * i), what, 8.5, BLACK)
        sheet.text((334, 322 + 24 * i), value, 14, BLACK)
    sheet.text((292, 376), f"{rng.integers(2, 20)},{rng.integers(10, 99)} EUR", 21, BLACK, 0.8)
    sheet.fill((104, 314, 440, 315.2), BLACK)
    badge(sheet, (424, 198), 24, accent, f"-{rng.integers(2, 6)}0%")
    return sheet, (108, 222, 400, 306), BLACK, BLACK


def _produce(rng: np.random.Generator, unit: float, words: tuple[str, ...]) -> Painted:
    """Salad seen through film with a printed band."""
    sheet = Sheet(SIDE, unit, (40, 64, 34), rng)
    greens: tuple[Color, ...] = ((88, 140, 50), (122, 168, 70), (60, 110, 44), (150, 186, 96))
    if rng.random() < 0.35:
        greens = (*greens, (140, 50, 70), (186, 60, 44))
    leaves(sheet, _whole(sheet), greens, 420)
    band = _pick(rng, (32, 110, 60), (236, 240, 232), (90, 160, 50), (240, 200, 40))
    dark = sum(band) < 420
    sheet.fill((0, 148, SIDE, 344), band)
    sheet.shade((0, 148, SIDE, 344), 1 + 0.03 * sheet.cloud((0, 148, SIDE, 344), (3, 6)))
    ink = WHITE if dark else (30, 60, 30)
    sheet.text((60, 156), _name(rng, _TITLES["produce"]), 32, ink, 0.9)
    logo(sheet, (430, 178), 22, _name(rng, _BRANDS), _pick(rng, (200, 40, 40), (20, 90, 50)))
    paragraph(sheet, (60, 312, 440, 338), words, 8.0, ink)
    barcode(sheet, sheet.place(370, 384, 480, 440))
    badge(sheet, (100, 420), 36, _pick(rng, (250, 214, 40), (220, 40, 40)), _price(rng))
    sheet.text((180, 372), f"{rng.integers(1, 9)}{rng.integers(0, 9)}0 g e", 18, WHITE, 0.5)
    if dark or rng.random() < 0.5:
        sticker(sheet, (96, 206, 444, 304), WHITE)
    return sheet, (108, 214, 436, 298), BLACK, BLACK


def _drinks(rng: np.random.Generator, unit: float, words: tuple[str, ...]) -> Painted:
    """Cans and bottles: bare metal at the neck, a printed wrap below."""
    metal = rng.random() < 0.5
    one = _pick(rng, (236, 120, 20), (250, 206, 30), (190, 20, 34), (20, 120, 120), (30, 30, 34))
    sheet = Sheet(SIDE, unit, (60, 62, 66), rng)
    whole = _whole(sheet)
    gradient(sheet, whole, one, tinted(one, 0.72), 1.3)
    top = (0, 0, SIDE, 330) if metal else (0, 0, SIDE, 120)
    sheet.fill(top, (186, 188, 190) if metal else (226, 228, 224))
    sheet.shade(top, 1 + 0.05 * sheet.cloud(top, (180, 2), 2) + 0.03 * sheet.cloud(top, (3, 3)))
    edge = top[3]
    sheet.fill((0, edge, SIDE, edge + 7), tinted(one, 0.5))
    pieces(sheet, (40, edge + 90, 240, edge + 150), (one, (250, 190, 60), (110, 160, 50)), 22, 16)
    sheet.text((56, edge + 24), _name(rng, _TITLES["drinks"]), 42, WHITE, 1.2)
    logo(sheet, (410, edge + 60), 24, _name(rng, _BRANDS), (30, 50, 110))
    paragraph(sheet, sheet.place(300, edge + 110, 500, edge + 200), words, 8.0, WHITE)
    if metal:
        sheet.text((330, 150), f"{rng.integers(2, 6)}{rng.integers(0, 9)} cl", 13, (90, 92, 96))
        sheet.fill((0, 60, SIDE, 66), (120, 122, 126))
        sheet.fill((0, 66, SIDE, 70), (226, 228, 230))
        return sheet, (110, 196, 430, 300), _pick(rng, BLACK, (40, 38, 44)), (80, 82, 90)
    sheet.fill((90, 250, 450, 352), WHITE if rng.random() < 0.6 else (250, 240, 190), 8)
    barcode(sheet, sheet.place(330, 420, 440, 470))
    return sheet, (104, 262, 440, 344), BLACK, (60, 40, 20)


def _frozen(rng: np.random.Generator, unit: float, words: tuple[str, ...]) -> Painted:
    """Cartons from the freezer, printed on the end flap."""
    one = _pick(rng, (20, 90, 180), (0, 130, 170), (180, 20, 40), (30, 110, 70))
    sheet = Sheet(SIDE, unit, (168, 176, 184), rng)
    box = (24, 24, SIDE - 20, SIDE - 20)
    gradient(sheet, box, one, tinted(one, 1.4, 40), rng.uniform(0, 3))
    logo(sheet, (150, 80), 36, _name(rng, _BRANDS), _pick(rng, (200, 20, 30), (16, 40, 110)))
    pieces(
        sheet,
        (300, 50, 500, 150),
        ((216, 60, 40), (240, 206, 120), (70, 130, 50), (250, 236, 190)),
        24,
        60,
    )
    sheet.text((44, 128), _name(rng, _TITLES["frozen"]), 27, WHITE, 1.0)
    sheet.fill((24, 184, SIDE - 20, 187), tinted(one, 0.5))
    sheet.fill((24, 187, SIDE - 20, 189), WHITE)
    panel = _pick(rng, WHITE, (226, 236, 244), (250, 244, 220))
    sheet.fill((70, 206, 470, 330), panel, 3)
    sheet.shade((70, 206, 470, 330), 1 + 0.02 * sheet.cloud((70, 206, 470, 330), (90, 90), 2))
    nutrition(sheet, sheet.place(60, 350, 220, 480), words, WHITE)
    paragraph(sheet, sheet.place(240, 350, 500, 410), words, 8.0, WHITE)
    barcode(sheet, sheet.place(340, 424, 470, 474))
    sheet.text((240, 430), f"-18°C  {rng.integers(200, 900)} g", 13, WHITE)
    return sheet, (84, 218, 456, 322), _pick(rng, BLACK, (40, 30, 90)), one


def _meals(rng: np.random.Generator, unit: float, words: tuple[str, ...]) -> Painted:
    """Dark cardboard sleeves, whose ink a laser burns away."""
    one = _pick(rng, (44, 30, 26), (26, 34, 30), (60, 16, 28), (24, 28, 52))
    sheet = Sheet(SIDE, unit, (128, 108, 84), rng)
    wood = _whole(sheet)
    sheet.shade(wood, 1 + 0.1 * sheet.cloud(wood, (60, 2), 3))
    box = (22, 40, SIDE - 16, SIDE - 34)
    sheet.fill(box, one, 3)
    sheet.shade(box, 1 + 0.06 * sheet.cloud(box, (120, 120), 1))
    gold = _pick(rng, (206, 170, 90), (230, 226, 214), (220, 110, 50))
    sheet.fill((22, 186, SIDE - 16, 189), gold)
    dish = ((214, 150, 60), (190, 60, 30), (236, 220, 180), (90, 120, 50))
    sheet.draw.ellipse(sheet.area((250, -40, 540, 176)), fill=(232, 230, 226))
    pieces(sheet, (300, 48, 490, 140), dish, 18, 80)
    sheet.text((44, 84), _name(rng, _TITLES["meals"]), 30, gold, 0.8)
    sheet.text((44, 124), "mikrofala 4 min", 13, gold)
    logo(sheet, (120, 156), 17, _name(rng, _BRANDS), tinted(gold, 0.6))
    paragraph(sheet, sheet.place(50, 340, 300, 420), words, 8.0, gold)
    barcode(sheet, sheet.place(340, 350, 460, 410))
    badge(sheet, (90, 456), 24, gold, f"{rng.integers(300, 600)}g")
    return sheet, (64, 214, 452, 318), _pick(rng, (236, 228, 210), (214, 196, 164)), gold


Painter: TypeAlias = Callable[[np.random.Generator, float, tuple[str, ...]], Painted]
_PAINTERS: dict[str, Painter] = {
    "bakery": _bakery,
    "dairy": _dairy,
    "butcher": _butcher,
    "produce": _produce,
    "drinks": _drinks,
    "frozen": _frozen,
    "meals": _meals,
}
