"""The tables of the packaging study: the paper's figures beside ours.

The title of every table names the photographs, backbone and weights.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from surelabel_studies.mnist.tables import markdown, share
from surelabel_studies.packaging.paper import RUNS, ClassFigures, weighted_average
from surelabel_studies.packaging.results import CLASSES, RANKING, PackagingResults, SelfTrained
from surelabel_studies.packaging.rows import FIRST_NETS, MODELS
from surelabel_studies.packaging.tasks import EXPERIMENTS
from surelabel_studies.use_by_dates.sets import COUNTS, Category, Like

_AVERAGE = "average"
_HERE = "here, mean and range over the seeds"


def tables(results: PackagingResults) -> str:
    """All tables, each under its title."""
    parts: Sequence[tuple[str, Callable[[PackagingResults], str]]] = (
        ("Photographs of each category", counts_table),
        ("Experiments: accuracy on test images", experiments_table),
        ("Experiments: accuracy beside that of other studies", beside_table),
        ("Attention inside the boxes of day and month", in_boxes_table),
        ("Self-training on set 4, when each run ended", stops_table),
        ("Self-training on set 4, by class", classes_table),
        ("Kappa at equal numbers accepted", equal_table),
        ("How each measure ranks the predictions of round 1: AURC", ranking_table),
        ("Aleatoric measure and recorded difficulty: rank correlation", ranks_table),
        ("Mutual information on a location without labels: AUROC", left_out_table),
    )
    made = [(title, make(results)) for title, make in parts]
    return "\n".join(
        f"### {title} ({results.about.title})\n\n{text}" for title, text in made if text
    )


def counts_table(results: PackagingResults) -> str:
    """Number of photographs in the paper / here, for each category and set."""
    lines = []
    for category in Category:
        cells = []
        for like in Like:
            paper = COUNTS[like].get(category, 0)
            here = (
                (results.sets[like]["category"] == str(category)).sum()
                if like in results.sets
                else 0
            )
            cells.append(f"{paper:,} / {here:,}")
        lines.append([str(category), *cells])
    totals = [
        f"{sum(COUNTS[like].values()):,} / {len(results.sets.get(like, ())):,}" for like in Like
    ]
    lines.append(["together", *totals])
    note = "\nPaper / here. The paper's text has 6,739 for set 2; its table sums to 6,715.\n"
    return markdown(("category", *Like), lines) + note


def experiments_table(results: PackagingResults) -> str:
    """Accuracy in percent next to the paper's, and that of always predicting the largest class."""
    lines = []
    for experiment in EXPERIMENTS:
        mine = [a for a in results.accuracies if a.key == experiment.key]
        if not mine:
            continue
        paper = ", ".join(str(kind.paper_n) for kind in experiment.kinds)
        here = ", ".join(str(mine[0].counts[kind.name]) for kind in experiment.kinds)
        lines.append(
            [
                experiment.name,
                str(experiment.like),
                experiment.about,
                paper,
                here,
                f"{100 * experiment.paper_accuracy:.1f}",
                spread([100 * a.accuracy for a in mine], 1),
                spread([100 * a.largest for a in mine], 1),
                str(mine[0].n_test),
            ]
        )
    header = (
        "experiment",
        "set",
        "question",
        "images per class, paper",
        "here",
        "accuracy in %, paper",
        _HERE,
        "largest class",
        "test images",
    )
    return markdown(header, lines) if lines else ""


def beside_table(results: PackagingResults) -> str:
    """Accuracy in percent of this study and of others, a column each."""
    studies = [(results.about, results.accuracies)]
    studies += [(other.about, list(other.accuracies)) for other in results.beside]
    lines = []
    for experiment in EXPERIMENTS if results.beside else ():
        cells = [
            spread([100 * a.accuracy for a in accuracies if a.key == experiment.key], 1)
            for _, accuracies in studies
        ]
        names = [experiment.name, str(experiment.like), experiment.about]
        lines.append([*names, f"{100 * experiment.paper_accuracy:.1f}", *cells])
    header = ("experiment", "set", "question", "paper", *(about.trained for about, _ in studies))
    return markdown(header, lines) if lines else ""


def in_boxes_table(results: PackagingResults) -> str:
    """Share of the attention inside the boxes, beside the share of the area; in percent."""
    lines = []
    for experiment in EXPERIMENTS:
        mine = [one for one in results.in_boxes if one.key == experiment.key]
        if mine:
            figures = [
                spread([one.n for one in mine], 0),
                spread([100 * one.share for one in mine], 1),
                spread([100 * one.area for one in mine], 1),
            ]
            lines.append([experiment.name, str(experiment.like), *figures])
    header = ("experiment", "set", "test images", "attention in %", "area in %")
    return markdown(header, lines) if lines else ""


def stops_table(results: PackagingResults) -> str:
    """Kappa and counts at the end of each run, and why it ended."""
    lines = []
    for model in MODELS:
        mine = results.of(model)
        if not mine:
            continue
        paper = RUNS.get(model)
        lines.append(
            [
                results.title(model),
                share(paper.kappa) if paper else "-",
                spread([run.kappa for run in mine], 4),
                f"{paper.n:,}" if paper else "5,000" if model == "top" else "-",
                spread([len(run.accepted) for run in mine], 0),
                f"{mine[0].n_pool:,}",
                spread([run.n_rounds for run in mine], 0),
                ", ".join(sorted({run.stop_reason for run in mine})),
                spread([run.seconds for run in mine], 0),
            ]
        )
    header = (
        "run",
        "kappa, paper",
        _HERE,
        "labeled, paper",
        "here",
        "pool",
        "rounds",
        "ended by",
        "seconds",
    )
    return markdown(header, lines) if lines else ""


