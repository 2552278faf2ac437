"""The packaging of each location: products drawn flat, with the place where the date goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surelabel.datasets.use_by_dates import parts
from surelabel.datasets.use_by_dates.parts import BLACK, WHITE, Area, Color, Sheet
from surelabel.datasets.use_by_dates.textures import Pixels
from surelabel.types import derive_seed

SIDE = 540.0
"""Side of a product's flat picture, in pixels of a photograph 299 wide."""
N_PRODUCTS = 10
"""Products of one location."""

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
    """One product, flat, before the date is printed on it."""

    pixels: Pixels
    spot: Area
    """Where the coder prints, in pixels of a photograph 299 wide."""
    ink: Color
    small_print: Color
    """Color of the legend where the packaging itself carries it."""


def artwork(location: str, product: int, seed: int, unit: float, words: tuple[str, ...]) -> Artwork:
    """The flat picture of a product; the same for every photograph of it."""
    key = (location, product, seed, unit)
    if key not in _drawn:
        if sum(art.pixels.nbytes for art in _drawn.values()) > _KEPT_BYTES:
            _drawn.clear()
        rng = np.random.default_rng(derive_seed(seed, "use-by-dates", location, "product", product))
        sheet, spot, ink, small = _PAINTERS[location](rng, unit, words)
        _drawn[key] = Artwork(np.asarray(sheet.image), spot, ink, small)
    return _drawn[key]


_drawn: dict[tuple[str, int, int, float], Artwork] = {}
_KEPT_BYTES = 200_000_000


Painted = tuple[Sheet, Area, Color, Color]


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
    parts.pieces(
        sheet, (80, 64, SIDE - 110, 134), ((198, 138, 70), (214, 160, 92), (170, 104, 50)), 22, 40
    )
    sheet.fill((36, 168, SIDE - 30, 208), brand)
    sheet.text((70, 174), _name(rng, _TITLES["bakery"]), 26, WHITE, 0.8)
    parts.logo(sheet, (SIDE - 130, 190), 26, _name(rng, _BRANDS), brand)
    parts.paragraph(sheet, sheet.place(64, 330, 280, 400), words, 8.5, BLACK)
    parts.barcode(sheet, sheet.place(330, 350, 450, 400))
    parts.nutrition(sheet, sheet.place(64, 410, 250, 490), words, BLACK)
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
    parts.logo(sheet, (SIDE / 2, 140), 34, _name(rng, _BRANDS), brand)
    fruit = _pick(rng, (206, 36, 52), (236, 150, 40), (70, 40, 110))
    green = (60, 130, 60)
    parts.pieces(sheet, (130, 370, 400, 420), (fruit, fruit, green), 17, 26)
    sheet.text((160, 330), _name(rng, _TITLES["dairy"]), 24, brand, 0.6)
    parts.paragraph(sheet, sheet.place(150, 440, 390, 474), words, 7.5, (70, 74, 90))
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
    sheet.fill((36, 38, SIDE - 36, SIDE - 38), parts.tinted(tray, 0.8), 34)
    parts.meat(
        sheet,
        (52, 56, SIDE - 54, SIDE - 60),
        _pick(rng, (168, 40, 44), (196, 84, 80), (140, 36, 40)),
    )
    label = (92, 128, 452, 414)
    parts.sticker(sheet, label, _pick(rng, WHITE, (250, 246, 226), (244, 248, 250)))
    accent = _pick(rng, (190, 24, 30), (20, 60, 130), (216, 150, 20))
    sheet.fill((94, 130, 450, 166), accent, 3)
    sheet.text((104, 136), _name(rng, _TITLES["butcher"]), 23, WHITE, 0.5)
    parts.paragraph(sheet, (104, 174, 330, 212), words, 8.0, BLACK)
    parts.barcode(sheet, (110, 350, 262, 396))
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
    parts.badge(sheet, (424, 198), 24, accent, f"-{rng.integers(2, 6)}0%")
    return sheet, (108, 222, 400, 306), BLACK, BLACK


def _produce(rng: np.random.Generator, unit: float, words: tuple[str, ...]) -> Painted:
    """Salad seen through film with a printed band."""
    sheet = Sheet(SIDE, unit, (40, 64, 34), rng)
    greens: tuple[Color, ...] = ((88, 140, 50), (122, 168, 70), (60, 110, 44), (150, 186, 96))
    if rng.random() < 0.35:
        greens = (*greens, (140, 50, 70), (186, 60, 44))
    parts.leaves(sheet, _whole(sheet), greens, 420)
    band = _pick(rng, (32, 110, 60), (236, 240, 232), (90, 160, 50), (240, 200, 40))
    dark = sum(band) < 420
    sheet.fill((0, 148, SIDE, 344), band)
    sheet.shade((0, 148, SIDE, 344), 1 + 0.03 * sheet.cloud((0, 148, SIDE, 344), (3, 6)))
    ink = WHITE if dark else (30, 60, 30)
    sheet.text((60, 156), _name(rng, _TITLES["produce"]), 32, ink, 0.9)
    parts.logo(sheet, (430, 178), 22, _name(rng, _BRANDS), _pick(rng, (200, 40, 40), (20, 90, 50)))
    parts.paragraph(sheet, (60, 312, 440, 338), words, 8.0, ink)
    parts.barcode(sheet, sheet.place(370, 384, 480, 440))
    parts.badge(sheet, (100, 420), 36, _pick(rng, (250, 214, 40), (220, 40, 40)), _price(rng))
    sheet.text((180, 372), f"{rng.integers(1, 9)}{rng.integers(0, 9)}0 g e", 18, WHITE, 0.5)
    if dark or rng.random() < 0.5:
        parts.sticker(sheet, (96, 206, 444, 304), WHITE)
    return sheet, (108, 214, 436, 298), BLACK, BLACK


