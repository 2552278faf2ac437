"""Figures of an adapted run: what labels are worth, and where the centroids of both datasets lie.

The adaptation study draws its figures with the same functions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from surelabel.adaptation.clustering import CentroidSet
from surelabel.adaptation.comparison import CHOSEN
from surelabel.messages.adaptation import adaptation_of
from surelabel.report.canvas import COLORS, MARKERS
from surelabel.report.facts import Facts
from surelabel.report.plots import Plot, drawable
from surelabel.types import FloatArray, JsonObject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

PALETTE = (*COLORS[:6], "#882255", "#44AA99", "#999933", "#F0E442")
_MOST_NAMED = 12
"""Classes that a legend names; colors repeat beyond."""
_MOST_EXACT = 200
"""Centroids up to which t-SNE computes all pairs."""


def curve_plots(facts: Facts) -> list[Plot]:
    """Accuracy and AURC on held-out labels by number of labels; empty for any other run."""
    adapted = adaptation_of(facts.summary)
    points: Sequence[JsonObject] = (adapted or {}).get("curve", ())
    if adapted is None or len({point["n_labels"] for point in points}) < 2:
        return []
    n = adapted["against_direct"]["n"]
    caption = _curve_caption(points, n)
    return [
        Plot(
            "labels-accuracy",
            "What your labels are worth: accuracy, by number of labels",
            caption,
            lambda axes: _draw_curve(axes, points, "accuracy", "accuracy on held-out labels, %"),
            height=4.6,
        ),
        Plot(
            "labels-aurc",
            "What your labels are worth: AURC, by number of labels",
            "The area under the curve of error against coverage on the same labels: lower is "
            "better. It says how well the surest guesses are separated from wrong ones.",
            lambda axes: _draw_curve(axes, points, "aurc", "AURC x 100 on held-out labels"),
            height=4.6,
        ),
    ]


def _curve_caption(points: Sequence[JsonObject], n: int) -> str:
    last = max(point["n_labels"] for point in points)
    accuracy = {p["way"]: p["accuracy"] for p in points if p["n_labels"] == last}[CHOSEN]
    error = 200 * np.sqrt(max(accuracy * (1 - accuracy), 1 / n) / n)
    text = (
        f"With all {last:,} labels to learn from, what was chosen gets {100 * accuracy:.1f} % of "
        f"the {n:,} held-out labels right (give or take {error:.0f} points). Held-out labels "
        "decide nothing. Each way was fitted again to fewer of your labels, drawn at random, and "
        "those labels alone made the choice."
    )
    if {p["way"] for p in points if p["n_labels"] == last} - {
        p["way"] for p in points if p["n_labels"] < last
    }:
        text += " Ways with one point need nets that were trained on all labels."
    return text


def _draw_curve(axes: Axes, points: Sequence[JsonObject], name: str, title: str) -> None:
    ticks = count_ticks((p["n_labels"], p["count"]) for p in points)
    at = {n: x for x, n in enumerate(ticks)}
    series: dict[str, list[tuple[int, float]]] = {}
    for point in points:
        series.setdefault(point["way"], []).append((at[point["n_labels"]], 100 * point[name]))
    draw_label_curve(axes, series, list(ticks.values()), title)
    axes.legend(ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0), fontsize=8)


def count_ticks(counts: Iterable[tuple[int, str]]) -> dict[int, str]:
    """By number of labels, what stands below the axis: the number, and how it came about."""
    return {n: f"{n:,}" if count == str(n) else f"{n:,}\n{count}" for n, count in sorted(counts)}


def draw_label_curve(
    axes: Axes, series: Mapping[str, Sequence[tuple[int, float]]], ticks: Sequence[str], title: str
) -> None:
    """One line per way from (place, value); the chosen one thick and black, on top."""
    for number, way in enumerate(sorted(series, key=lambda each: each != CHOSEN)):
        chosen = way == CHOSEN
        axes.plot(
            *zip(*series[way], strict=True),
            label=way,
            color="black" if chosen else PALETTE[(number - 1) % len(PALETTE)],
            marker=MARKERS[number % len(MARKERS)],
            linewidth=2.6 if chosen else 1.4,
            zorder=3 if chosen else 2,
        )
    axes.set_xticks(range(len(ticks)), ticks, fontsize=8)
    axes.set(xlabel="labels of the new dataset", ylabel=title)


def centroids_plot(facts: Facts) -> Plot | None:
    """The centroids of the paper's set A by t-SNE; None for any other run."""
    joined = facts.centroids
    if joined is None or len(joined.labels) < 3:
        return None
    at, perplexity = embed(joined.centroids, 2, facts.config.seed)
    n_old = int((~joined.is_adapted).sum())

    def draw(axes: Axes) -> None:
        scatter_centroids(axes, at, joined)
        axes.set(xlabel="t-SNE 1", ylabel="t-SNE 2")
        handles = centroid_legend(drawable(facts.catalog.classes))
        axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.0, 0.5))

    caption = (
        f"The centroids of the paper's adaptive clustering: {n_old} of the old images and "
        f"{len(at) - n_old} of the new ones, {int((~joined.kept).sum())} of them excluded. Where "
        "squares lie apart from circles of their color, images of the class look different in the "
        "new dataset. t-SNE keeps neighbors together; its axes have no unit (perplexity "
        f"{perplexity:.1f})."
    )
    title = "Where the centroids of both datasets lie"
    return Plot("centroids", title, caption, draw, height=4.4)


def embed(centroids: FloatArray, dimensions: int, seed: int) -> tuple[FloatArray, float]:
    """t-SNE, (M, D) -> (M, dimensions), and its perplexity, which is below M."""
    from sklearn.manifold import TSNE

    perplexity = max(1.0, min(30.0, (len(centroids) - 1) / 3))
    method = TSNE(
        dimensions,
        perplexity=perplexity,
        init="pca" if min(centroids.shape) >= dimensions else "random",
        method="exact" if len(centroids) <= _MOST_EXACT else "barnes_hut",
        random_state=seed,
    )
    embedded: FloatArray = method.fit_transform(centroids.astype(np.float64))
    return embedded, perplexity


def scatter_centroids(axes: Axes, at: FloatArray, joined: CentroidSet) -> None:
    """Circles for the old dataset, squares for the new one, black stars for excluded ones."""
    for number, place in enumerate(at):
        axes.scatter(*place[:, None], **centroid_mark(joined, number))


def centroid_mark(joined: CentroidSet, number: int) -> JsonObject:
    """How one centroid is drawn; its color is its class."""
    if not joined.kept[number]:
        return {"marker": "*", "color": "black", "s": 90}
    color = PALETTE[int(joined.labels[number]) % len(PALETTE)]
    marker = MARKERS[1] if joined.is_adapted[number] else MARKERS[0]
    return {"marker": marker, "color": color, "s": 42, "edgecolors": "black", "linewidths": 0.4}


def centroid_legend(classes: Sequence[str]) -> list[Line2D]:
    """What the marks mean; the classes too, where they are few."""
    from matplotlib.lines import Line2D

    def handle(marker: str, color: str, label: str) -> Line2D:
        return Line2D([], [], linestyle="", marker=marker, color=color, label=label)

    kinds = [handle("o", "gray", "old dataset"), handle("s", "gray", "new dataset")]
    kinds.append(handle("*", "black", "excluded"))
    if len(classes) > _MOST_NAMED:
        return kinds
    return kinds + [handle("D", PALETTE[k % len(PALETTE)], name) for k, name in enumerate(classes)]
