"""The figures of the MNIST study: images left unlabeled, accuracy, uncertainty, hard images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from surelabel.report.canvas import COLORS, MARKERS, canvas, draw_boxes, save_figure
from surelabel.runs.rounds import HELD_OUT_TABLE
from surelabel.selection.thresholds import RuleKind, parse_rule
from surelabel.types import LabelSource
from surelabel_studies.mnist.results import RowResult, pool_table
from surelabel_studies.mnist.split import StudySplit
from surelabel_studies.mnist.tables import title_of

_HARDEST = 3
"""Images per class in the figure of the hardest ones."""
_GRID = {"left": 0.01, "right": 0.99, "bottom": 0.09, "top": 0.93, "wspace": 0.15, "hspace": 0.5}
_MAX_TICKS = 16
_MEASURES = {"total_variance": "E[exp s] + H[E p], nats", "least_confidence": "1 - max E[p]"}


def draw_pictures(results: Sequence[RowResult], split: StudySplit, folder: Path) -> dict[str, str]:
    """Draw all figures; returns their captions by file name without extension."""
    captions = {}
    for name, caption in (
        ("left-unlabeled", _left_unlabeled(results, folder / "left-unlabeled")),
        ("accuracy", _accuracy(results, split, folder / "accuracy")),
    ):
        captions[name] = caption
    for result in results:
        rule = parse_rule(result.run.config.accept)
        if rule.kind in (RuleKind.QUANTILE, RuleKind.TUKEY):
            name = f"uncertainty-{result.model}"
            captions[name] = _uncertainty(result, folder / name)
        if result.run.config.mc_samples > 1 or result.run.config.members > 1:
            name = f"hardest-{result.model}"
            captions[name] = _hardest(result, split, folder / name)
    return captions


def _left_unlabeled(results: Sequence[RowResult], stem: Path) -> str:
    caption = (
        f"Images left unlabeled after each round, of {results[0].n_pool:,} in the pool. All "
        "models share the split."
    )
    with canvas() as figure:
        axes = figure.subplots()
        for number, result in enumerate(results):
            _line(axes, number, result, [r.n_left for r in result.rounds])
        axes.set(xlabel="round", ylabel="images left unlabeled")
        axes.set_ylim(bottom=0)
        axes.legend()
        save_figure(figure, stem, caption)
    return caption


def _accuracy(results: Sequence[RowResult], split: StudySplit, stem: Path) -> str:
    n_tune = results[0].rounds[0].n_held_out if results[0].rounds else 0
    caption = (
        f"Accuracy after each round (a) on {len(split.test_truth):,} test images, used only "
        f"after the runs had ended, and (b) on the {n_tune:,} held-out labels."
    )
    with canvas(9.0, 4.0) as figure:
        left, right = figure.subplots(1, 2, sharey=True)
        for number, result in enumerate(results):
            _line(left, number, result, [100 * value for value in result.test_accuracy])
            held_out = [100 * (1 - r.held_out_error) for r in result.rounds]
            _line(right, number, result, held_out)
        left.set(xlabel="round", ylabel="accuracy, %", title="(a) test images")
        right.set(xlabel="round", title="(b) held-out labels")
        right.legend()
        save_figure(figure, stem, caption)
    return caption


def _line(axes: Axes, number: int, result: RowResult, values: Sequence[float]) -> None:
    axes.plot(
        range(1, len(values) + 1),
        values,
        color=COLORS[number % len(COLORS)],
        marker=MARKERS[number % len(MARKERS)],
        label=title_of(result.model),
    )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _uncertainty(result: RowResult, stem: Path) -> str:
    config = result.run.config
    caption = (
        f"Uncertainty ({config.score}) of the held-out labels that {title_of(result.model)} "
        "predicts correctly, by round: quartiles, whiskers up to 1.5 times the interquartile "
        f"range, outliers not drawn. The line is tau ({config.accept}), up to which predictions "
        "became labels. (a) All rounds, (b) without the first."
    )
    rounds = result.run.folder.finished_rounds()
    tables = [files.read_table(HELD_OUT_TABLE) for files in rounds]
    scores = [table.loc[table["correct"], "score"].to_numpy() for table in tables]
    taus = [metrics.threshold for metrics in result.rounds]
    with canvas(9.0, 4.0) as figure:
        left, right = figure.subplots(1, 2)
        _boxes(left, scores, taus, 1)
        left.set(title="(a) all rounds")
        left.set_ylabel(_MEASURES.get(str(config.score), str(config.score)))
        if len(scores) > 1:
            _boxes(right, scores[1:], taus[1:], 2)
        right.set(title="(b) without the first")
        left.legend()
        save_figure(figure, stem, caption)
    return caption


def _boxes(axes: Axes, scores: list[np.ndarray], taus: list[float], first: int) -> None:
    places = list(range(first, first + len(scores)))
    draw_boxes(axes, places, scores, 0.6)
    finite = [value if np.isfinite(value) else np.nan for value in taus]
    axes.plot(places, finite, color=COLORS[1], marker="D", markersize=4, label="tau")
    shown = places[:: 1 + len(places) // _MAX_TICKS]
    axes.set_xlabel("round")
    axes.set_xticks(shown, map(str, shown))


def _hardest(result: RowResult, split: StudySplit, stem: Path) -> str:
    caption = (
        f"Images that {title_of(result.model)} left unlabeled: for each true class (above), those "
        "with the highest mutual information. Below each image: the prediction, and the aleatoric "
        "variance E[exp s]."
    )
    table = pool_table(result.run, split)
    left = table[table["source"] == str(LabelSource.NONE)]
    classes = np.unique(split.truth)
    with canvas(1.0 * len(classes), 1.5 * _HARDEST + 0.3) as figure:
        figure.set_layout_engine("none")
        grid = figure.subplots(_HARDEST, len(classes), squeeze=False, gridspec_kw=_GRID)
        for column, label in zip(grid.T, classes, strict=True):
            chosen = left[left["truth"] == label].nlargest(_HARDEST, "mutual_information")
            _column(column, chosen, split)
            column[0].set_title(str(label), loc="center")
        save_figure(figure, stem, caption)
    return caption


def _column(cells: np.ndarray, chosen: pd.DataFrame, split: StudySplit) -> None:
    for cell in cells:
        cell.grid(visible=False)
        cell.set(xticks=[], yticks=[])
        for spine in cell.spines.values():
            spine.set_visible(False)
    for cell, (_, row) in zip(cells, chosen.iterrows(), strict=False):
        cell.imshow(split.images[int(row["row"])], cmap="gray_r")
        cell.set_xlabel(f"guess {row['guess']}\n{row['aleatoric_variance']:.2g}", fontsize=8)
    if not len(chosen):
        cells[0].text(0.5, 0.5, "none left", ha="center", va="center", fontsize=8)