def _drinks(rng: np.random.Generator, unit: float, words: tuple[str, ...]) -> Painted:
    """Cans and bottles: bare metal at the neck, a printed wrap below."""
    metal = rng.random() < 0.5
    one = _pick(rng, (236, 120, 20), (250, 206, 30), (190, 20, 34), (20, 120, 120), (30, 30, 34))
    sheet = Sheet(SIDE, unit, (60, 62, 66), rng)
    whole = _whole(sheet)
    parts.gradient(sheet, whole, one, parts.tinted(one, 0.72), 1.3)
    top = (0, 0, SIDE, 330) if metal else (0, 0, SIDE, 120)
    sheet.fill(top, (186, 188, 190) if metal else (226, 228, 224))
    sheet.shade(top, 1 + 0.05 * sheet.cloud(top, (180, 2), 2) + 0.03 * sheet.cloud(top, (3, 3)))
    edge = top[3]
    sheet.fill((0, edge, SIDE, edge + 7), parts.tinted(one, 0.5))
    parts.pieces(
        sheet, (40, edge + 90, 240, edge + 150), (one, (250, 190, 60), (110, 160, 50)), 22, 16
    )
    sheet.text((56, edge + 24), _name(rng, _TITLES["drinks"]), 42, WHITE, 1.2)
    parts.logo(sheet, (410, edge + 60), 24, _name(rng, _BRANDS), (30, 50, 110))
    parts.paragraph(sheet, sheet.place(300, edge + 110, 500, edge + 200), words, 8.0, WHITE)
    if metal:
        sheet.text((330, 150), f"{rng.integers(2, 6)}{rng.integers(0, 9)} cl", 13, (90, 92, 96))
        sheet.fill((0, 60, SIDE, 66), (120, 122, 126))
        sheet.fill((0, 66, SIDE, 70), (226, 228, 230))
        return sheet, (110, 196, 430, 300), _pick(rng, BLACK, (40, 38, 44)), (80, 82, 90)
    sheet.fill((90, 250, 450, 352), WHITE if rng.random() < 0.6 else (250, 240, 190), 8)
    parts.barcode(sheet, sheet.place(330, 420, 440, 470))
    return sheet, (104, 262, 440, 344), BLACK, (60, 40, 20)


def _frozen(rng: np.random.Generator, unit: float, words: tuple[str, ...]) -> Painted:
    """Cartons from the freezer, printed on the end flap."""
    one = _pick(rng, (20, 90, 180), (0, 130, 170), (180, 20, 40), (30, 110, 70))
    sheet = Sheet(SIDE, unit, (168, 176, 184), rng)
    box = (24, 24, SIDE - 20, SIDE - 20)
    parts.gradient(sheet, box, one, parts.tinted(one, 1.4, 40), rng.uniform(0, 3))
    parts.logo(sheet, (150, 80), 36, _name(rng, _BRANDS), _pick(rng, (200, 20, 30), (16, 40, 110)))
    parts.pieces(
        sheet,
        (300, 50, 500, 150),
        ((216, 60, 40), (240, 206, 120), (70, 130, 50), (250, 236, 190)),
        24,
        60,
    )
    sheet.text((44, 128), _name(rng, _TITLES["frozen"]), 27, WHITE, 1.0)
    sheet.fill((24, 184, SIDE - 20, 187), parts.tinted(one, 0.5))
    sheet.fill((24, 187, SIDE - 20, 189), WHITE)
    panel = _pick(rng, WHITE, (226, 236, 244), (250, 244, 220))
    sheet.fill((70, 206, 470, 330), panel, 3)
    sheet.shade((70, 206, 470, 330), 1 + 0.02 * sheet.cloud((70, 206, 470, 330), (90, 90), 2))
    parts.nutrition(sheet, sheet.place(60, 350, 220, 480), words, WHITE)
    parts.paragraph(sheet, sheet.place(240, 350, 500, 410), words, 8.0, WHITE)
    parts.barcode(sheet, sheet.place(340, 424, 470, 474))
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
    parts.pieces(sheet, (300, 48, 490, 140), dish, 18, 80)
    sheet.text((44, 84), _name(rng, _TITLES["meals"]), 30, gold, 0.8)
    sheet.text((44, 124), "mikrofala 4 min", 13, gold)
    parts.logo(sheet, (120, 156), 17, _name(rng, _BRANDS), parts.tinted(gold, 0.6))
    parts.paragraph(sheet, sheet.place(50, 340, 300, 420), words, 8.0, gold)
    parts.barcode(sheet, sheet.place(340, 350, 460, 410))
    parts.badge(sheet, (90, 456), 24, gold, f"{rng.integers(300, 600)}g")
    return sheet, (64, 214, 452, 318), _pick(rng, (236, 228, 210), (214, 196, 164)), gold


Painter = Callable[[np.random.Generator, float, tuple[str, ...]], Painted]
_PAINTERS: dict[str, Painter] = {
    "bakery": _bakery,
    "dairy": _dairy,
    "butcher": _butcher,
    "produce": _produce,
    "drinks": _drinks,
    "frozen": _frozen,
    "meals": _meals,
}
