"""The figures of the adaptation study: what labels are worth, and where centroids lie."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from surelabel.report.canvas import COLORS, MARKERS, canvas, save_figure
from surelabel.types import FloatArray, JsonObject
from surelabel_studies.adaptation.pairs import Pair
from surelabel_studies.adaptation.study import CHOSEN, Trial, by_pair

_OF = {
    Pair.LEAVES: "leaves in the laboratory (old) and in the field (new)",
    Pair.MNIST_USPS: "MNIST (old) and USPS (new)",
    Pair.USPS_MNIST: "USPS (old) and MNIST (new)",
    Pair.PACKAGING: "synthetic packaging of two groups of locations",
}
_MOST_NAMED = 12
"""Classes that a legend names; colors repeat beyond."""
_PALETTE = (*COLORS[:6], "#F0E442", "#882255", "#44AA99", "#999933")


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
    by_number = sorted({(row.n_labels, row.count) for row in trials[0].rows})
    counts = [count for _, count in by_number]
    ticks = [str(n) if count == str(n) else f"{n}\n{count}" for n, count in by_number]
    ways = list(dict.fromkeys(row.way for trial in trials for row in trial.rows))
    ways.sort(key=lambda way: way != CHOSEN)
    caption = (
        f"What labels of the new dataset are worth, by way: {_OF[trials[0].pair]}. Mean over "
        f"{len(trials)} seed{'s' if len(trials) > 1 else ''} on the images without shown labels; "
        "left the accuracy, right the area under the risk-coverage curve (lower is better)."
    )
    with canvas(9.6, 4.6) as figure:
        left, right = figure.subplots(1, 2)
        for number, way in enumerate(ways):
            for axes, name in ((left, "accuracy"), (right, "aurc")):
                at = [(x, mean_of(trials, count, way, name)) for x, count in enumerate(counts)]
                known = [(x, 100 * y) for x, y in at if y is not None]
                axes.plot(*zip(*known, strict=True), **_line(number, way))
        for axes, title in ((left, "accuracy (%)"), (right, "AURC x 100")):
            axes.set_xticks(range(len(counts)), ticks, fontsize=8)
            axes.set(xlabel="labels of the new dataset", ylabel=title)
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)
        save_figure(figure, stem, caption)
    return caption


def _line(number: int, way: str) -> JsonObject:
    chosen = way == CHOSEN
    color = "black" if chosen else _PALETTE[(number - 1) % len(_PALETTE)]
    marker = MARKERS[number % len(MARKERS)]
    return {"label": way, "color": color, "marker": marker, "linewidth": 2.6 if chosen else 1.4}


def mean_of(trials: Sequence[Trial], count: str, way: str, name: str = "accuracy") -> float | None:
    """The mean over the seeds; None if the way says nothing with that number of labels."""
    values = [trial.value(count, way, name) for trial in trials]
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def embed(centroids: FloatArray, dimensions: int, seed: int) -> tuple[FloatArray, float]:
    """t-SNE, (M, D) -> (M, dimensions), and its perplexity, which is below M."""
    from sklearn.manifold import TSNE

    perplexity = max(1.0, min(30.0, (len(centroids) - 1) / 3))
    start = "pca" if min(centroids.shape) >= dimensions else "random"
    method = TSNE(dimensions, perplexity=perplexity, init=start, method="exact", random_state=seed)
    embedded: FloatArray = method.fit_transform(centroids.astype(np.float64))
    return embedded, perplexity


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
        for number in range(len(at)):
            axes.scatter(*at[number][:, None], **_mark(trial, number))
        axes.set_xlabel("t-SNE 1")
        axes.set_ylabel("t-SNE 2")
        beside.legend(handles=_legend(trial), loc="center left", borderaxespad=0)
        save_figure(figure, stem, caption)
    return caption


def _mark(trial: Trial, number: int) -> JsonObject:
    joined = trial.joined
    if not joined.kept[number]:
        return {"marker": "*", "color": "black", "s": 90}
    color = _PALETTE[int(joined.labels[number]) % len(_PALETTE)]
    marker = MARKERS[1] if joined.is_adapted[number] else MARKERS[0]
    return {"marker": marker, "color": color, "s": 42, "edgecolors": "black", "linewidths": 0.4}


def _legend(trial: Trial) -> list[Line2D]:
    def handle(marker: str, color: str, label: str) -> Line2D:
        return Line2D([], [], linestyle="", marker=marker, color=color, label=label)

    kinds = [handle("o", "gray", "old dataset"), handle("s", "gray", "new dataset")]
    kinds.append(handle("*", "black", "excluded"))
    if len(trial.classes) > _MOST_NAMED:
        return kinds
    return kinds + [
        handle("D", _PALETTE[k % len(_PALETTE)], name) for k, name in enumerate(trial.classes)
    ]


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
