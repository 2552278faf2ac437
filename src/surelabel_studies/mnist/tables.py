"""The tables of the MNIST study: the paper's figures next to ours, as Markdown and CSV."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence

from surelabel_studies.mnist.cost import cheapest_of_the_paper, paper_cost
from surelabel_studies.mnist.results import PAPER_BEST, RowResult
from surelabel_studies.mnist.rows import DEFAULT, PAPER_POOL, Figures, row_named

COLUMNS = ("1-precision", "1-recall", "1-F1", "left unlabeled", "1-kappa", "rounds")
CSV_COLUMNS = (
    "model",
    "figures",
    "tau",
    "weights",
    "penalty",
    "one_minus_precision",
    "one_minus_recall",
    "one_minus_f1",
    "left",
    "one_minus_kappa",
    "rounds",
    "pool",
    "labeled",
    "wrong",
    "stop_reason",
    "seconds",
    "training_macs",
    "scoring_macs",
)


def study_table(results: Sequence[RowResult]) -> str:
    """Two lines per model, the paper's and ours, in the paper's columns."""
    lines = []
    for result in results:
        ours = [f"{title_of(result.model)}, here", *_settings(result)]
        if result.model != DEFAULT:
            row = row_named(result.model)
            paper = [f"{row.title}, paper", *_settings(result)]
            lines.append([*paper, *_cells(row.paper, PAPER_POOL)])
        lines.append([*ours, *_cells(result.figures, result.n_pool)])
    return markdown(("model", "tau", "weights", "penalty", *COLUMNS), lines)


def curve_table(results: Sequence[RowResult]) -> str:
    """1 - kappa of the tool's own settings at the coverage of the paper's best rows, or nothing."""
    chosen = [result for result in results if result.model == DEFAULT]
    lines = []
    for result in chosen:
        for (left, kappa), (paper_left, paper_kappa) in zip(result.curve, PAPER_BEST, strict=True):
            theirs = "none" if math.isnan(paper_kappa) else share(paper_kappa)
            lines.append([f"{left:,}", share(kappa), f"{paper_left:,}", theirs])
    header = ("left unlabeled", "1-kappa", "left in the paper", "its best 1-kappa")
    return markdown(header, lines) if chosen else ""


def cost_table(results: Sequence[RowResult]) -> str:
    """The cost of each run: in seconds, and in multiply-accumulates, whatever the machine."""
    lines = []
    for result in results:
        own = result.model == DEFAULT
        paper = cheapest_of_the_paper() if own else paper_cost(row_named(result.model))
        lines.append(
            [
                title_of(result.model),
                f"{result.seconds:,.0f}",
                f"{result.cost.training / 1e12:.3g}",
                f"{result.cost.scoring / 1e12:.3g}",
                f"{paper.training / 1e12:,.0f}",
                f"{paper.scoring / 1e12:,.0f}",
                f"{result.cost.total / paper.total:.2g}" if _is_whole(result) else "-",
            ]
        )
    header = (
        "model",
        "seconds",
        "training, 10^12 MAC",
        "scoring, 10^12 MAC",
        "paper's training",
        "paper's scoring",
        "ratio to the paper",
    )
    note = (
        "MAC: multiply-accumulates of forward passes, which is the number of images seen in "
        "training, or scored with all their samples, times the cost of one image in the net of "
        "that round. An image without a label that is trained on is counted once more, and "
        "comparisons of images count as scoring. The last column counts a training step as three "
        "passes and is empty for a smaller pool; it compares the tool's own settings with the "
        "paper's cheapest row. The paper's cost is estimated from its table: 75 epochs per round, "
        "a training set that grows in equal steps to what was labeled in the end, and k by its "
        "rule. Seconds are those of the last attempt at each round, and depend on what else the "
        "machine did.\n"
    )
    return f"{markdown(header, lines)}\n{note}"


def _is_whole(result: RowResult) -> bool:
    """Whether the pool is about as large as the paper's, so that costs can be compared."""
    return result.n_pool > 0.9 * PAPER_POOL


def study_csv(results: Sequence[RowResult]) -> str:
    """The same figures, unrounded, one line for the paper's and one for ours."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for result in results:
        settings = _settings(result)
        if result.model != DEFAULT:
            figures = row_named(result.model).paper
            plain = [result.model, "paper", *settings, *_plain(figures), PAPER_POOL]
            writer.writerow([*plain, PAPER_POOL - figures.left, *[""] * 5])
        plain = [result.model, "here", *settings, *_plain(result.figures), result.n_pool]
        counts = [result.n_labeled, result.n_wrong, result.stop_reason or ""]
        cost = [round(result.seconds, 2), result.cost.training, result.cost.scoring]
        writer.writerow([*plain, *counts, *cost])
    return text.getvalue()


def markdown(header: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, with columns aligned for people who read it as text."""
    rows = [list(header), *map(list, lines)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(header))]
    texts = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([texts[0], rule, *texts[1:]]) + "\n"


def share(value: float) -> str:
    """Four decimals without the leading zero, as the paper prints them."""
    return "-" if math.isnan(value) else f"{value:.4f}".removeprefix("0")


def title_of(model: str) -> str:
    """The name of a model in tables."""
    return "defaults" if model == DEFAULT else row_named(model).title


def _settings(result: RowResult) -> list[str]:
    if result.model == DEFAULT:
        return [result.run.config.accept, "yes", "no"]
    row = row_named(result.model)
    return [row.tau, *("yes" if on else "no" for on in (row.is_weighted, row.is_penalized))]


def _cells(figures: Figures, n_pool: int) -> list[str]:
    left = f"{figures.left:,} ({100 * figures.left / n_pool:.1f} %)"
    first = [share(value) for value in (figures.precision, figures.recall, figures.f1)]
    return [*first, left, share(figures.kappa), str(figures.rounds)]


def _plain(figures: Figures) -> list[float]:
    first = [figures.precision, figures.recall, figures.f1]
    return [*first, figures.left, figures.kappa, figures.rounds]
