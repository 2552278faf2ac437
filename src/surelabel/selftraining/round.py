"""One round of Algorithm 1: learn, predict, set the threshold, accept, weigh."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from surelabel.config.choices import Mode, Weighting
from surelabel.config.settings import Config
from surelabel.inference.measures import all_measures
from surelabel.selection.calibration import expected_calibration_error, fit_temperature, temper
from surelabel.selection.label_errors import suspicious_labels
from surelabel.selection.neighbor_vote import Adjustment
from surelabel.selection.out_of_distribution import NO_OUTLIERS, OutlierThreshold, is_outlier
from surelabel.selection.thresholds import (
    RuleKind,
    class_balanced,
    held_out_threshold,
    judge,
    parse_rule,
    select,
)
from surelabel.selection.weights import inverse_uncertainty_weights
from surelabel.selftraining.adjustments import NO_ADJUSTMENT, adjust_predictions, detect_outliers
from surelabel.selftraining.learner import Learner, Problem, RoundInputs
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import UNLABELED, FloatArray, IntArray, OnProgress, Prediction

RUNNERS_UP = 2
"""How many guesses after the first are kept."""


@dataclass(frozen=True)
class RoundOutcome:
    """A round's tables and figures."""

    pool: pd.DataFrame
    """One row a pool image: id, guess, probability, score, threshold, accepted, label (-1 for
    none), round (in which the label came to be), weight, the second and third guess with their
    probabilities (-1 and 0 where there are fewer classes), and every measure; ``calibrated``, the
    probability to show, ``distance`` from the classes, and whether that makes a ``outlier``."""
    held_out: pd.DataFrame
    """One row a held-out label: id, label, guess, correct, probability, score, every measure,
    the threshold and whether the guess would have been accepted, and whether the label is
    ``suspicious``."""
    metrics: RoundMetrics


def run_round(
    round_inputs: RoundInputs,
    previous: pd.DataFrame | None,
    learner: Learner,
    config: Config,
    work_folder: Path,
    on_progress: OnProgress,
) -> RoundOutcome:
    """Do one round. In keep mode what was accepted before is carried over as it stands."""
    started = time.monotonic()
    problem = round_inputs.problem
    learner.learn(round_inputs, work_folder, on_progress)
    said = learner.predict_held_out(round_inputs, on_progress)
    truth = _truth_of(said, problem)
    open_ids = problem.pool_ids
    if config.mode is Mode.KEEP:
        open_ids = open_ids[~np.isin(open_ids, round_inputs.pseudo_ids)]
    guessed = learner.predict(open_ids, on_progress)
    fence = NO_OUTLIERS
    if config.out_of_distribution:
        said, guessed, fence = detect_outliers(
            said, guessed, round_inputs, learner, work_folder, on_progress
        )
    rule, adjustment = parse_rule(config.accept), NO_ADJUSTMENT
    # A rule on plain probabilities means those of the nets.
    if (
        config.neighbor_vote
        and config.mode is Mode.RELABEL
        and rule.kind is not RuleKind.CONFIDENCE
    ):
        said, guessed, adjustment = adjust_predictions(
            said, truth, guessed, round_inputs, learner, config, work_folder, on_progress
        )
    gauge = Gauge(fit_temperature(said.probabilities, truth), fence, adjustment)
    held_out = _held_out_table(said, truth, gauge, config)
    threshold = held_out_threshold(
        rule, held_out["score"].to_numpy(), held_out["correct"].to_numpy()
    )
    table = _accept(_table(guessed, gauge, config), threshold, round_inputs, config)
    used = float(table["threshold"].iloc[0]) if len(table) else threshold
    if config.mode is Mode.KEEP and previous is not None:
        carried = previous[previous["id"].isin(round_inputs.pseudo_ids)]
        table = pd.concat([carried, table], ignore_index=True)
    table = _in_order(table, problem)
    n_changed = _date_labels(table, previous, round_inputs.number)
    held_out["threshold"] = used
    held_out["accepted"] = judge(
        rule, held_out["score"].to_numpy(), held_out["probability"].to_numpy(), used
    )
    held_out["accepted"] &= ~held_out["outlier"]
    metrics = _metrics(round_inputs, table, held_out, used, n_changed, gauge, learner, started)
    return RoundOutcome(table, held_out, metrics)


@dataclass(frozen=True)
class Gauge:
    """How to read the predictions."""

    temperature: float
    fence: OutlierThreshold
    adjustment: Adjustment


def _table(prediction: Prediction, gauge: Gauge, config: Config) -> pd.DataFrame:
    measures = all_measures(prediction)
    n = len(prediction)
    distance = prediction.distance if prediction.distance is not None else np.full(n, np.nan)
    columns = {
        "id": prediction.ids,
        "guess": prediction.guess,
        "probability": prediction.probability,
        "score": measures[config.score],
        "calibrated": temper(prediction.probabilities, gauge.temperature).max(axis=1, initial=0),
        "distance": distance,
        "outlier": is_outlier(distance, gauge.fence.at),
    }
    named = {str(k): v for k, v in measures.items()}
    return pd.DataFrame({**columns, **_runners_up(prediction), **named})


def _runners_up(prediction: Prediction) -> dict[str, np.ndarray]:
    """The second and third guess of each image: what a person should look at next."""
    ranked = np.argsort(-prediction.probabilities, axis=1, kind="stable")
    columns: dict[str, np.ndarray] = {}
    for place in range(2, RUNNERS_UP + 2):
        guess = np.full(len(prediction), UNLABELED, dtype=np.int64)
        probability: FloatArray = np.zeros(len(prediction))
        if place <= ranked.shape[1]:
            guess = ranked[:, place - 1].astype(np.int64)
            probability = np.take_along_axis(prediction.probabilities, guess[:, None], 1)[:, 0]
        columns |= {f"guess_{place}": guess, f"probability_{place}": probability}
    return columns


