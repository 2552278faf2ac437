"""A learner without a network and a store without a disk: Algorithm 1 in milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from surelabel.config.choices import Measure, Mode, Weighting
from surelabel.config.settings import Config
from surelabel.inference.measures import entropy
from surelabel.selection.neighbor_vote import Adjustment
from surelabel.selftraining.learner import OutlierDistances
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.round import RoundOutcome
from surelabel.selftraining.round_inputs import Problem, RoundInputs
from surelabel.types import FloatArray, Ids, IntArray, OnProgress, Prediction, Progress, derive_seed

CLASSES = ("ant", "bee", "cow")

#: (round, id) -> the guess and its least confidence, below 2/3.
Opinion: TypeAlias = Callable[[int, str], tuple[int, float]]


def steady(number: int, item: str) -> tuple[int, float]:
    """The same opinion in every round."""
    return derive_seed(1, item) % 3, (derive_seed(2, item) % 10_007) / 20_014


def fickle(number: int, item: str) -> tuple[int, float]:
    """Another opinion in every round."""
    return steady(number, f"{item} in round {number}")


def sure_of(scores: Mapping[str, float], guess: int = 0) -> Opinion:
    """The given scores, for all rounds, and one guess for all."""
    return lambda _, item: (guess, scores[item])


@dataclass
class FakeIndex:
    """Each image has one neighbor."""

    alike: Callable[[str], str]
    predictions: Mapping[str, FloatArray]
    kept: list[Adjustment]

    def votes(self, ids: Ids, on_progress: OnProgress) -> FloatArray:
        return np.array([self.predictions[self.alike(item)] for item in ids.tolist()])

    def units(self, ids: Ids) -> IntArray:
        return np.arange(len(ids))

    def save(self, work_folder: Path, adjustment: Adjustment) -> None:
        self.kept.append(adjustment)


@dataclass
class FakeLearner:
    """Predicts what ``opinion`` tells it; ``held_out`` may differ, as it does for a real net.

    It is its own ensemble: there is nothing to train.
    """

    opinion: Opinion = steady
    held_out: Opinion | None = None
    order: Callable[[Ids], Ids] = lambda ids: ids
    """The order in which predictions come back."""
    alike: Callable[[str], str] | None = None
    """The neighbor of an id."""
    inputs_seen: list[RoundInputs] = field(default_factory=list)
    asked: list[Ids] = field(default_factory=list)
    """The ids of each call of ``predict``."""
    kept: list[Adjustment] = field(default_factory=list)
    """The adjustment that each round saved."""

    def train(
        self, round_inputs: RoundInputs, work_folder: Path, on_progress: OnProgress
    ) -> FakeLearner:
        self.inputs_seen.append(round_inputs)
        on_progress(Progress("training", 1, 1))
        return self

    def predict(self, ids: Ids, on_progress: OnProgress) -> Prediction:
        self.asked.append(ids)
        on_progress(Progress("scoring", len(ids), len(ids)))
        return self._prediction(self.opinion, ids)

    def predict_held_out(self, problem: Problem, on_progress: OnProgress) -> Prediction:
        return self._prediction(self.held_out or self.opinion, problem.tune_ids)

    def distances_from(
        self,
        outliers: Ids,
        problem: Problem,
        ids: Ids,
        work_folder: Path,
        on_progress: OnProgress,
    ) -> OutlierDistances | None:
        return None

    def neighbor_index(self, ids: Ids, predictions: FloatArray) -> FakeIndex | None:
        if self.alike is None:
            return None
        return FakeIndex(self.alike, dict(zip(ids.tolist(), predictions, strict=True)), self.kept)

    def report(self) -> Mapping[str, Any]:
        return {"rounds": len(self.inputs_seen)}

    def _prediction(self, opinion: Opinion, ids: Ids) -> Prediction:
        round_inputs, ids = self.inputs_seen[-1], self.order(ids)
        k = len(round_inputs.problem.classes)
        p = np.empty((len(ids), k))
        for row, item in enumerate(ids.tolist()):
            guess, score = opinion(round_inputs.number, item)
            p[row] = score / (k - 1)
            p[row, guess] = 1 - score
        return Prediction(ids, p, entropy(p) / 2, (p**2).sum(axis=1), 1 - p.max(axis=1))


@dataclass
class MemoryStore:
    """Finished rounds in a list."""

    place: Path
    outcomes: list[RoundOutcome] = field(default_factory=list)

    def history(self) -> Sequence[RoundMetrics]:
        return [outcome.metrics for outcome in self.outcomes]

    def last_pool(self) -> pd.DataFrame | None:
        return self.outcomes[-1].pool if self.outcomes else None

    def last_folder(self) -> Path | None:
        return self._folder(len(self.outcomes)) if self.outcomes else None

    def begin(self, number: int) -> Path:
        folder = self._folder(number)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def commit(self, outcome: RoundOutcome) -> None:
        self.outcomes.append(outcome)

    def _folder(self, number: int) -> Path:
        return self.place / f"{number:03d}"


def names(prefix: str, n: int) -> Ids:
    return np.array([f"{prefix}{i:03d}" for i in range(n)], dtype=np.str_)


def opinions(opinion: Opinion, ids: Ids) -> IntArray:
    return np.array([opinion(1, item)[0] for item in ids.tolist()], dtype=np.int64)


def make_problem(
    n_pool: int = 30,
    *,
    n_human: int = 9,
    tune_ids: Ids | None = None,
    tune_labels: IntArray | None = None,
    cross_fit: bool = False,
    classes: tuple[str, ...] = CLASSES,
    inputs: str = "first",
    answers_upto: int = 0,
) -> Problem:
    """A problem whose tune labels are what ``steady`` guesses, unless reports otherwise."""
    human_ids = names("human", n_human)
    human_labels = np.arange(n_human, dtype=np.int64) % len(classes)
    if cross_fit:
        tune_ids, tune_labels = human_ids, human_labels
    elif tune_ids is None:
        tune_ids = names("tune", 20)
    return Problem(
        classes=classes,
        human_ids=human_ids,
        human_labels=human_labels,
        tune_ids=tune_ids,
        tune_labels=opinions(steady, tune_ids) if tune_labels is None else tune_labels,
        pool_ids=names("pool", n_pool),
        cross_fit=cross_fit,
        inputs=inputs,
        answers_upto=answers_upto,
    )


def settings(**changes: Any) -> Config:
    """Every option that the loop reads, predicted aloud, so that no test rests on a default."""
    plain: dict[str, Any] = {
        "accept": "q2",
        "mode": Mode.RELABEL,
        "score": Measure.LEAST_CONFIDENCE,
        "weights": Weighting.NONE,
        "weight_measure": Measure.LEAST_CONFIDENCE,
        "weight_cap": 0.0,
        "balance_rounds": 0,
        "matrix_scaling": False,
        "max_rounds": 3,
        "stop_below": 0,
        "stop_after_empty": 1000,
        "batch_size": 16,
    }
    return Config(**{**plain, **changes}).in_effect(pretrained=False)
