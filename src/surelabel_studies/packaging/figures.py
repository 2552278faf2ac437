"""The figures of the packaging study: dates, examples, confusion matrices."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from PIL import Image

from surelabel.report.canvas import COLORS, MARKERS, canvas, save_figure
from surelabel_studies.packaging.results import CLASSES, PackagingResults, confusion
from surelabel_studies.packaging.rows import MODELS
from surelabel_studies.use_by_dates.sets import Category, Like

_EXAMPLES = 4
_SHOWN = 160
"""Side of an example image in pixels."""


def draw_packaging(results: PackagingResults, folder: Path) -> dict[str, str]:
    """Draw the figures that the results allow; returns captions by file name without extension."""
    captions = {}
    if any(table["day"].notna().any() for table in results.sets.values()):
        captions["dates"] = _dates(results, folder / "dates")
    captions["examples"] = _examples(results, folder / "examples")
    if any(len(run.accepted) for run in results.runs):
        captions["confusion"] = _confusion(results, folder / "confusion")
    return captions


def _dates(results: PackagingResults, stem: Path) -> str:
    caption = (
        "How often each day and each month is printed in the photographs of each set, on a log "
        f"scale ({results.about.photographs})."
    )
    with canvas(9.0, 6.0) as figure:
        days, months = figure.subplots(2, 1)
        for axes, column, last in ((days, "day", 31), (months, "month", 12)):
            for number, (like, table) in enumerate(results.sets.items()):
                _frequencies(axes, table[column], last, number, str(like))
            axes.set(xlabel=f"{column} of the use-by date", ylabel="photographs", yscale="log")
            axes.set_xticks(range(1, last + 1))
        days.legend(ncols=len(results.sets))
        days.set_title(results.about.photographs)
        save_figure(figure, stem, caption)
    return caption


def _frequencies(axes: Axes, values: pd.Series, last: int, number: int, label: str) -> None:
    counts = values.dropna().astype(int).value_counts().reindex(range(1, last + 1))
    axes.plot(
        counts.index,
        counts.to_numpy(dtype=float),
        color=COLORS[number],
        marker=MARKERS[number],
        markersize=4,
        label=label,
    )


def _examples(results: PackagingResults, stem: Path) -> str:
    shown = {}
    for category in Category:
        for like in Like:
            table = results.sets.get(like)
            mine = table[table["category"] == str(category)] if table is not None else None
            if mine is None or len(mine) < _EXAMPLES:
                continue
            small = _small(mine["file"].tolist())
            if len(small) == _EXAMPLES:
                shown[str(category)] = small
                break
    caption = f"Examples of each category: {', '.join(shown)} ({results.about.photographs})."
    with canvas(1.7 * _EXAMPLES, 1.75 * max(1, len(shown)) + 0.4) as figure:
        figure.suptitle(results.about.photographs, fontsize=10)
        grid = figure.subplots(max(1, len(shown)), _EXAMPLES, squeeze=False)
        for row, (name, pictures) in zip(grid, shown.items(), strict=False):
            row[0].set_ylabel(name)
            for cell, picture in zip(row, pictures, strict=True):
                cell.imshow(picture)
        for cell in grid.flat:
            _bare(cell)
        save_figure(figure, stem, caption)
    return caption


def _small(files: Sequence[str]) -> list[np.ndarray]:
    """The first few images that can be read, made small."""
    images: list[np.ndarray] = []
    for file in files:
        if len(images) == _EXAMPLES:
            break
        with suppress(OSError), Image.open(file) as image:
            small = image.convert("RGB").resize((_SHOWN, _SHOWN), Image.Resampling.LANCZOS)
            images.append(np.asarray(small))
    return images


def _bare(cell: Axes) -> None:
    cell.grid(visible=False)
    cell.set(xticks=[], yticks=[])
    for spine in cell.spines.values():
        spine.set_visible(False)


def _confusion(results: PackagingResults, stem: Path) -> str:
    caption = (
        "Normalized confusion matrices of the labels that each run accepted on set 4, all seeds "
        f"together: rows are the true classes and sum to 1. {results.about.title}."
    )
    models = [model for model in MODELS if results.of(model)]
    with canvas(2.5 * max(2, len(models)), 3.3) as figure:
        figure.suptitle(results.about.title, fontsize=9)
        cells = figure.subplots(1, len(models), squeeze=False)[0]
        for letter, model, cell in zip("abcde", models, cells, strict=False):
            tables = [run.accepted for run in results.of(model)]
            n = sum(map(len, tables))
            cell.set_title(f"({letter}) {results.title(model)}\n{n:,} labels", fontsize=8)
            _matrix(cell, confusion(tables))
        save_figure(figure, stem, caption)
    return caption


def _matrix(cell: Axes, shares: np.ndarray) -> None:
    cell.grid(visible=False)
    cell.imshow(np.nan_to_num(shares), cmap="Blues", vmin=0, vmax=1)
    places = range(len(CLASSES))
    cell.set_xticks(places, CLASSES)
    cell.set_yticks(places, CLASSES, rotation=90, va="center")
    cell.set(xlabel="label", ylabel="truth")
    for row in places:
        for column in places:
            value = shares[row, column]
            text = "-" if np.isnan(value) else f"{value:.3f}"
            color = "white" if value > 0.5 else "black"
            cell.text(column, row, text, ha="center", va="center", color=color)
