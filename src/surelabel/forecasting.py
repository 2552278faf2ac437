"""How many certify labels would give what coverage, from a run's own held-out predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surelabel.accept import Outlook, forecast, parse_wishes
from surelabel.errors import OptionError, RunError
from surelabel.figures import COLORS, MARKERS, canvas
from surelabel.runs import HELD_OUT_TABLE, RunFolder
from surelabel.types import derive_seed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = (100, 200, 400, 800, 1600, 3200, 6400)
_USUAL_ERROR = 0.02


def forecast_of(folder: RunFolder, max_error: float | None = None) -> tuple[float, list[Outlook]]:
    """The error that was asked about and an outlook for each number of certify labels.

    Without ``max_error`` it is the run's own wish for all classes, or 2 %. Certify labels are not
    read for it: the forecast rests on held-out labels alone.
    """
    last = folder.last_round()
    if last is None:
        raise RunError(
            f"{folder.path} has no finished round yet: call surelabel resume {folder.path}."
        )
    config = folder.config
    wished = parse_wishes(config.max_error)
    error = max_error or wished.rest or wished.each or _USUAL_ERROR
    if not 0 < error < 1:
        raise OptionError(f"max_error is {error:g}; it has to be between 0 and 1.")
    held_out = last.read_table(HELD_OUT_TABLE)
    scores = held_out["score"].to_numpy(dtype=float)
    outlooks = forecast(
        np.where(held_out["stranger"].to_numpy(dtype=bool), np.inf, scores),
        held_out["correct"].to_numpy(dtype=bool),
        n_pool=int(last.metrics["n_pool"]),
        sizes=SIZES,
        max_error=error,
        delta=(1 - config.confidence) * config.look_share,
        rng=np.random.default_rng(derive_seed(config.seed, "forecast")),
    )
    if not outlooks:
        raise RunError(
            f"{folder.path} has {len(held_out)} held-out labels, too few for a forecast, or a pool "
            f"of fewer than {SIZES[0]} images."
        )
    return error, outlooks


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
    axes.set_ylabel("images labelled (% of the pool)")
    axes.legend(loc="lower right", frameon=False)
