"""A round with distances: outliers are left, probabilities calibrated, slips marked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_learner import FakeLearner, make_problem, names, opinions, settings, steady, sure_of

from surelabel.config.choices import Mode
from surelabel.selftraining.learner import OutlierDistances
from surelabel.selftraining.round import RoundOutcome, run_round
from surelabel.selftraining.round_inputs import Problem, round_inputs_from
from surelabel.types import Ids, OnProgress, Prediction, no_progress


class FarSighted(FakeLearner):
    """Every third pool image is far from all classes; tune images are near."""

    def predict(self, ids: Ids, on_progress: OnProgress) -> Prediction:
        far = np.array([int(item[-3:]) % 3 == 0 for item in ids.tolist()])
        near = super().predict(ids, on_progress)
        return dataclasses.replace(near, distance=np.where(far, 9.0, 1.0))

    def predict_held_out(self, problem: Problem, on_progress: OnProgress) -> Prediction:
        held_out = super().predict_held_out(problem, on_progress)
        return dataclasses.replace(held_out, distance=np.linspace(0.8, 1.2, len(held_out)))


class Learning(FarSighted):
    """Every fifteenth image is a little far; beside outliers it is seen to be one of them."""

    met: list[list[str]]

    def distances_from(
        self,
        outliers: Ids,
        problem: Problem,
        ids: Ids,
        work_folder: Path,
        on_progress: OnProgress,
    ) -> OutlierDistances | None:
        self.met = [*getattr(self, "met", []), outliers.tolist()]
        far = np.array(
            [int(item[-3:]) % 3 == 0 or int(item[-3:]) % 5 == 0 for item in ids.tolist()]
        )
        held_out = np.linspace(0.1, 0.2, len(problem.tune_ids))
        return OutlierDistances(held_out, np.where(far, 3.0, 0.15))


def play(place: Path, learner: FakeLearner, **changes: Any) -> RoundOutcome:
    tune = names("tune", 30)
    labels = opinions(steady, tune)
    labels[4] = (labels[4] + 1) % 3
    problem = make_problem(60, tune_ids=tune, tune_labels=labels)
    config = settings(accept="quantile:1", **changes)
    return run_round(round_inputs_from(1, problem, None), None, learner, config, place, no_progress)


def test_outliers_are_left_however_sure(tmp_path: Path) -> None:
    outcome = play(tmp_path, FarSighted())
    pool = outcome.pool
    assert pool["outlier"].sum() == 20 == outcome.metrics.n_outliers
    assert not (pool["accepted"] & pool["outlier"]).any()
    assert pool["accepted"].any()
    assert outcome.metrics.outlier_threshold is not None
    assert 1 < outcome.metrics.outlier_threshold < 9


def test_outliers_help_to_find_others(tmp_path: Path) -> None:
    learner = Learning()
    outcome = play(tmp_path, learner)
    thirds = [f"pool{i:03d}" for i in range(0, 60, 3)]
    fifths = [f"pool{i:03d}" for i in range(0, 60, 5)]
    assert learner.met[0] == thirds
    assert learner.met[1] == sorted({*thirds, *fifths})
    assert outcome.metrics.n_outliers == len(learner.met[1])
    assert len(learner.met) == 3
    assert outcome.pool.loc[outcome.pool["outlier"], "distance"].eq(3.0).all()
    assert outcome.held_out["distance"].max() <= 0.2


def test_nothing_is_learned_from_outliers_once_there_are_some(tmp_path: Path) -> None:
    outcome = play(tmp_path, FarSighted())
    assert outcome.metrics.has_outliers
    problem = make_problem(60)
    found = round_inputs_from(2, problem, outcome.pool, has_outliers=True)
    assert found.outliers.tolist() == [f"pool{i:03d}" for i in range(0, 60, 3)]
    assert not round_inputs_from(2, problem, outcome.pool).outliers.size


def test_a_few_odd_images_are_no_outliers_to_learning(tmp_path: Path) -> None:
    class OddOne(FarSighted):
        def predict(self, ids: Ids, on_progress: OnProgress) -> Prediction:
            far = super().predict(ids, on_progress)
            return dataclasses.replace(far, distance=np.where(ids == "pool007", 9.0, 1.0))

    outcome = play(tmp_path, OddOne())
    assert outcome.metrics.n_outliers == 1
    assert not outcome.metrics.has_outliers


def test_the_option_and_a_learner_without_distances_leave_nobody_out(tmp_path: Path) -> None:
    for learner, changes in ((FarSighted(), {"out_of_distribution": False}), (FakeLearner(), {})):
        outcome = play(tmp_path, learner, **changes)
        assert not outcome.pool["outlier"].any()
        assert outcome.metrics.outlier_threshold is None


def test_calibrated_probabilities_and_their_error_are_there(tmp_path: Path) -> None:
    outcome = play(tmp_path, FakeLearner())
    assert outcome.pool["calibrated"].between(1 / 3 - 1e-9, 1).all()
    assert outcome.metrics.calibration_error is not None
    again = type(outcome.metrics).from_json(outcome.metrics.to_json())
    assert again == outcome.metrics
    order = outcome.pool["probability"].rank().corr(outcome.pool["calibrated"].rank())
    assert order > 0.999


def test_a_slip_among_tune_labels_is_marked_when_the_net_is_sure(tmp_path: Path) -> None:
    sure = FakeLearner(opinion=lambda number, item: (steady(number, item)[0], 0.02))
    held_out = play(tmp_path, sure).held_out
    assert held_out.loc[held_out["suspicious"], "id"].tolist() == ["tune004"]


@pytest.mark.parametrize("mode", list(Mode))
def test_outliers_take_no_place_among_the_surest(tmp_path: Path, mode: Mode) -> None:
    scores = {f"pool{i:03d}": 0.0 if i % 3 == 0 else 0.1 + i / 1000 for i in range(60)}
    scores |= {f"tune{i:03d}": i / 100 for i in range(30)}
    tune = names("tune", 30)
    problem = make_problem(60, tune_ids=tune, tune_labels=np.zeros(30, dtype=np.int64))
    config = settings(accept="top:8", mode=mode)
    learner = FarSighted(sure_of(scores))
    round_inputs = round_inputs_from(1, problem, None)
    pool = run_round(round_inputs, None, learner, config, tmp_path, no_progress).pool
    surest = [f"pool{i:03d}" for i in (1, 2, 4, 5, 7, 8, 10, 11)]
    assert pool.loc[pool["accepted"], "id"].tolist() == surest
