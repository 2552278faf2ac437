"""The tables of the packaging study: the paper's figures beside ours.

Every table has a title that says which photographs, backbone and weights it is of.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from surelabel_studies.mnist.tables import markdown, share
from surelabel_studies.packaging.paper import RUNS, ClassFigures, together
from surelabel_studies.packaging.results import CLASSES, RANKING, Found, SelfTrained
from surelabel_studies.packaging.rows import FIRST_NETS, MODELS
from surelabel_studies.packaging.tasks import EXPERIMENTS
from surelabel_studies.use_by_dates.sets import COUNTS, Category, Like

_AVERAGE = "average"
_ASIDE = "here, mean and range over the seeds"


def tables(found: Found) -> str:
    """All tables, each under its title."""
    parts: Sequence[tuple[str, Callable[[Found], str]]] = (
        ("Photographs of each category", counts_table),
        ("Experiments: accuracy on test images", experiments_table),
        ("Self-training on set 4, when each run ended", stops_table),
        ("Self-training on set 4, by class", classes_table),
        ("Kappa at equal numbers accepted", equal_table),
        ("How each measure ranks the guesses of round 1: area under the risk curve", ranking_table),
        ("Aleatoric measure and recorded difficulty: rank correlation", ranks_table),
        ("Mutual information on a location without labels: AUROC", left_out_table),
    )
    made = [(title, make(found)) for title, make in parts]
    return "\n".join(f"### {title} ({found.about.title})\n\n{text}" for title, text in made if text)


def counts_table(found: Found) -> str:
    """Paper / here, for each category and set."""
    lines = []
    for category in Category:
        cells = []
        for like in Like:
            paper = COUNTS[like].get(category, 0)
            here = (
                (found.sets[like]["category"] == str(category)).sum() if like in found.sets else 0
            )
            cells.append(f"{paper:,} / {here:,}")
        lines.append([str(category), *cells])
    totals = [
        f"{sum(COUNTS[like].values()):,} / {len(found.sets[like]) if like in found.sets else 0:,}"
        for like in Like
    ]
    lines.append(["together", *totals])
    note = "\nPaper / here. The paper's text says 6,739 for set 2; its table sums to 6,715.\n"
    return markdown(("category", *Like), lines) + note


def experiments_table(found: Found) -> str:
    """Accuracy in percent beside the paper's, with what guessing the largest class reaches."""
    lines = []
    for experiment in EXPERIMENTS:
        mine = [a for a in found.accuracies if a.key == experiment.key]
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
        "asks for",
        "images a class, paper",
        "here",
        "accuracy in %, paper",
        _ASIDE,
        "largest class",
        "test images",
    )
    return markdown(header, lines) if lines else ""


def stops_table(found: Found) -> str:
    """Kappa and counts when each run ended, and by what."""
    lines = []
    for model in MODELS:
        mine = found.of(model)
        if not mine:
            continue
        paper = RUNS.get(model)
        lines.append(
            [
                found.title(model),
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
        _ASIDE,
        "labeled, paper",
        "here",
        "pool",
        "rounds",
        "ended by",
        "seconds",
    )
    return markdown(header, lines) if lines else ""


def classes_table(found: Found) -> str:
    """Precision, recall, F1 and count of each class, paper / here (mean over the seeds)."""
    lines = []
    for model in MODELS:
        ours = [{**run.classes, _AVERAGE: together(run.classes)} for run in found.of(model)]
        printed = RUNS[model].classes if model in RUNS else None
        theirs = {**printed, _AVERAGE: together(printed)} if printed else {}
        for name in (*CLASSES, _AVERAGE) if ours else ():
            mine = [classes[name] for classes in ours]
            lines.append([found.title(model), name, *_class_cells(theirs.get(name), mine)])
    header = ("run", "class", "precision, paper / here", "recall", "F1", "images")
    return markdown(header, lines) if lines else ""


def _class_cells(paper: ClassFigures | None, mine: Sequence[ClassFigures]) -> list[str]:
    cells = []
    for column in ("precision", "recall", "f1"):
        here = mean([getattr(figures, column) for figures in mine])
        cells.append(f"{share(getattr(paper, column)) if paper else '-'} / {share(here)}")
    here = mean([figures.n for figures in mine])
    return [*cells, f"{paper.n if paper else '-'} / {here:,.0f}"]


def equal_table(found: Found) -> str:
    """Each Bayesian run and the baseline on as many labels as the shorter of the two has."""
    lines = []
    for model in MODELS:
        if model == "baseline":
            continue
        for one, two, n in pairs(found, model, "baseline"):
            cells = [one.kappa_of_first(n), two.kappa_of_first(n)]
            shown = [share(value) for value in cells]
            lines.append([found.title(model), str(one.seed), f"{n:,}", *shown, _signed(*cells)])
    header = ("run", "seed", "labels of each", "its kappa", "the baseline's", "difference")
    note = "\nThe first labels that each run accepted: by round, then by score.\n"
    return markdown(header, lines) + note if lines else ""


def pairs(found: Found, one: str, two: str) -> list[tuple[SelfTrained, SelfTrained, int]]:
    """Runs of two models on the same seed, with the number of labels that both have."""
    theirs = {run.seed: run for run in found.of(two)}
    return [
        (run, theirs[run.seed], min(len(run.accepted), len(theirs[run.seed].accepted)))
        for run in found.of(one)
        if run.seed in theirs
    ]


def ranking_table(found: Found) -> str:
    """AURC of each measure over the pool, by the nets of round 1."""
    lines = []
    for model in FIRST_NETS:
        mine = [one for one in found.rankings if one.model == model]
        areas = [spread([one.aurc[str(measure)] for one in mine], 3) for measure in RANKING]
        if mine:
            lines.append([found.title(model), spread([one.error for one in mine], 3), *areas])
    note = (
        "\nLower is better; what says nothing has the area of the error. "
        "The paper's score is total_variance = predictive_entropy + aleatoric_variance.\n"
    )
    return markdown(("run", "error", *map(str, RANKING)), lines) + note if lines else ""


def ranks_table(found: Found) -> str:
    """Spearman's rho over the pool, as the nets of round 1 see it."""
    lines = [
        [
            r.measure,
            str(r.seed),
            f"{r.n:,}",
            *(signed(v) for v in (r.everywhere, r.readable, r.unreadable, r.boundary)),
        ]
        for r in found.ranks
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


def left_out_table(found: Found) -> str:
    """For each location: AUROC without its labels, and with them."""
    lines = []
    for location in sorted({one.location for one in found.left_out}):
        mine = [one for one in found.left_out if one.location == location]
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
    """Of what is a number; nan where nothing is."""
    known = [value for value in values if not math.isnan(value)]
    return statistics.fmean(known) if known else math.nan


def spread(values: Sequence[float], digits: int) -> str:
    """``.82 (.80 to .85)``: mean and range; one value, or equal ones, stand alone."""
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
