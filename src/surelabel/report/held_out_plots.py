"""Figures of the last round's held-out predictions: risk by coverage, reliability, confusion."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from surelabel.inference.selective_risk import risk_coverage
from surelabel.messages.run import held_out_text, percent
from surelabel.report.canvas import COLORS, DARK_GRAY, GRAY
from surelabel.report.facts import Facts
from surelabel.report.plots import Plot, drawable, printable
from surelabel.selection.calibration import expected_calibration_error, reliability
from surelabel.types import BoolArray, FloatArray, IntArray
from surelabel.workflows.certify import certified_thresholds

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MAX_POINTS = 400
"""Points of the risk-coverage curve that are drawn."""
_MAX_CLASSES_WITH_NUMBERS = 16
"""With more classes the cells of the confusion matrix have no numbers."""
_MAX_CLASS_TICKS = 40
_DARK_CELL = 0.6
"""Cells with a larger share have white numbers."""


def coverage_plot(facts: Facts, table: pd.DataFrame) -> Plot:
    """Share of wrong labels among the accepted by the share accepted, for the run's own score."""
    wrong = ~table["correct"].to_numpy(dtype=bool)
    coverage, risk = risk_coverage(table["score"].to_numpy(dtype=float), wrong)
    _, ideal = risk_coverage(wrong, wrong)
    points = _operating_points(facts, table)

    def draw(axes: Axes) -> None:
        some = np.unique(np.linspace(0, len(risk) - 1, _MAX_POINTS).astype(int))
        x = 100 * coverage[some]
        score = str(facts.config.score).replace("_", " ")
        axes.plot(x, 100 * risk[some], color=COLORS[0], label=f"by {score}")
        axes.plot(x, 100 * ideal[some], "--", color=GRAY, linewidth=1.2, label="by a perfect score")
        for k, (name, accepted) in enumerate(points):
            if accepted.any():
                axes.plot(
                    [100 * accepted.mean()],
                    [100 * wrong[accepted].mean()],
                    "DX"[k % 2],
                    color=COLORS[1 + k],
                    markersize=8,
                    label=f"chosen: {name}",
                )
        axes.set_xlabel("accepted, % of held-out labels")
        axes.set_ylabel("wrong among accepted, %")
        axes.set_xlim(0, 102)
        axes.set_ylim(bottom=-0.02 * max(1.0, 100 * float(risk.max())))
        axes.legend(loc="upper left")

    caption = _coverage_caption(wrong, *points[-1])
    return Plot("coverage", "Error against coverage", caption, draw)


def _coverage_caption(wrong: BoolArray, name: str, accepted: BoolArray) -> str:
    n, n_wrong = int(accepted.sum()), int((accepted & wrong).sum())
    everything = held_out_text(int(wrong.sum()), len(wrong))
    return (
        f"If every held-out prediction were accepted, {everything} would be wrong. The chosen "
        f"point ({name}) accepts {percent(n / len(wrong))} of them, of which "
        f"{held_out_text(n_wrong, n)} are wrong. The closer the line is to the dashed one, the "
        "better the score separates right from wrong predictions."
    )


def _operating_points(facts: Facts, table: pd.DataFrame) -> list[tuple[str, BoolArray]]:
    """Which held-out labels tau and the certified threshold, if there is one, would accept."""
    score = table["score"].to_numpy()
    if "accepted" in table:
        by_tau = table["accepted"].to_numpy(dtype=bool)
    else:
        by_tau = score <= facts.rounds[-1].threshold
    points = [("tau from held-out labels", by_tau)]
    certified = certified_thresholds(facts.summary.certification, facts.round_classes)
    if np.isfinite(certified).any():
        own = certified[table["guess"].to_numpy(dtype=int)]
        accepted = np.where(np.isnan(own), by_tau, score <= own)
        points.append(("the certified threshold", accepted & ~_outliers(table)))
    return points


def _outliers(table: pd.DataFrame) -> BoolArray:
    if "outlier" not in table:
        return np.zeros(len(table), dtype=bool)
    return table["outlier"].to_numpy(dtype=bool)


