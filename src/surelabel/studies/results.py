"""What a finished row has to show: read from its run folder and the truth, nothing else."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from surelabel.run import Run
from surelabel.selftrain import RoundMetrics
from surelabel.studies.cost import Cost, cost_of
from surelabel.studies.mnist_rows import Figures
from surelabel.studies.mnist_split import StudySplit
from surelabel.studies.scores import figures_of, kappa_curve, points_for
from surelabel.types import IntArray, LabelSource, StopReason


@dataclass(frozen=True)
class RowResult:
    """A model's figures on a split."""

    model: str
    run: Run
    figures: Figures
    n_pool: int
    n_labelled: int
    n_wrong: int
    """Wrong ones among the labelled."""
    rounds: Sequence[RoundMetrics]
    stop_reason: StopReason | None
    cost: Cost
    curve: Sequence[tuple[int, float]]
    """(images left, 1 - kappa) when the pool is labelled in the order of the run's score."""
    test_accuracy: Sequence[float] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Training and scoring of all rounds, by this machine's clock."""
        return sum(r.seconds for r in self.rounds)

    @property
    def error(self) -> float:
        """Share of wrong labels; nan without any."""
        return self.n_wrong / self.n_labelled if self.n_labelled else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Plain values; nan as None, which JSON has not."""
        figures = dataclasses.asdict(self.figures)
        counts = {name: figures.pop(name) for name in ("left", "rounds")}
        return {
            **{f"one_minus_{name}": _known(value) for name, value in figures.items()},
            **counts,
            "pool": self.n_pool,
            "labelled": self.n_labelled,
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
    labelled = table[table["source"] == str(LabelSource.PSEUDO)]
    truth, label = _numbers(labelled["truth"]), _numbers(labelled["label"])
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
        n_labelled=len(labelled),
        n_wrong=int((truth != label).sum()),
        rounds=rounds,
        stop_reason=run.summary.stop_reason,
        cost=cost_of(rounds, run.config, n_folds),
        curve=list(zip(points, curve, strict=True)),
        test_accuracy=list(test_accuracy),
    )


def pool_table(run: Run, split: StudySplit) -> pd.DataFrame:
    """The run's result for images without a person's label, with their ``truth`` and ``row``.

    In the order of the split; exact copies of labelled images are not part of it.
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
