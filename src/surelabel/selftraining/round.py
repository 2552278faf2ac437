"""One round of Algorithm 1: train, predict, set the threshold, accept, weigh."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from surelabel.config.choices import Mode, Weighting
from surelabel.config.settings import Config
from surelabel.files.large_tables import text_column
from surelabel.files.mapped_arrays import slices, zeros
from surelabel.inference.measures import all_measures
from surelabel.selection.calibration import expected_calibration_error, fit_temperature, temper
from surelabel.selection.label_errors import find_label_errors
from surelabel.selection.out_of_distribution import is_outlier
from surelabel.selection.thresholds import (
    Rule,
    RuleKind,
    class_balanced,
    held_out_threshold,
    judge,
    lowest_error,
    parse_rule,
    select,
    target_limit,
)
from surelabel.selection.weights import inverse_uncertainty_weights
from surelabel.selftraining.adjustments import Predictions, adjust_by_neighbors, detect_outliers
from surelabel.selftraining.learner import Ensemble, Learner
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.round_inputs import Problem, RoundInputs
from surelabel.types import UNLABELED, BoolArray, FloatArray, OnProgress, Prediction

N_RUNNERS_UP = 2
"""How many guesses after the first are kept."""
_TRAINING_RULE = Rule(RuleKind.TUKEY)
"""What the next round is trained on where labels are accepted by ``target``: a part of this is
delivered. Training bears some wrong labels, and gets worse with few."""


@dataclass(frozen=True)
class RoundOutcome:
    """A round's tables and figures."""

    pool: pd.DataFrame
    """One row per pool image: id, guess, probability, score, threshold, accepted, label (-1 for
    none), round (in which it got its label), weight (above 0 where the next round is trained on
    the guess), the second and third guess with their probabilities (-1 and 0 where there are fewer
    classes), every measure, the ``calibrated`` probability to show, the ``distance`` from the
    classes, and whether it is an ``outlier``."""
    held_out: pd.DataFrame
    """One row per held-out label: id, label, guess, correct, probability, score, every measure,
    the threshold, whether the guess would have been accepted, whether the label is ``suspicious``,
    and its ``label_probability``."""
    metrics: RoundMetrics


def run_round(
    round_inputs: RoundInputs,
    previous: pd.DataFrame | None,
    learner: Learner,
    config: Config,
    work_folder: Path,
    on_progress: OnProgress,
) -> RoundOutcome:
    """Run one round. In keep mode, labels accepted before are carried over as they are."""
    started = time.monotonic()
    ensemble = learner.train(round_inputs, work_folder, on_progress)
    predictions = _predict(ensemble, round_inputs, config, on_progress)
    if config.out_of_distribution:
        predictions = detect_outliers(predictions, round_inputs, ensemble, work_folder, on_progress)
    predictions = adjust_by_neighbors(
        predictions, round_inputs, learner, config, work_folder, on_progress
    )
    temperature = fit_temperature(predictions.held_out.probabilities, predictions.truth)
    held_out = _held_out_table(predictions, temperature, config)
    rule = parse_rule(config.accept, config.target_error)
    candidates = _table(predictions.pool, predictions.outliers.at, temperature, config)
    table, used = _accept(rule, candidates, held_out, round_inputs, config)
    if config.mode is Mode.KEEP and previous is not None:
        carried = previous[previous["id"].isin(round_inputs.pseudo_ids)]
        table = pd.concat([carried, table], ignore_index=True)
    table = _in_pool_order(table, predictions.pool, round_inputs.problem)
    n_changed = _n_changed(table, previous)
    _date_labels(table, previous, round_inputs.number)
    held_out["threshold"] = used
    held_out["accepted"] = judge(
        rule, held_out["score"].to_numpy(), held_out["probability"].to_numpy(), used
    )
    held_out["accepted"] &= ~held_out["outlier"]
    metrics = RoundMetrics(
        threshold=used,
        n_changed=n_changed,
        target_error=rule.value if rule.kind is RuleKind.TARGET else None,
        lowest_error=lowest_error(*_scores_of_familiar(held_out)),
        temperature=temperature,
        learner=ensemble.report(),
        **_counts(round_inputs, table, held_out),
        **_adjustment_facts(predictions, table),
        calibration_error=_calibration_error(held_out),
        seconds=round(time.monotonic() - started, 2),
    )
    return RoundOutcome(table, held_out, metrics)


def _predict(
    ensemble: Ensemble, round_inputs: RoundInputs, config: Config, on_progress: OnProgress
) -> Predictions:
    """Held-out images, and pool images that still need a label."""
    problem = round_inputs.problem
    held_out = ensemble.predict_held_out(problem, on_progress)
    truth = pd.Series(problem.tune_labels, index=problem.tune_ids).reindex(held_out.ids)
    ids = problem.pool_ids
    if config.mode is Mode.KEEP:
        ids = ids[~np.isin(ids, round_inputs.pseudo_ids)]
    pool = ensemble.predict(ids, on_progress)
    return Predictions(held_out, truth.to_numpy(dtype=np.int64), pool)