def reliability_plot(facts: Facts, table: pd.DataFrame) -> Plot | None:
    """How often predictions of each probability are right, before and after calibration."""
    if "calibrated" not in table:
        return None
    correct = table["correct"].to_numpy(dtype=bool)
    before, after = (
        table[column].to_numpy(dtype=float) for column in ("probability", "calibrated")
    )

    def draw(axes: Axes) -> None:
        axes.plot([0, 100], [0, 100], color=GRAY, linewidth=1, linestyle="--")
        _reliability_dots(axes, 0, "as predicted", before, correct)
        _reliability_dots(axes, 1, "calibrated", after, correct)
        axes.set_xlabel("predicted probability, %")
        axes.set_ylabel("right, %")
        axes.set_xlim(0, 103)
        axes.set_ylim(-3, 105)
        axes.legend(loc="upper left", markerscale=0.7)

    gaps = [percent(expected_calibration_error(values, correct)) for values in (before, after)]
    means = [percent(float(values.mean())) for values in (before, after)]
    caption = (
        f"{percent(float(correct.mean()))} of the predictions are right. Their mean probability is "
        f"{means[0]}, and {means[1]} after calibration. Calibration changes the expected "
        f"calibration error from {gaps[0]} to {gaps[1]} (temperature "
        f"{facts.rounds[-1].temperature:.2f}, fitted to these same labels). Dots below the "
        "diagonal are overconfident; larger dots stand for more predictions."
    )
    return Plot("reliability", "Reliability before and after calibration", caption, draw)


def _reliability_dots(
    axes: Axes, number: int, name: str, values: FloatArray, correct: BoolArray
) -> None:
    bins = reliability(values, correct)
    axes.scatter(
        [100 * b.mean_probability for b in bins],
        [100 * b.accuracy for b in bins],
        [16 + 160 * b.n / len(values) for b in bins],
        facecolor=COLORS[number] if number else "white",
        edgecolor=COLORS[number],
        marker="os"[number],
        label=name,
        zorder=3 - number,
    )


def confusion_plot(facts: Facts, table: pd.DataFrame) -> Plot | None:
    """Held-out labels by given class and predicted class."""
    from sklearn.metrics import confusion_matrix

    classes = facts.round_classes
    given, guess = (table[name].to_numpy(dtype=int) for name in ("label", "guess"))
    known = given >= 0
    if not known.any():
        return None
    matrix = confusion_matrix(given[known], guess[known], labels=np.arange(len(classes)))
    side = min(7.5, 2.4 + 0.34 * len(classes))

    def draw(axes: Axes) -> None:
        _draw_matrix(axes, matrix, drawable(classes))

    caption = _confusion_caption(matrix, [printable(name) for name in classes])
    return Plot("confusion", "Held-out labels by prediction", caption, draw, side + 0.6, side)


def _confusion_caption(matrix: IntArray, names: list[str]) -> str:
    n, right = int(matrix.sum()), int(np.trace(matrix))
    caption = f"{right:,} of {n:,} held-out labels are on the diagonal: predicted correctly."
    mistakes = matrix - np.diag(np.diag(matrix))
    if not mistakes.any():
        return f"{caption} None is off it."
    given, guess = np.unravel_index(int(mistakes.argmax()), mistakes.shape)
    times = int(mistakes[given, guess])
    often = "once" if times == 1 else f"{times:,} times"
    return (
        f"{caption} The most frequent mistake ({often}): '{names[given]}' predicted as "
        f"'{names[guess]}'."
    )


def _draw_matrix(axes: Axes, matrix: IntArray, names: list[str]) -> None:
    n = len(names)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    if n <= _MAX_CLASS_TICKS:
        edges = np.arange(n + 1) - 0.5
        axes.pcolormesh(edges, edges, shares, cmap="Blues", vmin=0, vmax=1.25)
        axes.invert_yaxis()
    else:
        axes.imshow(shares, cmap="Blues", vmin=0, vmax=1.25, interpolation="nearest")
    if n <= _MAX_CLASSES_WITH_NUMBERS:
        for (row, column), value in np.ndenumerate(matrix):
            if value:
                color = "white" if shares[row, column] > _DARK_CELL else DARK_GRAY
                text = f"{value:,}"
                axes.text(column, row, text, ha="center", va="center", fontsize=8, color=color)
    ticks = range(0, n, 1 + n // _MAX_CLASS_TICKS)
    has_long_names = max(map(len, names)) > 3
    axes.set_xticks(list(ticks), [names[i] for i in ticks], rotation=90 if has_long_names else 0)
    axes.set_yticks(list(ticks), [names[i] for i in ticks])
    axes.grid(visible=False)
    axes.set_aspect("equal")
    axes.set_xlabel("prediction")
    axes.set_ylabel("label by people")
