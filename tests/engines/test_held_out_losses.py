from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from surelabel.engines.earlier_round import is_worse, losses_of
from surelabel.selftraining.round_inputs import Problem
from surelabel.types import FloatArray, IntArray, Prediction


def losses(mean: float, n: int = 400, seed: int = 0) -> FloatArray:
    return mean + np.random.default_rng(seed).exponential(0.1, n)


def test_new_nets_stay_where_labels_hardly_tell() -> None:
    new = np.full(20, 0.5)
    assert not is_worse(new + np.tile([0.12, -0.1], 10), new)
    assert not is_worse(np.empty(0), np.empty(0))
    assert not is_worse(np.full(100, 0.0029), np.full(100, 0.0021)), "mere confidence"


@pytest.mark.parametrize(("new", "worse"), [(0.3, False), (0.5, False), (0.9, True)])
def test_nets_that_are_clearly_worse_are_rolled_back(new: float, worse: bool) -> None:
    jitter = 0.05 * np.tile([1.0, -1.0], 200)
    assert is_worse(losses(new), losses(0.5) + jitter) == worse


def test_diverged_nets_are_rolled_back_unless_the_earlier_ones_diverged_too() -> None:
    diverged = np.full(400, np.inf)
    assert is_worse(diverged, losses(5.0))
    assert not is_worse(losses(5.0), diverged)
    assert not is_worse(diverged, diverged)


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
        losses_of(predicted(softmax(factor * logits, axis=1)), problem(labels)) for factor in (2, 5)
    )
    assert calm.mean() == pytest.approx(rash.mean(), rel=0.01)
    worse = losses_of(predicted(softmax(rng.normal(size=(600, 3)), axis=1)), problem(labels))
    assert worse.mean() > 1.2 * calm.mean()


def test_few_labels_that_are_all_right_do_not_make_doubt_look_like_knowledge() -> None:
    labels = np.zeros(12, dtype=np.int64)
    sure, doubtful = (np.tile([p, (1 - p) / 2, (1 - p) / 2], (12, 1)) for p in (0.99, 0.4))
    assert losses_of(predicted(doubtful), problem(labels)).mean() == pytest.approx(-np.log(0.4))
    assert losses_of(predicted(sure), problem(labels)).mean() == pytest.approx(-np.log(0.99))