def classes_table(results: PackagingResults) -> str:
    """Precision, recall, F1 and count of each class, paper / here (mean over the seeds)."""
    lines = []
    for model in MODELS:
        ours = [
            {**run.classes, _AVERAGE: weighted_average(run.classes)} for run in results.of(model)
        ]
        printed = RUNS[model].classes if model in RUNS else None
        theirs = {**printed, _AVERAGE: weighted_average(printed)} if printed else {}
        for name in (*CLASSES, _AVERAGE) if ours else ():
            mine = [classes[name] for classes in ours]
            lines.append([results.title(model), name, *_class_cells(theirs.get(name), mine)])
    header = ("run", "class", "precision, paper / here", "recall", "F1", "images")
    return markdown(header, lines) if lines else ""


def _class_cells(paper: ClassFigures | None, mine: Sequence[ClassFigures]) -> list[str]:
    cells = []
    for column in ("precision", "recall", "f1"):
        here = mean([getattr(figures, column) for figures in mine])
        cells.append(f"{share(getattr(paper, column)) if paper else '-'} / {share(here)}")
    here = mean([figures.n for figures in mine])
    return [*cells, f"{paper.n if paper else '-'} / {here:,.0f}"]


def equal_table(results: PackagingResults) -> str:
    """Each Bayesian run and the baseline, on as many labels as the smaller of the two has."""
    lines = []
    for model in MODELS:
        if model == "baseline":
            continue
        for one, two, n in pairs(results, model, "baseline"):
            cells = [one.kappa_of_first(n), two.kappa_of_first(n)]
            shown = [share(value) for value in cells]
            lines.append([results.title(model), str(one.seed), f"{n:,}", *shown, _signed(*cells)])
    header = ("run", "seed", "labels of each", "its kappa", "the baseline's", "difference")
    note = "\nThese are the first labels that each run accepted, by round, then by score.\n"
    return markdown(header, lines) + note if lines else ""


def pairs(
    results: PackagingResults, one: str, two: str
) -> list[tuple[SelfTrained, SelfTrained, int]]:
    """Runs of two models on the same seed, with the number of labels that both have."""
    theirs = {run.seed: run for run in results.of(two)}
    return [
        (run, theirs[run.seed], min(len(run.accepted), len(theirs[run.seed].accepted)))
        for run in results.of(one)
        if run.seed in theirs
    ]


def ranking_table(results: PackagingResults) -> str:
    """AURC of each measure over the pool, by the nets of round 1."""
    lines = []
    for model in FIRST_NETS:
        mine = [one for one in results.rankings if one.model == model]
        areas = [spread([one.aurc[str(measure)] for one in mine], 3) for measure in RANKING]
        if mine:
            lines.append([results.title(model), spread([one.error for one in mine], 3), *areas])
    note = (
        "\nLower is better; an uninformative measure has an AURC equal to the error. "
        "The paper's score is total_variance = predictive_entropy + aleatoric_variance.\n"
    )
    return markdown(("run", "error", *map(str, RANKING)), lines) + note if lines else ""


def ranks_table(results: PackagingResults) -> str:
    """Spearman's rho over the pool, for the predictions of round 1."""
    lines = [
        [
            r.measure,
            str(r.seed),
            f"{r.n:,}",
            *(signed(v) for v in (r.everywhere, r.readable, r.unreadable, r.boundary)),
        ]
        for r in results.ranks
    ]
    header = (
        "measure",
        "seed",
        "images",
        "with difficulty",
        "readable only",
        "unreadable only",
        "with closeness to the boundary",
    )
    return markdown(header, lines) if lines else ""


def left_out_table(results: PackagingResults) -> str:
    """For each location: AUROC without its labels, and with them."""
    lines = []
    for location in sorted({one.location for one in results.left_out}):
        mine = [one for one in results.left_out if one.location == location]
        lines.append(
            [
                location,
                spread([one.n for one in mine], 0),
                spread([one.auroc for one in mine], 3),
                spread([one.auroc_known for one in mine], 3),
            ]
        )
    header = ("location", "images in the pool", "without its labels", "with labels of all")
    return markdown(header, lines) if lines else ""


def mean(values: Sequence[float]) -> float:
    """The mean of the values that are not nan; nan if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.fmean(known) if known else math.nan


def spread(values: Sequence[float], digits: int) -> str:
    """Mean and range, such as ``0.82 (0.80 to 0.85)``; the mean alone if all values are equal."""
    known = [value for value in values if not math.isnan(value)]
    if not known:
        return "-"
    low, high = (f"{edge:,.{digits}f}" for edge in (min(known), max(known)))
    middle = f"{statistics.fmean(known):,.{digits}f}"
    return middle if low == high else f"{middle} ({low} to {high})"


def signed(value: float) -> str:
    """Two decimals with a sign."""
    return "-" if math.isnan(value) else f"{value:+.2f}"


def _signed(one: float, two: float) -> str:
    gap = one - two
    return "-" if math.isnan(gap) else f"{gap:+.4f}"
