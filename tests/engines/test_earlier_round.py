"""Nets of the round before vote too, where the held-out labels are likelier so."""

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

from surelabel.config.settings import Config
from surelabel.engines import earlier_round
from surelabel.engines.earlier_round import Voters
from surelabel.engines.ensemble import Ensemble, load_ensemble
from surelabel.engines.inputs import Images
from surelabel.engines.storage import load_reference
from surelabel.selftraining.round_inputs import Problem, RoundInputs


@pytest.fixture(name="images", scope="module")
def fixture_images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    torch.set_num_threads(1)
    return digit_images(tmp_path_factory.mktemp("digits"))


def second(round_inputs: RoundInputs, earlier: Path) -> RoundInputs:
    return dataclasses.replace(round_inputs, previous_round=earlier)


def same_inputs(problem: Problem) -> RoundInputs:
    """What the first round learned from: nets as good as its own, whose mistakes are others."""
    return dataclasses.replace(first_inputs(problem), number=2)


def loss(learner: Ensemble, round_inputs: RoundInputs) -> float:
    predicted = learner.predict_held_out(round_inputs.problem).probabilities
    return float(
        -np.log(predicted[np.arange(len(predicted)), round_inputs.problem.tune_labels]).mean()
    )


def two_rounds(images: Images, place: Path, first: Config, then: Config) -> Ensemble:
    problem = make_problem(images.catalog)
    trained(first, images, first_inputs(problem), place / "1")
    return trained(then, images, second(same_inputs(problem), place / "1"), place / "2")


def test_good_nets_of_the_round_before_vote_and_are_kept_beside_the_new_ones(
    images: Images, tmp_path: Path
) -> None:
    both = two_rounds(images, tmp_path, tiny(steps=60, members=2), tiny(steps=60, members=2))
    assert len(both.members) == 4
    report = both.report()
    assert (len(report["members"]), len(report["earlier"])) == (2, 2)
    round_inputs = same_inputs(make_problem(images.catalog))
    alone = dataclasses.replace(both, members=both.members[:2])
    assert loss(both, round_inputs) < loss(alone, round_inputs)
    ids = round_inputs.problem.pool_ids
    loaded = load_ensemble(
        [tmp_path / "2" / f"weights-{k}.safetensors" for k in range(4)], 2, tiny(), images
    )
    assert same_predictions(both.predict(ids), loaded.predict(ids))


def test_they_forget_the_outliers_of_their_own_round(images: Images, tmp_path: Path) -> None:
    problem = make_problem(images.catalog)
    first = first_inputs(problem)
    learner = trained(tiny(steps=60, members=2), images, first, tmp_path / "1")
    learner.distances_from(problem.pool_ids[:3], problem, problem.pool_ids, tmp_path / "1")
    own = load_reference(tmp_path / "1" / "reference-0.safetensors")
    assert own is not None
    assert own.outliers is not None
    trained(
        tiny(steps=60, members=2),
        images,
        second(same_inputs(problem), tmp_path / "1"),
        tmp_path / "2",
    )
    copied = load_reference(tmp_path / "2" / "reference-2.safetensors")
    assert copied is not None
    assert copied.outliers is None
    assert np.array_equal(copied.features, own.features)


def test_bad_ones_do_not(images: Images, tmp_path: Path) -> None:
    both = two_rounds(images, tmp_path, tiny(steps=1), tiny(steps=120))
    assert len(both.members) == 1
    assert both.report()["earlier"] == []
    assert {p.name for p in (tmp_path / "2").glob("*.safetensors")} == {
        "weights-0.safetensors",
        "reference-0.safetensors",
    }


@pytest.mark.parametrize("cross_fit", [False, True])
def test_a_round_that_is_worse_goes_back_to_the_nets_before_it(
    images: Images, tmp_path: Path, cross_fit: bool
) -> None:
    problem = make_problem(images.catalog, cross_fit=cross_fit)
    first, then = tiny(steps=120, members=2), tiny(steps=1, members=2)
    before = trained(first, images, first_inputs(problem), tmp_path / "1")
    round_inputs = second(later_inputs(problem, 2), tmp_path / "1")
    after = trained(then, images, round_inputs, tmp_path / "2")
    assert [m["steps"] for m in after.report()["members"]] == [120, 120]
    assert after.report()["earlier"] == []
    assert all(same_weights(weights_of(after, k), weights_of(before, k)) for k in range(2))
    files = sorted((tmp_path / "2").glob("weights-*"))
    loaded = load_ensemble(files, 2, then, images)
    ids = problem.pool_ids
    assert same_predictions(after.predict(ids), loaded.predict(ids))
    again = trained(then, images, round_inputs, tmp_path / "2")
    assert same_predictions(after.predict(ids), again.predict(ids)), "a second attempt agrees"


def test_none_do_where_it_is_off(images: Images, tmp_path: Path) -> None:
    off = two_rounds(images, tmp_path / "off", tiny(steps=120), tiny(steps=3, earlier_nets=False))
    assert len(off.members) == 1
    assert [m["steps"] for m in off.report()["members"]] == [3]


def test_an_attempt_after_a_kill_ends_with_the_same_nets(images: Images, tmp_path: Path) -> None:
    config = tiny(steps=60, members=2)
    both = two_rounds(images, tmp_path, config, config)
    again = two_rounds(images, tmp_path, config, config)
    ids = make_problem(images.catalog).pool_ids
    assert len(again.members) == len(both.members) == 4
    assert same_predictions(both.predict(ids), again.predict(ids))


def test_the_third_round_takes_the_nets_of_the_second_alone(
    images: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(earlier_round, "choose_voters", lambda *_: Voters.BOTH)
    assert len(two_rounds(images, tmp_path, tiny(), tiny()).members) == 2
    problem = make_problem(images.catalog)
    round_inputs = second(later_inputs(problem, 3), tmp_path / "2")
    third = trained(tiny(), images, round_inputs, tmp_path / "3")
    assert len(third.members) == 2
    assert not (tmp_path / "3" / "weights-2.safetensors").exists()
