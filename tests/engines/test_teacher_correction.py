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
    learned,
    make_problem,
    same_weights,
    tiny,
    weights_of,
)

from surelabel.engines.inputs import Images
from surelabel.engines.neighbor_search import NeighborIndex, neighbor_vote, teacher_correction_for
from surelabel.selection.matrix_scaling import MatrixScaling
from surelabel.selection.neighbor_vote import Adjustment
from surelabel.selftraining.learner import Problem, RoundInputs
from surelabel.types import FloatArray

CONFIG = tiny(consistency=1.0, consistency_threshold=0.5, steps=60, earlier_nets=False)


@pytest.fixture(name="images", scope="module")
def fixture_images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    return digit_images(tmp_path_factory.mktemp("cache"))


@pytest.fixture(name="problem", scope="module")
def fixture_problem(images: Images) -> Problem:
    return make_problem(images.catalog)


def asked(images: Images, problem: Problem) -> NeighborIndex:
    says = np.random.default_rng(0).dirichlet(np.ones(N_CLASSES), len(problem.pool_ids))
    return neighbor_vote(images, problem.pool_ids, says)


def some_adjustment() -> Adjustment:
    matrix = np.random.default_rng(1).normal(size=(2 * N_CLASSES + 1, N_CLASSES))
    return Adjustment(0.5, MatrixScaling(0.9, matrix))


def guesses(n: int) -> FloatArray:
    return np.random.default_rng(2).dirichlet(np.ones(N_CLASSES), n)


def after_a_round(
    images: Images, problem: Problem, place: Path, adjustment: Adjustment
) -> RoundInputs:
    """A second round_inputs, after a round in which neighbors had this say."""
    learned(CONFIG, images, first_inputs(problem), place)
    asked(images, problem).keep(place, adjustment)
    return later_inputs(problem, 2, place)


def test_guesses_of_images_left_are_heeded_as_the_round_before_heeded_its_own(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    bank, adjustment, left = asked(images, problem), some_adjustment(), problem.pool_ids[20:]
    bank.keep(tmp_path, adjustment)
    teacher_correction = teacher_correction_for(later_inputs(problem, 2, tmp_path), images, CONFIG)
    assert teacher_correction is not None
    mixed = np.random.default_rng(3).permutation(len(left))
    own = guesses(len(left))
    heard = teacher_correction(images.rows(left[mixed]), torch.from_numpy(own).float())
    assert heard.numpy() == pytest.approx(adjustment(own, bank.say(left)[mixed]), abs=1e-3)


@pytest.mark.parametrize(
    "case",
    ["the first round", "nobody was adjusted", "the pool is not learned from", "none is left"],
)
def test_there_is_no_counsel_where_there_is_nothing_to_say(
    images: Images, problem: Problem, tmp_path: Path, case: str
) -> None:
    if case != "nobody was adjusted":
        asked(images, problem).keep(tmp_path, some_adjustment())
    round_inputs = later_inputs(problem, 2, None if case == "the first round" else tmp_path)
    if case == "none is left":
        round_inputs = replace(round_inputs, outliers=problem.pool_ids[20:])
    config = CONFIG.replace(consistency=0.0) if case == "the pool is not learned from" else CONFIG
    assert teacher_correction_for(round_inputs, images, config) is None


def test_nets_learn_otherwise_from_images_left_whose_look_alikes_object(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    """A adjustment that makes class 2 of everything, and one that leaves all as it is."""
    to_two = np.zeros((2 * N_CLASSES + 1, N_CLASSES))
    to_two[0, 2] = 100.0
    round_inputs = after_a_round(
        images, problem, tmp_path / "1", Adjustment(0.5, MatrixScaling(1.0, to_two))
    )
    all_twos = learned(CONFIG, images, round_inputs, tmp_path / "2")
    twos = all_twos.predict(problem.pool_ids[20:]).guess == 2
    asked(images, problem).keep(tmp_path / "1", Adjustment(1e-9))
    as_it_is = learned(CONFIG, images, round_inputs, tmp_path / "2 again")
    assert twos.mean() > 2 * (as_it_is.predict(problem.pool_ids[20:]).guess == 2).mean()
    alone = learned(CONFIG, images, replace(round_inputs, earlier=None), tmp_path / "2 alone")
    assert same_weights(weights_of(as_it_is), weights_of(alone))


def test_one_net_after_a_kill_hears_the_same_counsel(
    images: Images, problem: Problem, tmp_path: Path
) -> None:
    round_inputs = after_a_round(images, problem, tmp_path / "1", some_adjustment())
    both = learned(CONFIG.replace(members=2), images, round_inputs, tmp_path / "2")
    (tmp_path / "3").mkdir()
    first = "weights-0.safetensors"
    (tmp_path / "3" / first).write_bytes((tmp_path / "2" / first).read_bytes())
    again = learned(CONFIG.replace(members=2), images, round_inputs, tmp_path / "3")
    assert same_weights(weights_of(both, 1), weights_of(again, 1))
