"""A plot of a report: how it is drawn, and the sentence that says what to see in it."""

from __future__ import annotations

import base64
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.report.canvas import canvas, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_Z = 1.959964
_LONGEST = 18


@dataclass(frozen=True)
class Plot:
    """One figure, not drawn yet."""

    name: str
    """Of its files, without ending."""
    title: str
    says: str
    """What to see in it, computed from the data."""
    draw: Callable[[Axes], None]
    width: float = 6.4
    height: float = 3.7


@dataclass(frozen=True)
class Drawn:
    """One figure, as a page shows it."""

    name: str
    title: str
    says: str
    uri: str
    """The SVG itself, as a data URI: as an image it can run nothing."""


def draw_plot(plot: Plot, folder: Path) -> Drawn:
    """Write ``folder``/name.svg and its sentence beside it."""
    with canvas(plot.width, plot.height) as figure:
        plot.draw(figure.subplots())
        svg, _ = save_figure(figure, folder / plot.name, plot.says, kinds=("svg",))
    return Drawn(plot.name, plot.title, plot.says, data_uri(svg.read_bytes(), "image/svg+xml"))


def data_uri(content: bytes, kind: str) -> str:
    """Bytes that a page can hold in itself."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def printable(text: str) -> str:
    """Text without characters that have no place in a file of text."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def drawable(classes: Sequence[str]) -> list[str]:
    """Class names as a figure can show them: short, and by number where the font lacks a letter.

    Dollar signs are escaped, as they would begin a formula.
    """
    glyphs = _glyphs()
    names = []
    for number, name in enumerate(classes, 1):
        if not name.strip() or any(ord(c) not in glyphs or not c.isprintable() for c in name):
            name = f"class {number}"
        elif len(name) > _LONGEST:
            name = f"{name[: _LONGEST - 2]}… {number}"
        names.append(name.replace("$", r"\$"))
    return names


@functools.cache
def _glyphs() -> frozenset[int]:
    from matplotlib.font_manager import FontProperties, fontManager, get_font

    path = fontManager.findfont(FontProperties(family="DejaVu Sans"))
    return frozenset(get_font(path).get_charmap())


def interval(right: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share; all of [0, 1] without a case."""
    if not n:
        return 0.0, 1.0
    share, square = right / n, _Z**2 / n
    middle = (share + square / 2) / (1 + square)
    reach = _Z * math.sqrt(share * (1 - share) / n + square / (4 * n)) / (1 + square)
    return max(0.0, middle - reach), min(1.0, middle + reach)


def round_axis(axes: Axes, n: int) -> None:
    """Whole rounds along x, with room at both ends."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("round")
    axes.set_xlim(0.5, n + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