def _table(
    prediction: Prediction, outlier_threshold: float, temperature: float, config: Config
) -> pd.DataFrame:
    """One row per item; the columns are filled in parts, and are mapped if they are large."""
    n, columns = len(prediction), dict[str, np.ndarray]()
    for rows in slices(n) if n else [slice(0, 0)]:
        part = _columns(prediction.part(rows), outlier_threshold, temperature, config)
        for name, values in part.items():
            if name not in columns:
                columns[name] = zeros((n,), values.dtype)
            columns[name][rows] = values
    return pd.DataFrame({"id": text_column(prediction.ids), **columns}, copy=False)


def _columns(
    prediction: Prediction, outlier_threshold: float, temperature: float, config: Config
) -> dict[str, np.ndarray]:
    measures = all_measures(prediction)
    n = len(prediction)
    distance = prediction.distance if prediction.distance is not None else np.full(n, np.nan)
    columns = {
        "guess": prediction.guess,
        "probability": prediction.probability,
        "score": measures[config.score],
        "calibrated": temper(prediction.probabilities, temperature).max(axis=1, initial=0),
        "distance": distance,
        "outlier": is_outlier(distance, outlier_threshold),
    }
    named = {str(k): v for k, v in measures.items()}
    return {**columns, **_runners_up(prediction), **named}


def _runners_up(prediction: Prediction) -> dict[str, np.ndarray]:
    """The second and third guess for each image: what a person should consider next."""
    ranked = np.argsort(-prediction.probabilities, axis=1, kind="stable")
    columns: dict[str, np.ndarray] = {}
    for place in range(2, N_RUNNERS_UP + 2):
        guess = np.full(len(prediction), UNLABELED, dtype=np.int64)
        probability: FloatArray = np.zeros(len(prediction))
        if place <= ranked.shape[1]:
            guess = ranked[:, place - 1].astype(np.int64)
            probability = np.take_along_axis(prediction.probabilities, guess[:, None], 1)[:, 0]
        columns |= {f"guess_{place}": guess, f"probability_{place}": probability}
    return columns


def _held_out_table(predictions: Predictions, temperature: float, config: Config) -> pd.DataFrame:
    prediction, truth = predictions.held_out, predictions.truth
    table = _table(prediction, predictions.outliers.at, temperature, config)
    table.insert(1, "label", truth)
    table.insert(3, "correct", truth == prediction.guess)
    errors = find_label_errors(prediction.probabilities, truth)
    table["suspicious"] = np.isin(np.arange(len(table)), errors.rows)
    table["label_probability"] = prediction.probabilities[np.arange(len(truth)), truth]
    return table


def _accept(
    rule: Rule,
    table: pd.DataFrame,
    held_out: pd.DataFrame,
    round_inputs: RoundInputs,
    config: Config,
) -> tuple[pd.DataFrame, float]:
    """Decide which guesses become labels, and which count how much in training; the threshold."""
    accepted, used = _choose(rule, table, held_out, round_inputs, config)
    trained_on = accepted
    if rule.kind is RuleKind.TARGET and config.mode is Mode.RELABEL:
        trained_on, _ = _choose(_TRAINING_RULE, table, held_out, round_inputs, config)
    decided = table.assign(
        threshold=used,
        accepted=accepted,
        label=np.where(accepted, table["guess"].to_numpy(), UNLABELED),
        round=0,
        weight=np.where(trained_on, _weights(table, round_inputs.number, config), 0.0),
    )
    return decided, used


def _choose(
    rule: Rule,
    table: pd.DataFrame,
    held_out: pd.DataFrame,
    round_inputs: RoundInputs,
    config: Config,
) -> tuple[BoolArray, float]:
    """(N,) which guesses the rule accepts, none of them of an outlier; and the threshold."""
    if rule.kind is RuleKind.TOP and config.mode is Mode.RELABEL:
        # Every round labels anew, so the number per round adds up over the rounds.
        rule = replace(rule, value=rule.value * round_inputs.number)
    familiar = ~table["outlier"].to_numpy(dtype=bool)
    scores, probability, guess = (
        table[name].to_numpy()[familiar] for name in ("score", "probability", "guess")
    )
    if rule.kind is RuleKind.TARGET:
        threshold = target_limit(*_scores_of_familiar(held_out), scores, rule.value)
    else:
        threshold = held_out_threshold(
            rule, held_out["score"].to_numpy(), held_out["correct"].to_numpy()
        )
    inside, used = select(rule, scores, probability, threshold)
    if round_inputs.number <= config.balance_rounds:
        problem = round_inputs.problem
        counts = np.bincount(problem.human_labels, minlength=len(problem.classes))
        inside = class_balanced(inside, scores, guess, counts / counts.sum())
    chosen = np.zeros(len(table), dtype=bool)
    chosen[familiar] = inside
    return chosen, used


