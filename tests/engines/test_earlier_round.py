"""A round that is clearly worse goes back to the nets of the round before it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from engine_data import (
    digit_images,
    first_inputs,
    later_inputs,
    make_problem,
    same_predictions,
    same_weights,
    tiny,
    trained,
    weights_of,
)

from surelabel.engines.ensemble import load_ensemble
from surelabel.engines.inputs import Images
from surelabel.engines.storage import load_reference
from surelabel.selftraining.round_inputs import Problem, RoundInputs


@pytest.fixture(name="images", scope="module")
def fixture_images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    torch.set_num_threads(1)
    return digit_images(tmp_path_factory.mktemp("digits"))


def second(problem: Problem, before: Path) -> RoundInputs:
    return dataclasses.replace(later_inputs(problem, 2), previous_round=before)


@pytest.mark.parametrize("cross_fit", [False, True])
def test_a_worse_round_is_rolled_back(images: Images, tmp_path: Path, cross_fit: bool) -> None:
    problem = make_problem(images.catalog, cross_fit=cross_fit)
    first, then = tiny(steps=120, members=2), tiny(steps=1, members=2)
    before = trained(first, images, first_inputs(problem), tmp_path / "1")
    inputs = second(problem, tmp_path / "1")
    after = trained(then, images, inputs, tmp_path / "2")
    assert [m["steps"] for m in after.report()["members"]] == [120, 120]
    assert all(same_weights(weights_of(after, k), weights_of(before, k)) for k in range(2))
    loaded = load_ensemble(sorted((tmp_path / "2").glob("weights-*")), 2, then, images)
    ids = problem.pool_ids
    assert same_predictions(after.predict(ids), loaded.predict(ids))
    again = trained(then, images, inputs, tmp_path / "2")
    assert same_predictions(after.predict(ids), again.predict(ids)), "a second attempt agrees"


def test_a_better_round_keeps_its_own_nets(images: Images, tmp_path: Path) -> None:
    problem = make_problem(images.catalog)
    trained(tiny(steps=1), images, first_inputs(problem), tmp_path / "1")
    then = dataclasses.replace(first_inputs(problem), number=2, previous_round=tmp_path / "1")
    after = trained(tiny(steps=120), images, then, tmp_path / "2")
    assert [m["steps"] for m in after.report()["members"]] == [120]
    assert {p.name for p in (tmp_path / "2").glob("*.safetensors")} == {
        "weights-0.safetensors",
        "reference-0.safetensors",
    }


def test_nets_that_come_back_forget_the_outliers_of_their_own_round(
    images: Images, tmp_path: Path
) -> None:
    problem = make_problem(images.catalog)
    first = trained(tiny(steps=120, members=2), images, first_inputs(problem), tmp_path / "1")
    first.distances_from(problem.pool_ids[:3], problem, problem.pool_ids, tmp_path / "1")
    own = load_reference(tmp_path / "1" / "reference-0.safetensors")
    assert own is not None
    assert own.outliers is not None
    inputs = second(problem, tmp_path / "1")
    trained(tiny(steps=1, members=2), images, inputs, tmp_path / "2")
    copied = load_reference(tmp_path / "2" / "reference-0.safetensors")
    assert copied is not None
    assert copied.outliers is None
    assert np.array_equal(copied.features, own.features)


def test_a_worse_round_stays_where_roll_back_is_off(images: Images, tmp_path: Path) -> None:
    problem = make_problem(images.catalog)
    trained(tiny(steps=120), images, first_inputs(problem), tmp_path / "1")
    off = tiny(steps=3, roll_back=False)
    after = trained(off, images, second(problem, tmp_path / "1"), tmp_path / "2")
    assert [m["steps"] for m in after.report()["members"]] == [3]