def _truth_of(prediction: Prediction, problem: Problem) -> IntArray:
    known = pd.Series(problem.tune_labels, index=problem.tune_ids)
    return known.reindex(prediction.ids).to_numpy(dtype=np.int64)


def _held_out_table(
    prediction: Prediction, truth: IntArray, gauge: Gauge, config: Config
) -> pd.DataFrame:
    table = _table(prediction, gauge, config)
    table.insert(1, "label", truth)
    table.insert(3, "correct", truth == prediction.guess)
    doubtful = suspicious_labels(prediction.probabilities, truth)
    table["suspicious"] = np.isin(np.arange(len(table)), doubtful)
    return table


def _accept(
    table: pd.DataFrame, threshold: float, round_inputs: RoundInputs, config: Config
) -> pd.DataFrame:
    """Decide which guesses become labels and how much each counts."""
    scores, guess = table["score"].to_numpy(), table["guess"].to_numpy()
    rule = parse_rule(config.accept)
    if rule.kind is RuleKind.TOP and config.mode is Mode.RELABEL:
        # Every round labels anew, so the number asked for a round adds up over the rounds.
        rule = type(rule)(rule.kind, rule.value * round_inputs.number)
    known = ~table["outlier"].to_numpy(dtype=bool)
    probability = table["probability"].to_numpy()
    inside, used = select(rule, scores[known], probability[known], threshold)
    if round_inputs.number <= config.balance_rounds:
        problem = round_inputs.problem
        counts = np.bincount(problem.human_labels, minlength=len(problem.classes))
        inside = class_balanced(inside, scores[known], guess[known], counts / counts.sum())
    chosen = np.zeros(len(table), dtype=bool)
    chosen[known] = inside
    return table.assign(
        threshold=used,
        accepted=chosen,
        label=np.where(chosen, guess, UNLABELED),
        round=0,
        weight=np.where(chosen, _weights(table, round_inputs.number, config), 0.0),
    )


def _weights(table: pd.DataFrame, number: int, config: Config) -> FloatArray:
    if config.weights is Weighting.NONE:
        return np.ones(len(table))
    uncertainty = table[str(config.weight_measure)].to_numpy()
    return inverse_uncertainty_weights(
        uncertainty, number, config.phi_gamma, config.phi_bias, config.weight_cap
    )


def _in_order(table: pd.DataFrame, problem: Problem) -> pd.DataFrame:
    """Rows in the order of the pool, whatever order they were predicted in."""
    return table.set_index("id", drop=False).loc[list(problem.pool_ids)].reset_index(drop=True)


def _date_labels(table: pd.DataFrame, previous: pd.DataFrame | None, number: int) -> int:
    """Set ``round`` to the round in which each label came to be; return how many are new."""
    old_label = np.full(len(table), UNLABELED)
    old_round = np.zeros(len(table), dtype=np.int64)
    if previous is not None:
        before = previous.set_index("id").reindex(table["id"])
        old_label = before["label"].fillna(UNLABELED).to_numpy(dtype=np.int64)
        old_round = before["round"].fillna(0).to_numpy(dtype=np.int64)
    label = table["label"].to_numpy()
    new = (label != UNLABELED) & (label != old_label)
    dates = np.where(new, number, old_round)
    table["round"] = np.where(label == UNLABELED, 0, dates)
    return int(new.sum())


def _metrics(
    round_inputs: RoundInputs,
    table: pd.DataFrame,
    held_out: pd.DataFrame,
    threshold: float,
    n_changed: int,
    gauge: Gauge,
    learner: Learner,
    started: float,
) -> RoundMetrics:
    problem = round_inputs.problem
    n_accepted = int(table["accepted"].sum())
    wrong = ~held_out["correct"].to_numpy()
    inside = held_out["accepted"].to_numpy()
    return RoundMetrics(
        number=round_inputs.number,
        inputs=problem.inputs,
        n_human=len(problem.human_ids),
        n_pseudo=len(round_inputs.pseudo_ids),
        n_pool=len(table),
        n_accepted=n_accepted,
        n_left=len(table) - n_accepted,
        n_changed=n_changed,
        threshold=threshold,
        n_held_out=len(held_out),
        held_out_errors=int(wrong.sum()),
        n_held_out_accepted=int(inside.sum()),
        held_out_accepted_errors=int((wrong & inside).sum()),
        classes=problem.classes,
        answers_upto=problem.answers_upto,
        outlier_threshold=gauge.fence.at if math.isfinite(gauge.fence.at) else None,
        n_outliers=int(table["outlier"].sum()),
        has_outliers=gauge.fence.found,
        neighbor_vote=gauge.adjustment.power,
        matrix_scaled=gauge.adjustment.scaling is not None,
        temperature=gauge.temperature,
        calibration_error=_calibration_error(held_out),
        cross_fit=problem.cross_fit,
        seconds=round(time.monotonic() - started, 2),
        learner=learner.report(),
    )


def _calibration_error(held_out: pd.DataFrame) -> tuple[float, float] | None:
    if not len(held_out):
        return None
    correct = held_out["correct"].to_numpy()
    before, after = (held_out[name].to_numpy() for name in ("probability", "calibrated"))
    return (
        expected_calibration_error(before, correct),
        expected_calibration_error(after, correct),
    )
