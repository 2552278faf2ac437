"""The figures of the adaptation study: what labels are worth, and where centroids lie."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from surelabel.report.adaptation_plots import (
    centroid_legend,
    count_ticks,
    draw_label_curve,
    embed,
    scatter_centroids,
)
from surelabel.report.canvas import COLORS, canvas, save_figure
from surelabel_studies.adaptation.pairs import Pair
from surelabel_studies.adaptation.study import Trial, by_pair

_OF = {
    Pair.LEAVES: "leaves in the laboratory (old) and in the field (new)",
    Pair.MNIST_USPS: "MNIST (old) and USPS (new)",
    Pair.USPS_MNIST: "USPS (old) and MNIST (new)",
    Pair.PACKAGING: "synthetic packaging of two groups of locations",
}


def draw_adaptation(trials: Sequence[Trial], folder: Path) -> dict[str, str]:
    """Curves over all seeds, centroids of the first; captions by file name without extension."""
    captions = {}
    for pair, group in by_pair(trials).items():
        trial = group[0]
        name = f"labels-{pair}"
        captions[name] = _curves(group, folder / name)
        for dimensions in (3, 2):
            name = f"centroids-{pair}-{dimensions}d"
            captions[name] = _centroids(trial, dimensions, folder / name)
        name = f"images-per-centroid-{pair}"
        captions[name] = _sizes(trial, folder / name)
    return captions


def _curves(trials: Sequence[Trial], stem: Path) -> str:
    """Accuracy and AURC by number of labels, one line for each way."""
    ticks = count_ticks((row.n_labels, row.count) for row in trials[0].rows)
    counts = {row.n_labels: row.count for row in trials[0].rows}
    ways = list(dict.fromkeys(row.way for trial in trials for row in trial.rows))
    caption = (
        f"What labels of the new dataset are worth, by way: {_OF[trials[0].pair]}. Mean over "
        f"{len(trials)} seed{'s' if len(trials) > 1 else ''} on the images without shown labels; "
        "left the accuracy, right the area under the risk-coverage curve (lower is better)."
    )
    with canvas(9.6, 4.6) as figure:
        left, right = figure.subplots(1, 2)
        for axes, name, title in (
            (left, "accuracy", "accuracy (%)"),
            (right, "aurc", "AURC x 100"),
        ):
            means = {way: [mean_of(trials, counts[n], way, name) for n in ticks] for way in ways}
            series = {
                way: [(x, 100 * y) for x, y in enumerate(values) if y is not None]
                for way, values in means.items()
            }
            draw_label_curve(axes, series, list(ticks.values()), title)
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        save_figure(figure, stem, caption)
    return caption


def mean_of(trials: Sequence[Trial], count: str, way: str, name: str = "accuracy") -> float | None:
    """The mean over the seeds; None if the way says nothing with that number of labels."""
    values = [trial.value(count, way, name) for trial in trials]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _centroids(trial: Trial, dimensions: int, stem: Path) -> str:
    joined = trial.joined
    at, perplexity = embed(joined.centroids, dimensions, trial.seed)
    caption = (
        f"The {len(at)} centroids of the joined set A in the latents of net 2, by t-SNE in "
        f"{'three' if dimensions == 3 else 'two'} dimensions (perplexity {perplexity:.1f}): "
        f"{_OF[trial.pair]}, k = {trial.k}, seed {trial.seed}. Circles are centroids of "
        "the old dataset, squares adapted ones of the new; colors are classes; black stars are "
        f"excluded ({int((~joined.kept).sum())}). The axes of t-SNE have no unit."
    )
    with canvas(8.4, 5.2) as figure:
        grid = figure.add_gridspec(1, 2, width_ratios=[4, 1.2])
        axes: Axes
        if dimensions == 3:
            axes = axes3d = figure.add_subplot(grid[0], projection="3d")
            axes3d.set_zlabel("t-SNE 3")
        else:
            axes = figure.add_subplot(grid[0])
        beside = figure.add_subplot(grid[1])
        beside.axis("off")
        scatter_centroids(axes, at, joined)
        axes.set_xlabel("t-SNE 1")
        axes.set_ylabel("t-SNE 2")
        beside.legend(handles=centroid_legend(trial.classes), loc="center left", borderaxespad=0)
        save_figure(figure, stem, caption)
    return caption


def _sizes(trial: Trial, stem: Path) -> str:
    joined, counts = trial.joined, trial.images_per_centroid
    names = [name if len(name) < 4 else str(k) for k, name in enumerate(trial.classes)]
    order = np.lexsort((-counts, joined.is_adapted))
    caption = (
        f"Images of the new dataset nearest to each centroid of A: {_OF[trial.pair]}, "
        f"k = {trial.k}, seed {trial.seed}; {int(counts.sum()):,} images. Below each bar "
        "the class of the centroid; excluded ones have no images and a star."
    )
    with canvas(8.0, 3.6) as figure:
        axes = figure.subplots()
        colors = [COLORS[1] if joined.is_adapted[i] else COLORS[0] for i in order]
        axes.bar(range(len(order)), counts[order], color=colors)
        marks = ["*" if not joined.kept[i] else names[joined.labels[i]] for i in order]
        axes.set_xticks(range(len(order)), marks, fontsize=6 if len(order) > 40 else 9)
        axes.set(xlabel="class of the centroid (star: excluded)", ylabel="images")
        patches = [
            Line2D([], [], linestyle="", marker="s", color=color, label=label)
            for color, label in ((COLORS[0], "old dataset"), (COLORS[1], "new dataset"))
        ]
        axes.legend(handles=patches)
        save_figure(figure, stem, caption)
    return caption
