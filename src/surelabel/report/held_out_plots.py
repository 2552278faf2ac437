"""Figures of the last round's held-out predictions: error by coverage, reliability, confusion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from surelabel.inference.selective_risk import risk_coverage
from surelabel.messages.run import held_out_text, percent
from surelabel.report.canvas import COLORS
from surelabel.report.facts import Facts
from surelabel.report.plots import Plot, drawable, printable
from surelabel.selection.calibration import expected_calibration_error, reliability
from surelabel.types import BoolArray, FloatArray
from surelabel.workflows.certify import certified_thresholds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_POINTS = 400
_MOST_NUMBERED = 16
"""With more classes the cells of the confusion matrix have no numbers."""
_MOST_NAMED = 40


def coverage_plot(facts: Facts, table: pd.DataFrame) -> Plot:
    """Error of the accepted against the share accepted, by the run's own score."""
    wrong = ~table["correct"].to_numpy(dtype=bool)
    coverage, risk = risk_coverage(table["score"].to_numpy(dtype=float), wrong)
    _, best = risk_coverage(wrong, wrong)
    points = _chosen(facts, table)
    name, accepted = points[-1]
    n, n_wrong = int(accepted.sum()), int((accepted & wrong).sum())
    everything = held_out_text(int(wrong.sum()), len(wrong))
    says = (
        f"Accepting every held-out guess would be wrong in {everything}; the point "
        f"that was chosen ({name}) accepts {percent(n / len(wrong))} of them and is wrong in "
        f"{held_out_text(n_wrong, n)}. The closer the line to the dashed one, the better the "
        "score tells right from wrong."
    )

    def draw(axes: Axes) -> None:
        some = np.unique(np.linspace(0, len(risk) - 1, _MOST_POINTS).astype(int))
        score = str(facts.config.score).replace("_", " ")
        axes.plot(100 * coverage[some], 100 * risk[some], color=COLORS[0], label=f"by {score}")
        ideal: dict[str, Any] = {"color": "#777777", "linestyle": "--", "linewidth": 1.2}
        axes.plot(100 * coverage[some], 100 * best[some], label="by a perfect score", **ideal)
        for k, (label, inside) in enumerate(points):
            if inside.any():
                x, y = 100 * inside.mean(), 100 * wrong[inside].mean()
                look: dict[str, Any] = {
                    "color": COLORS[1 + k],
                    "marker": "DX"[k % 2],
                    "linestyle": "",
                }
                axes.plot([x], [y], markersize=8, label=f"chosen: {label}", **look)
        axes.set_xlabel("accepted, % of held-out labels")
        axes.set_ylabel("wrong among accepted, %")
        axes.set_xlim(0, 102)
        axes.set_ylim(bottom=-0.02 * max(1.0, 100 * float(risk.max())))
        axes.legend(loc="upper left")

    return Plot("coverage", "Error against coverage", says, draw)


def _chosen(facts: Facts, table: pd.DataFrame) -> list[tuple[str, BoolArray]]:
    """What the thresholds would accept of the held-out labels: the fence, and certified ones."""
    if "accepted" in table:
        fence = table["accepted"].to_numpy(dtype=bool)
    else:
        fence = table["score"].to_numpy() <= facts.rounds[-1].threshold
    points = [("tau from held-out labels", fence)]
    own = certified_thresholds(facts.summary.promise, facts.round_classes)
    if np.isfinite(own).any():
        mine = own[table["guess"].to_numpy(dtype=int)]
        certified = np.where(np.isnan(mine), fence, table["score"].to_numpy() <= mine)
        points.append(("the certified threshold", certified & ~_strange(table)))
    return points


def _strange(table: pd.DataFrame) -> BoolArray:
    if "outlier" not in table:
        return np.zeros(len(table), dtype=bool)
    return table["outlier"].to_numpy(dtype=bool)


