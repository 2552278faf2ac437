"""Figures of the whole pool: labels by class, and the forecast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surelabel.guarantees.forecast import Outlook
from surelabel.messages.run import percent
from surelabel.report.canvas import COLORS, LIGHT_GRAY, MARKERS, canvas
from surelabel.report.facts import Facts
from surelabel.report.plots import Plot, drawable, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_BARS = 40
_BARS = (
    ("human", "labels by people", COLORS[0], None),
    ("labeled", "labeled by the run", COLORS[5], "//"),
    ("left", "left unlabeled (by prediction)", LIGHT_GRAY, None),
)
"""Column of the counts, legend, color and hatch, from left to right."""


def classes_plot(facts: Facts) -> Plot | None:
    """For each class: labels by people, labels by the run, and images left unlabeled."""
    counts = facts.summary.counts
    if not counts:
        return None
    totals = {name: sum(kinds.values()) for name, kinds in counts.items()}
    largest = sorted(totals, key=lambda name: -totals[name])[:_MAX_BARS]
    shown = [name for name in counts if name in largest]
    names = dict(zip(counts, drawable(list(counts)), strict=True))

    def draw(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        places = np.arange(len(shown))
        start = np.zeros(len(shown))
        for column, label, color, hatch in _BARS:
            widths = np.array([counts[name][column] for name in shown], dtype=float)
            bars = axes.barh(places, widths, left=start, height=0.72, label=label, color=color)
            for bar in bars:
                bar.set(edgecolor="white", linewidth=0.6, hatch=hatch)
            start += widths
        axes.set_yticks(places, [names[name] for name in shown])
        axes.invert_yaxis()
        axes.set_xlabel("images")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False, axis="y")
        axes.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))

    height = 1.5 + 0.27 * len(shown)
    caption = _classes_caption(counts, len(shown))
    return Plot("classes", "Labels by class", caption, draw, 6.4, height)


def _classes_caption(counts: Mapping[str, Mapping[str, int]], n_shown: int) -> str:
    predicted = {name: c["labeled"] + c["left"] for name, c in counts.items()}
    left = {name: counts[name]["left"] / n for name, n in predicted.items() if n}
    note = "" if n_shown == len(counts) else f" The {n_shown} largest of {len(counts)} are drawn."
    if not left:
        return f"The run predicted none of these classes for any image.{note}"
    most, least = (pick(left, key=lambda name: left[name]) for pick in (max, min))
    caption = (
        f"The largest share left unlabeled is {percent(left[most])}, of the images predicted as "
        f"'{printable(most)}'"
    )
    if most != least:
        caption += f"; the smallest is {percent(left[least])}, of '{printable(least)}'"
    return f"{caption}.{note}"


def forecast_plot(facts: Facts) -> Plot | None:
    """The coverage that more certify labels would give."""
    forecast = facts.forecast
    if not forecast.outlooks:
        return None
    last = forecast.outlooks[-1]
    half = next((o for o in forecast.outlooks if o.middle >= 0.5), last)
    caption = (
        f"With {last.n_certify:,} certify labels about {percent(last.middle)} of the pool could be "
        f"labeled with at most {percent(forecast.max_error)} wrong ({percent(last.low)} to "
        f"{percent(last.high)} in 98 of 100 forecasts). "
    )
    if half is not last:
        caption += f"For half of the pool it takes about {half.n_certify:,}. "
    caption += "This is a forecast from held-out labels, not a guarantee."

    def draw(axes: Axes) -> None:
        _plot_forecast(axes, forecast.outlooks)

    return Plot("forecast", "What more certify labels would give", caption, draw)


def draw_forecast(outlooks: Sequence[Outlook], max_error: float, path: Path) -> None:
    """Save a picture of coverage by certify labels, with the range of 98 in 100 forecasts."""
    with canvas(6, 4) as figure:
        axes = figure.add_subplot()
        _plot_forecast(axes, outlooks)
        axes.set_title(f"Forecast: at most {100 * max_error:g} % wrong, nets unchanged")
        figure.savefig(path, dpi=150)


def _plot_forecast(axes: Axes, outlooks: Sequence[Outlook]) -> None:
    sizes = [o.n_certify for o in outlooks]
    low, middle, high = ([100 * getattr(o, k) for o in outlooks] for k in ("low", "middle", "high"))
    axes.fill_between(sizes, low, high, color=COLORS[5], alpha=0.35, label="98 of 100 forecasts")
    axes.plot(sizes, middle, marker=MARKERS[0], color=COLORS[0], label="median")
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(-2, 102)
    axes.set_xlabel("certify labels, drawn at random")
    axes.set_ylabel("images labeled (% of the pool)")
    axes.legend(loc="lower right", frameon=False)
