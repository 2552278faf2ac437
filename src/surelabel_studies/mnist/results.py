"""The result of a row of the MNIST study, from its run folder and the truth."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from surelabel.api import Run
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import catalog_like
from surelabel.dataset.pixels import open_pixels
from surelabel.files.documents import read_json, write_json
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import FloatArray, IntArray, JsonObject, LabelSource, OnProgress, StopReason
from surelabel.workflows.label import as_recorded
from surelabel_studies.mnist.cost import Cost, cost_of
from surelabel_studies.mnist.rows import PAPER_POOL, Figures
from surelabel_studies.mnist.split import StudySplit

if TYPE_CHECKING:
    from surelabel.engines.inputs import Images
    from surelabel.runs.rounds import RoundFiles

PAPER_BEST = ((17_828, 0.0011), (4092, 0.0035), (762, 0.0079), (0, math.nan))
"""Images left unlabeled, and the lowest 1 - kappa of the paper's rows there; no row left none."""


def one_minus_kappa(truth: IntArray, label: IntArray) -> float:
    """1 - Cohen's kappa; nan without labels, 0 if all are right."""
    from sklearn.metrics import cohen_kappa_score

    if not len(truth):
        return math.nan
    if (truth == label).all():
        return 0.0
    return float(1 - cohen_kappa_score(truth, label))


def figures_of(truth: IntArray, label: IntArray, *, left: int, rounds: int) -> Figures:
    """The columns of the paper's table for labels (N,) against their truth (N,)."""
    from sklearn.metrics import precision_recall_fscore_support

    if not len(truth):
        return Figures(math.nan, math.nan, math.nan, left, math.nan, rounds)
    averages = precision_recall_fscore_support(truth, label, average="macro", zero_division=0)
    precision, recall, f1 = (1 - float(value) for value in averages[:3])
    return Figures(precision, recall, f1, left, one_minus_kappa(truth, label), rounds)


def kappa_curve(
    truth: IntArray, guess: IntArray, score: FloatArray, left: Sequence[int]
) -> list[float]:
    """1 - kappa if all but n images are labeled, the most certain first; for each n in ``left``."""
    order = np.argsort(score, kind="stable")
    kept = (order[: len(order) - n] for n in left)
    return [one_minus_kappa(truth[rows], guess[rows]) for rows in kept]


def points_for(n_pool: int) -> list[int]:
    """The paper's numbers of images left unlabeled, scaled to a pool of ``n_pool``."""
    return [round(left * n_pool / PAPER_POOL) for left, _ in PAPER_BEST]


def accuracy_on_test(
    run: Run, split: StudySplit, notes: Path, on_progress: OnProgress
) -> list[float]:
    """The test accuracy of each round's nets; ``notes`` keeps what is known already."""
    from surelabel.engines.ensemble import predict_as_round

    known: dict[str, float] = read_json(notes) if notes.exists() else {}
    images: Images | None = None
    accuracies = []
    for files in run.folder.finished_rounds():
        key = _key(files, split)
        if key not in known:
            images = images or _test_images(run, split)
            weights, config, ids = files.weights(), as_recorded(run.folder), images.catalog.ids
            guess = predict_as_round(weights, files.number, config, images, ids, on_progress).guess
            known[key] = float(np.mean(guess == split.test_truth))
            write_json(notes, known)
        accuracies.append(known[key])
    return accuracies


def _key(files: RoundFiles, split: StudySplit) -> str:
    """Identifies the weights and the images, so that a round trained again is evaluated again."""
    from surelabel.engines.neighbor_search import FILE

    digests = files.digests()
    names = [*(path.name for path in files.weights()), FILE]
    weights = [digests[name][:16] for name in names if name in digests]
    return f"round {files.number}, {len(split.test_truth)} images, weights {' '.join(weights)}"


def _test_images(run: Run, split: StudySplit) -> Images:
    from surelabel.engines.device import prepare
    from surelabel.engines.inputs import Images

    folder = run.folder
    config = as_recorded(folder)
    prepare(config)
    cache = cache_folder(config.cache)
    catalog = catalog_like(folder.catalog, split.test_images, cache=cache)
    return Images(catalog, open_pixels(catalog, cache))


@dataclass(frozen=True)
class RowResult:
    """The result of one model on one split."""

    model: str
    run: Run
    figures: Figures
    n_pool: int
    n_labeled: int
    n_wrong: int
    """Wrong labels among them."""
    rounds: Sequence[RoundMetrics]
    stop_reason: StopReason | None
    cost: Cost
    curve: Sequence[tuple[int, float]]
    """(images left unlabeled, 1 - kappa) if the pool is labeled in the order of the run's score."""
    test_accuracy: Sequence[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Seconds of training and scoring, over all rounds."""
        return sum(r.seconds for r in self.rounds)

    @property
    def error(self) -> float:
        """Share of wrong labels; nan if nothing was labeled."""
        return self.n_wrong / self.n_labeled if self.n_labeled else float("nan")

    def to_json(self) -> JsonObject:
        """JSON values; None in place of nan."""
        figures = dataclasses.asdict(self.figures)
        counts = {name: figures.pop(name) for name in ("left", "rounds")}
        return {
            **{f"one_minus_{name}": _known(value) for name, value in figures.items()},
            **counts,
            "pool": self.n_pool,
            "labeled": self.n_labeled,
            "wrong": self.n_wrong,
            "stop_reason": self.stop_reason,
            "seconds": round(self.seconds, 2),
            "training_macs": self.cost.training,
            "scoring_macs": self.cost.scoring,
            "curve": [[left, _known(kappa)] for left, kappa in self.curve],
            "test_accuracy": list(self.test_accuracy),
        }


def result_of(
    model: str, run: Run, split: StudySplit, test_accuracy: Sequence[float] = ()
) -> RowResult:
    """Compare the labels of ``run`` with the truth."""
    table = pool_table(run, split)
    labeled = table[table["source"] == str(LabelSource.PSEUDO)]
    truth, label = _numbers(labeled["truth"]), _numbers(labeled["label"])
    left = int((table["source"] == str(LabelSource.NONE)).sum())
    rounds = list(run.rounds)
    n_folds = len(rounds[0].learner["members"]) if run.folder.catalog.cross_fit else 1
    points = points_for(len(table))
    guess, score = _numbers(table["guess"]), table["score"].to_numpy(dtype=float)
    curve = kappa_curve(_numbers(table["truth"]), guess, score, points)
    return RowResult(
        model=model,
        run=run,
        figures=figures_of(truth, label, left=left, rounds=len(rounds)),
        n_pool=len(table),
        n_labeled=len(labeled),
        n_wrong=int((truth != label).sum()),
        rounds=rounds,
        stop_reason=run.summary.stop_reason,
        cost=cost_of(rounds, run.config, n_folds),
        curve=list(zip(points, curve, strict=True)),
        test_accuracy=list(test_accuracy),
    )


def pool_table(run: Run, split: StudySplit) -> pd.DataFrame:
    """The annotations of images without a human label, with columns ``truth`` and ``row``.

    They are in the order of the split; exact copies of labeled images are left out.
    """
    table = run.annotations
    rows = table["path"].str.rpartition(":")[2].astype(int)
    table = table.assign(row=rows, truth=split.truth[rows.to_numpy()])
    chosen = table["source"].isin([str(LabelSource.PSEUDO), str(LabelSource.NONE)])
    return table[chosen].reset_index(drop=True)


def _numbers(classes: pd.Series) -> IntArray:
    return np.asarray(classes.astype(int), dtype=np.int64)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value
