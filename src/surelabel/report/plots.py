"""A plot of a report: how it is drawn, and the caption that explains what it shows."""

from __future__ import annotations

import base64
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.report.canvas import canvas, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_NAME = 18
"""Longer class names are cut in figures."""


@dataclass(frozen=True)
class Plot:
    """A figure that is not drawn yet."""

    name: str
    """Of its files, without the extension."""
    title: str
    caption: str
    """What the figure shows, with numbers from the data."""
    draw: Callable[[Axes], None]
    width: float = 6.4
    height: float = 3.7


@dataclass(frozen=True)
class DrawnPlot:
    """A figure as the page shows it."""

    name: str
    title: str
    caption: str
    uri: str
    """The SVG as a data URI; a browser runs no script in an image."""


def draw_plot(plot: Plot, folder: Path) -> DrawnPlot:
    """Write the figure to ``folder`` as SVG, with its caption in a text file."""
    with canvas(plot.width, plot.height) as figure:
        plot.draw(figure.subplots())
        svg, _ = save_figure(figure, folder / plot.name, plot.caption, kinds=("svg",))
    uri = data_uri(svg.read_bytes(), "image/svg+xml")
    return DrawnPlot(plot.name, plot.title, plot.caption, uri)


def data_uri(content: bytes, kind: str) -> str:
    """``content`` of the MIME type ``kind`` as a URI that a page can embed."""
    return f"data:{kind};base64,{base64.b64encode(content).decode('ascii')}"


def printable(text: str) -> str:
    """``text`` with every character that cannot be printed replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def drawable(classes: Sequence[str]) -> list[str]:
    """Class names that a figure can show: short, or a number where the font lacks a character.

    Dollar signs are escaped because Matplotlib would take them for the start of a formula.
    """
    glyphs = _glyphs()
    names = []
    for number, name in enumerate(classes, 1):
        if not name.strip() or any(ord(c) not in glyphs or not c.isprintable() for c in name):
            name = f"class {number}"
        elif len(name) > _MAX_NAME:
            name = f"{name[: _MAX_NAME - 2]}… {number}"
        names.append(name.replace("$", r"\$"))
    return names


@functools.cache
def _glyphs() -> frozenset[int]:
    from matplotlib.font_manager import FontProperties, fontManager, get_font

    path = fontManager.findfont(FontProperties(family="DejaVu Sans"))
    return frozenset(get_font(path).get_charmap())


def wilson_interval(right: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval for the share ``right`` / ``n``; all of [0, 1] for n = 0."""
    from scipy.stats import binomtest

    if not n:
        return 0.0, 1.0
    interval = binomtest(right, n).proportion_ci(confidence_level=0.95, method="wilson")
    return float(interval.low), float(interval.high)


def round_axis(axes: Axes, n: int) -> None:
    """Whole rounds 1 to ``n`` along x, with a margin at both ends."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("round")
    axes.set_xlim(0.5, n + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
