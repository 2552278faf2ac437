from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from surelabel.engines.earlier_round import Voters, choose_voters, losses_of
from surelabel.selftraining.round_inputs import Problem
from surelabel.types import FloatArray, IntArray, Prediction


def losses(mean: float, n: int = 400, seed: int = 0) -> FloatArray:
    return mean + np.random.default_rng(seed).exponential(0.1, n)


def test_both_vote_where_labels_hardly_tell() -> None:
    new = np.full(20, 0.5)
    both = new + np.tile([0.12, -0.1], 10)
    assert choose_voters(both, new, new + 1) is Voters.BOTH
    none = np.empty(0)
    assert choose_voters(none, none, none) is Voters.BOTH


def test_mere_sureness_of_labels_that_are_all_right_does_not_drive_nets_out() -> None:
    new, earlier = np.full(100, 0.0021), np.full(100, 0.0039)
    assert choose_voters(np.full(100, 0.0029), new, earlier) is Voters.BOTH


@pytest.mark.parametrize(
    ("new", "earlier", "voters"),
    [(0.3, 0.6, Voters.NEW), (0.6, 0.3, Voters.EARLIER), (0.6, 0.6, Voters.BOTH)],
)
def test_who_is_clearly_better_votes_alone(new: float, earlier: float, voters: Voters) -> None:
    assert choose_voters(losses(0.5), losses(new, seed=1), losses(earlier, seed=2)) is voters


def test_nets_that_went_astray_do_not_vote() -> None:
    astray = np.full(400, np.inf)
    assert choose_voters(astray, astray, losses(5.0)) is Voters.EARLIER
    assert choose_voters(astray, losses(5.0), astray) is Voters.NEW


def predicted(probabilities: FloatArray) -> Prediction:
    n = len(probabilities)
    ids = np.array([f"i{k}" for k in range(n)])
    return Prediction(ids, probabilities, np.zeros(n), np.ones(n), np.zeros(n), None)


def problem(labels: IntArray) -> Problem:
    ids = np.array([f"i{k}" for k in range(len(labels))])[::-1]
    none = np.empty(0, dtype=np.str_)
    return Problem(
        ("a", "b", "c"), none, labels[:0], ids, labels[::-1], none, cross_fit=False, inputs=""
    )


def test_being_less_sure_is_no_merit_but_being_right_is() -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    logits = rng.normal(size=(600, 3)) + 1.5 * np.eye(3)[labels]
    calm, rash = (
        losses_of(predicted(softmax(f * logits, axis=1)), problem(labels)) for f in (2, 5)
    )
    assert calm.mean() == pytest.approx(rash.mean(), rel=0.01)
    worse = losses_of(predicted(softmax(rng.normal(size=(600, 3)), axis=1)), problem(labels))
    assert worse.mean() > 1.2 * calm.mean()


def test_few_labels_that_are_all_right_do_not_make_doubt_look_like_knowledge() -> None:
    labels = np.zeros(12, dtype=np.int64)
    sure, doubtful = (np.tile([p, (1 - p) / 2, (1 - p) / 2], (12, 1)) for p in (0.99, 0.4))
    assert losses_of(predicted(doubtful), problem(labels)).mean() == pytest.approx(-np.log(0.4))
    assert losses_of(predicted(sure), problem(labels)).mean() == pytest.approx(-np.log(0.99))