def reliability_plot(facts: Facts, table: pd.DataFrame) -> Plot | None:
    """How often guesses of a probability are right, before and after calibration."""
    if "calibrated" not in table:
        return None
    correct = table["correct"].to_numpy(dtype=bool)
    kinds = [
        (name, table[column].to_numpy(dtype=float))
        for name, column in (("as predicted", "probability"), ("calibrated", "calibrated"))
    ]
    before, after = (expected_calibration_error(values, correct) for _, values in kinds)
    means = [percent(float(values.mean())) for _, values in kinds]
    says = (
        f"Guesses are right in {percent(float(correct.mean()))} and say {means[0]} on average, "
        f"{means[1]} after calibration. The mean gap goes from {percent(before)} to "
        f"{percent(after)} (temperature {facts.rounds[-1].temperature:.2f}, fitted to these same "
        "labels). Below the diagonal: surer than right. A larger dot holds more guesses."
    )

    def draw(axes: Axes) -> None:
        axes.plot([0, 100], [0, 100], color="#777777", linewidth=1, linestyle="--")
        for k, (name, values) in enumerate(kinds):
            _reliability_dots(axes, k, name, values, correct)
        axes.set_xlabel("probability of the guess, %")
        axes.set_ylabel("right, %")
        axes.set_xlim(0, 103)
        axes.set_ylim(-3, 105)
        axes.legend(loc="upper left", markerscale=0.7)

    return Plot("reliability", "Reliability before and after calibration", says, draw)


def _reliability_dots(
    axes: Axes, k: int, name: str, values: FloatArray, correct: BoolArray
) -> None:
    bins = reliability(values, correct)
    x = [100 * b.mean_probability for b in bins]
    y = [100 * b.accuracy for b in bins]
    sizes = [16 + 160 * b.n / len(values) for b in bins]
    fill = COLORS[k] if k else "white"
    axes.scatter(
        x, y, sizes, facecolor=fill, edgecolor=COLORS[k], marker="os"[k], label=name, zorder=3 - k
    )


def confusion_plot(facts: Facts, table: pd.DataFrame) -> Plot | None:
    """Held-out labels by given class and guess."""
    classes = facts.round_classes
    given, guess = (table[name].to_numpy(dtype=int) for name in ("label", "guess"))
    known = given >= 0
    if not known.any():
        return None
    matrix = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(matrix, (given[known], guess[known]), 1)
    says = _confusion_sentence(matrix, [printable(name) for name in classes])
    side = min(7.5, 2.4 + 0.34 * len(classes))

    def draw(axes: Axes) -> None:
        _matrix(axes, matrix, drawable(classes))

    return Plot("confusion", "Held-out labels against guesses", says, draw, side + 0.6, side)


def _confusion_sentence(matrix: np.ndarray, names: list[str]) -> str:
    n, right = int(matrix.sum()), int(np.trace(matrix))
    says = f"{right:,} of {n:,} held-out labels lie on the diagonal, where guess and label agree."
    off = matrix - np.diag(np.diag(matrix))
    if not off.any():
        return f"{says} None lies beside it."
    given, guess = np.unravel_index(int(off.argmax()), off.shape)
    times = int(off[given, guess])
    often = "once" if times == 1 else f"{times:,} times"
    return f"{says} Beside it most often ({often}): '{names[given]}' guessed as '{names[guess]}'."


def _matrix(axes: Axes, matrix: np.ndarray, names: list[str]) -> None:
    n = len(names)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    if n <= _MOST_NAMED:
        edges = np.arange(n + 1) - 0.5
        axes.pcolormesh(edges, edges, shares, cmap="Blues", vmin=0, vmax=1.25)
        axes.invert_yaxis()
    else:
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.25, interpolation="nearest")
    if n <= _MOST_NUMBERED:
        for (row, column), value in np.ndenumerate(matrix):
            if value:
                dark = shares[row, column] > 0.6
                axes.text(
                    column,
                    row,
                    f"{value:,}",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if dark else "#222222",
                )
    some = range(0, n, 1 + n // _MOST_NAMED)
    long = max(map(len, names)) > 3
    axes.set_xticks(list(some), [names[i] for i in some], rotation=90 if long else 0)
    axes.set_yticks(list(some), [names[i] for i in some])
    axes.grid(visible=False)
    axes.set_aspect("equal")
    axes.set_xlabel("guess")
    axes.set_ylabel("label by people")
