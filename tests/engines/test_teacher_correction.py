from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_data import (
    N_CLASSES,
    digit_images,
    first_inputs,
    later_inputs,
    make_problem,
    same_weights,
    tiny,
    trained,
    weights_of,
)

from surelabel.engines.inputs import Images
from surelabel.engines.neighbor_search import NeighborIndex, neighbor_index, teacher_correction_for
from surelabel.selection.matrix_scaling import MatrixScaling
from surelabel.selection.neighbor_vote import Adjustment
from surelabel.selftraining.round_inputs import Problem, RoundInputs
from surelabel.types import FloatArray

CONFIG = tiny(consistency=1.0, consistency_threshold=0.5, steps=60, roll_back=False)


@pytest.fixture(name="images", scope="module")
def fixture_images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    return digit_images(tmp_path_factory.mktemp("cache"))


@pytest.fixture(name="problem", scope="module")
def fixture_problem(images: Images) -> Problem:
    return make_problem(images.catalog)


def index_of(images: Images, problem: Problem) -> NeighborIndex:
    says = np.random.default_rng(0).dirichlet(np.ones(N_CLASSES), len(problem.pool_ids))
    return neighbor_index(images, problem.pool_ids, says)


def some_adjustment() -> Adjustment:
    matrix = np.random.default_rng(1).normal(size=(2 * N_CLASSES + 1, N_CLASSES))
    return Adjustment(0.5, MatrixScaling(0.9, matrix))


def guesses(n: int) -> FloatArray:
    return np.random.default_rng(2).dirichlet(np.ones(N_CLASSES), n)


def after_a_round(
    images: Images, problem: Problem, place: Path, adjustment: Adjustment
) -> RoundInputs:
    """A second round_inputs, after a round in which neighbors had this say."""
    trained(CONFIG, images, first_inputs(problem), place)
    index_of(images, problem).save(place, adjustment)
    return later_inputs(problem, 2, place)


def test_the_teacher_is_corrected_as_the_round_before_adjusted_its_predictions(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    bank, adjustment, left = index_of(images, problem), some_adjustment(), problem.pool_ids[20:]
    bank.save(tmp_path, adjustment)
    teacher_correction = teacher_correction_for(later_inputs(problem, 2, tmp_path), images, CONFIG)
    assert teacher_correction is not None
    mixed = np.random.default_rng(3).permutation(len(left))
    own = guesses(len(left))
    reports = teacher_correction(images.rows(left[mixed]), torch.from_numpy(own).float())
    assert reports.numpy() == pytest.approx(adjustment(own, bank.votes(left)[mixed]), abs=1e-3)


@pytest.mark.parametrize(
    "case",
    ["the first round", "nobody was adjusted", "the pool is not learned from", "none is left"],
)
def test_there_is_no_correction_without_an_adjustment_or_an_unlabeled_image(
    images: Images, problem: Problem, tmp_path: Path, case: str
) -> None:
    if case != "nobody was adjusted":
        index_of(images, problem).save(tmp_path, some_adjustment())
    round_inputs = later_inputs(problem, 2, None if case == "the first round" else tmp_path)
    if case == "none is left":
        round_inputs = replace(round_inputs, outliers=problem.pool_ids[20:])
    config = CONFIG.replace(consistency=0.0) if case == "the pool is not learned from" else CONFIG
    assert teacher_correction_for(round_inputs, images, config) is None


def test_nets_learn_other_labels_where_the_correction_changes_them(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    """A adjustment that makes class 2 of everything, and one that leaves all as it is."""
    to_two = np.zeros((2 * N_CLASSES + 1, N_CLASSES))
    to_two[0, 2] = 100.0
    round_inputs = after_a_round(
        images, problem, tmp_path / "1", Adjustment(0.5, MatrixScaling(1.0, to_two))
    )
    all_twos = trained(CONFIG, images, round_inputs, tmp_path / "2")
    twos = all_twos.predict(problem.pool_ids[20:]).guess == 2
    index_of(images, problem).save(tmp_path / "1", Adjustment(1e-9))
    as_it_is = trained(CONFIG, images, round_inputs, tmp_path / "2 again")
    assert twos.mean() > 2 * (as_it_is.predict(problem.pool_ids[20:]).guess == 2).mean()
    alone = trained(
        CONFIG, images, replace(round_inputs, previous_round=None), tmp_path / "2 alone"
    )
    assert same_weights(weights_of(as_it_is), weights_of(alone))


def test_a_net_trained_after_a_kill_gets_the_same_correction(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    round_inputs = after_a_round(images, problem, tmp_path / "1", some_adjustment())
    both = trained(CONFIG.replace(members=2), images, round_inputs, tmp_path / "2")
    (tmp_path / "3").mkdir()
    first = "weights-0.safetensors"
    (tmp_path / "3" / first).write_bytes((tmp_path / "2" / first).read_bytes())
    again = trained(CONFIG.replace(members=2), images, round_inputs, tmp_path / "3")
    assert same_weights(weights_of(both, 1), weights_of(again, 1))
