"""How use-by dates are written: legends, month names and formats of seven languages."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from surelabel_studies.use_by_dates.sets import Category

Piece = tuple[str, str]
"""A role (``day``, ``month``, ``date`` for what joins them) and what is printed for it."""


@dataclass(frozen=True)
class Language:
    """The texts of one language, as coding machines print them: capitals without accents."""

    legends: tuple[str, ...]
    months: tuple[str, ...]
    formats: tuple[str, ...]
    """``d`` day, ``m`` month as a number, ``b`` its name, ``y`` and ``Y`` the year."""
    lot: str
    small_print: tuple[str, ...]
    """Vocabulary of the small print; Pillow's font has no accents."""


_DOTS = ("d.m.y", "d.m.Y", "d.m.", "d.b y", "d b Y")
_SLASHES = ("d/m/y", "d/m/Y", "d/m", "d b y", "d b")


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ENGLISH = Language(
    ("USE BY", "BEST BEFORE", "USE BY:", "BBE", "EXP", "BEST BY", "DISPLAY UNTIL"),
    _split("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"),
    ("d b", "d b y", "d b Y", "d/m/y", "d/m", "dby", "b d", "d-m-Y"),
    "LOT",
    _split(
        "wheat flour water salt yeast rapeseed oil sugar milk barley malt vinegar emulsifier "
        "calcium iron niacin thiamin butter egg may contain nuts store in a cool dry place"
    ),
)
GERMAN = Language(
    ("MHD", "MINDESTENS HALTBAR BIS", "ZU VERBRAUCHEN BIS", "HALTBAR BIS:", "VERBR. BIS"),
    _split("JAN FEB MRZ APR MAI JUN JUL AUG SEP OKT NOV DEZ"),
    _DOTS,
    "L",
    _split(
        "Vollmilch Zucker Joghurt mild Fruchtzubereitung Erdbeeren Wasser Salz Aroma Staerke "
        "gekuehlt lagern bei Naehrwerte je Fett davon gesaettigte Eiweiss Kohlenhydrate"
    ),
)
FRENCH = Language(
    ("A CONSOMMER JUSQU'AU", "DLC", "A CONS. JUSQU'AU", "DLC :", "EXP."),
    _split("JAN FEV MAR AVR MAI JUN JUL AOU SEP OCT NOV DEC"),
    (*_SLASHES, "d.m.y"),
    "LOT",
    _split(
        "viande bovine origine France sel eau poivre conserver entre et poids net prix au kilo "
        "eleve abattu decoupe emballe sous atmosphere protectrice cuire a coeur"
    ),
)
SPANISH = Language(
    ("CONSUMIR ANTES DE", "CAD", "FECHA CAD.", "CONS. PREF. ANTES", "CAD:"),
    _split("ENE FEB MAR ABR MAY JUN JUL AGO SEP OCT NOV DIC"),
    (*_SLASHES, "d-m-y", "d-b-y"),
    "LOTE",
    _split(
        "agua carbonatada azucar zumo de naranja acidulante acido citrico aromas naturales "
        "conservante sorbato agitar antes de abrir servir frio envase reciclable"
    ),
)
ITALIAN = Language(
    ("DA CONSUMARSI ENTRO", "SCAD.", "CONSUMARE ENTRO", "ENTRO IL", "SCADENZA"),
    _split("GEN FEB MAR APR MAG GIU LUG AGO SET OTT NOV DIC"),
    (*_SLASHES, "d.m.Y"),
    "LOTTO",
    _split(
        "farina di grano tenero pomodoro mozzarella olio extravergine basilico sale lievito "
        "conservare a non ricongelare cuocere in forno senza scongelare ingredienti"
    ),
)
DUTCH = Language(
    ("TE GEBRUIKEN TOT", "THT", "TENMINSTE HOUDBAAR TOT", "TGT", "HOUDBAAR TOT:"),
    _split("JAN FEB MRT APR MEI JUN JUL AUG SEP OKT NOV DEC"),
    ("d-m-y", "d-m-Y", "d b", "d b y", "d.m.y"),
    "LOT",
    _split(
        "sla tomaat komkommer wortel gewassen klaar voor gebruik koel bewaren herkomst "
        "Nederland klasse netto gewicht verpakt onder beschermende atmosfeer"
    ),
)
POLISH = Language(
    ("NALEZY SPOZYC DO", "NAJLEPIEJ SPOZYC PRZED", "TERMIN:", "SPOZYC DO"),
    _split("STY LUT MAR KWI MAJ CZE LIP SIE WRZ PAZ LIS GRU"),
    ("d.m.y", "d.m.Y", "d.m", "d b y", "d/m/Y"),
    "NR",
    _split(
        "woda makaron pszenny mieso wieprzowe sos pomidorowy cebula czosnek przyprawy sol "
        "podgrzewac w kuchence mikrofalowej przez minut przechowywac w temperaturze"
    ),
)


@dataclass(frozen=True)
class DateText:
    """What the coder prints about the use-by date."""

    legend: str
    pieces: tuple[Piece, ...]

    @property
    def printed(self) -> str:
        """The date as printed, gaps included; empty when there is none."""
        return "".join(text for _, text in self.pieces).rstrip()


def write_date(
    rng: np.random.Generator, language: Language, category: Category, day: int, month: int
) -> DateText:
    """A date in one of the language's formats; what ``category`` lacks is a gap or left out."""
    legend = str(rng.choice(language.legends))
    pattern = str(rng.choice(language.formats))
    year = int(rng.integers(24, 29))
    drops_day, drops_legend = rng.random(2)
    if category is Category.NO_DATE:
        return DateText("" if drops_legend < 0.45 else legend, ())
    if category is Category.DAY_MISSING and drops_day < 0.5:
        pattern = "b Y" if "b" in pattern else "m/Y"
    values = {
        "d": ("day", f"{day:02d}"),
        "m": ("month", f"{month:02d}"),
        "b": ("month", language.months[month - 1]),
        "y": ("date", f"{year:02d}"),
        "Y": ("date", f"20{year:02d}"),
    }
    pieces = [values.get(mark, ("date", mark)) for mark in re.findall(".", pattern)]
    return DateText(legend, tuple(_with_gaps(pieces, category)))


def _with_gaps(pieces: list[Piece], category: Category) -> list[Piece]:
    gone = set()
    if not category.has_day:
        gone.add("day")
    if not category.has_month:
        gone.add("month")
    return [("date", " " * len(t)) if role in gone else (role, t) for role, t in pieces]