def _scores_of_familiar(held_out: pd.DataFrame) -> tuple[FloatArray, BoolArray]:
    """Scores of held-out labels and whether the guess is right, without outliers."""
    familiar = held_out[~held_out["outlier"].to_numpy(dtype=bool)]
    return familiar["score"].to_numpy(), familiar["correct"].to_numpy()


def _weights(table: pd.DataFrame, number: int, config: Config) -> FloatArray:
    if config.weights is Weighting.NONE:
        return np.ones(len(table))
    uncertainty = table[str(config.weight_measure)].to_numpy()
    return inverse_uncertainty_weights(
        uncertainty, number, config.phi_gamma, config.phi_bias, config.weight_cap
    )


def _in_pool_order(table: pd.DataFrame, predicted: Prediction, problem: Problem) -> pd.DataFrame:
    """Rows in the order of the pool, whatever order they were predicted in."""
    if len(table) == len(predicted) and np.array_equal(predicted.ids, problem.pool_ids):
        return table
    return table.set_index("id", drop=False).loc[list(problem.pool_ids)].reset_index(drop=True)


def _n_changed(table: pd.DataFrame, previous: pd.DataFrame | None) -> int:
    """How many labels that the next round is trained on are new or different."""
    if previous is None:
        return int((table["weight"] > 0).sum())
    before = _at_the_same_ids(previous, table, {"guess": UNLABELED, "weight": 0.0})
    old = np.where(before["weight"] > 0, before["guess"], UNLABELED)
    return int(((table["weight"] > 0) & (table["guess"] != old)).sum())


def _date_labels(table: pd.DataFrame, previous: pd.DataFrame | None, number: int) -> None:
    """Set ``round`` to the round in which each image got its label."""
    old_label = np.full(len(table), UNLABELED)
    old_round = np.zeros(len(table), dtype=np.int64)
    if previous is not None:
        before = _at_the_same_ids(previous, table, {"label": UNLABELED, "round": 0})
        old_label, old_round = before["label"], before["round"]
    label = table["label"].to_numpy()
    new = (label != UNLABELED) & (label != old_label)
    dates = np.where(new, number, old_round)
    table["round"] = np.where(label == UNLABELED, 0, dates)


def _at_the_same_ids(
    previous: pd.DataFrame, table: pd.DataFrame, absent: Mapping[str, float]
) -> dict[str, np.ndarray]:
    """Columns of ``previous`` for the ids of ``table``; ``absent`` has the values of new images."""
    columns = previous[["id", *absent]]
    if not columns["id"].equals(table["id"]):
        columns = columns.set_index("id").reindex(table["id"]).fillna(dict(absent))
    return {name: columns[name].to_numpy(dtype=type(absent[name])) for name in absent}


def _counts(
    round_inputs: RoundInputs, table: pd.DataFrame, held_out: pd.DataFrame
) -> dict[str, Any]:
    """The counts among the metrics, by the names of their fields."""
    problem = round_inputs.problem
    n_accepted = int(table["accepted"].sum())
    wrong = ~held_out["correct"].to_numpy()
    accepted = held_out["accepted"].to_numpy()
    return {
        "number": round_inputs.number,
        "inputs": problem.inputs,
        "n_human": len(problem.human_ids),
        "n_pseudo": len(round_inputs.pseudo_ids),
        "n_pool": len(table),
        "n_accepted": n_accepted,
        "n_left": len(table) - n_accepted,
        "n_held_out": len(held_out),
        "held_out_errors": int(wrong.sum()),
        "n_held_out_accepted": int(accepted.sum()),
        "held_out_accepted_errors": int((wrong & accepted).sum()),
        "classes": problem.classes,
        "answers_upto": problem.answers_upto,
        "cross_fit": problem.cross_fit,
    }


def _adjustment_facts(predictions: Predictions, table: pd.DataFrame) -> dict[str, Any]:
    """What was done to the predictions, by the names of the metrics' fields."""
    at = predictions.outliers.at
    return {
        "outlier_threshold": at if math.isfinite(at) else None,
        "n_outliers": int(table["outlier"].sum()),
        "has_outliers": predictions.outliers.pool_has_outliers,
        "neighbor_vote": predictions.adjustment.power,
        "matrix_scaled": predictions.adjustment.scaling is not None,
    }


def _calibration_error(held_out: pd.DataFrame) -> tuple[float, float] | None:
    if not len(held_out):
        return None
    correct = held_out["correct"].to_numpy()
    before, after = (held_out[name].to_numpy() for name in ("probability", "calibrated"))
    return (
        expected_calibration_error(before, correct),
        expected_calibration_error(after, correct),
    )
