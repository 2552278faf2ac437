"""Figures of the whole pool: classes given, labeled and left; and the forecast."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surelabel.guarantees.forecast import Outlook
from surelabel.messages.run import percent
from surelabel.report.canvas import COLORS, MARKERS, canvas
from surelabel.report.facts import Facts
from surelabel.report.plots import Plot, drawable, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_BARS = 40
_KINDS = (
    ("human", "labels by people", COLORS[0], None),
    ("labeled", "labeled by the run", COLORS[5], "//"),
    ("left", "left (guessed so)", "#E8E8E8", None),
)


def classes_plot(facts: Facts) -> Plot | None:
    """For each class: labels by people, labels by the run, images left."""
    counts = facts.summary.counts
    if not counts:
        return None
    totals = {name: sum(kinds.values()) for name, kinds in counts.items()}
    shown = sorted(totals, key=lambda name: -totals[name])[:_MOST_BARS]
    shown = [name for name in counts if name in shown]
    number = dict(zip(counts, drawable(list(counts)), strict=True))

    def draw(axes: Axes) -> None:
        places = np.arange(len(shown))
        start = np.zeros(len(shown))
        for kind, label, color, hatch in _KINDS:
            widths = np.array([counts[name][kind] for name in shown], dtype=float)
            bars = axes.barh(places, widths, left=start, height=0.72, label=label, color=color)
            for bar in bars:
                bar.set(edgecolor="white", linewidth=0.6, hatch=hatch)
            start += widths
        axes.set_yticks(places, [number[name] for name in shown])
        axes.invert_yaxis()
        axes.set_xlabel("images")
        axes.grid(visible=False, axis="y")
        axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    height = 1.5 + 0.27 * len(shown)
    says = _classes_sentence(counts, len(shown))
    return Plot("classes", "Classes: given, labeled, left", says, draw, 6.4, height)


def _classes_sentence(counts: dict[str, dict[str, int]], n_shown: int) -> str:
    asked = {name: c["labeled"] + c["left"] for name, c in counts.items()}
    open_shares = {name: counts[name]["left"] / n for name, n in asked.items() if n}
    few = "" if n_shown == len(counts) else f" The {n_shown} largest of {len(counts)} are drawn."
    if not open_shares:
        return f"The run guessed none of the images to be of these classes.{few}"
    hard, easy = (pick(open_shares, key=lambda n: open_shares[n]) for pick in (max, min))
    says = (
        f"Of the images guessed as '{printable(hard)}' {percent(open_shares[hard])} are left, "
        "the largest share"
    )
    if hard != easy:
        says += f"; of '{printable(easy)}' {percent(open_shares[easy])}, the smallest"
    return f"{says}.{few}"


def forecast_plot(facts: Facts) -> Plot | None:
    """Coverage that more certify labels would give."""
    forecast = facts.forecast
    if not forecast.outlooks:
        return None
    half = [o for o in forecast.outlooks if o.middle >= 0.5]
    most = forecast.outlooks[-1]
    says = (
        f"With {most.n_certify:,} certify labels about {percent(most.middle)} of the pool could be "
        f"labeled with at most {percent(forecast.max_error)} wrong (eight forecasts in ten: "
        f"{percent(most.low)} to {percent(most.high)}). "
    )
    if half and half[0] is not most:
        says += f"Half of the pool takes about {half[0].n_certify:,}. "
    says += "A forecast from held-out labels, not a promise."

    def draw(axes: Axes) -> None:
        plot_forecast(axes, forecast.outlooks)

    return Plot("forecast", "What more certify labels would give", says, draw)


def draw_forecast(outlooks: Sequence[Outlook], max_error: float, path: Path) -> None:
    """A picture of coverage against certify labels, with the range of eight forecasts in ten."""
    with canvas(6, 4) as figure:
        axes = figure.add_subplot()
        plot_forecast(axes, outlooks)
        axes.set_title(f"Forecast: at most {100 * max_error:g} % wrong, net as it is")
        figure.savefig(path, dpi=150)


def plot_forecast(axes: Axes, outlooks: Sequence[Outlook]) -> None:
    """The lines of that picture."""
    sizes = [o.n_certify for o in outlooks]
    low, middle, high = ([100 * getattr(o, k) for o in outlooks] for k in ("low", "middle", "high"))
    axes.fill_between(sizes, low, high, color=COLORS[5], alpha=0.35, label="8 forecasts of 10")
    axes.plot(sizes, middle, marker=MARKERS[0], color=COLORS[0], label="median")
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(-2, 102)
    axes.set_xlabel("certify labels, drawn at random")
    axes.set_ylabel("images labeled (% of the pool)")
    axes.legend(loc="lower right", frameon=False)
