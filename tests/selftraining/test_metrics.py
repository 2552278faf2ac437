from __future__ import annotations

import dataclasses
import json
import math

import pytest
from fake_learner import CLASSES

from surelabel.selftraining.metrics import RoundMetrics

METRICS = RoundMetrics(
    number=2,
    inputs="digest",
    n_human=9,
    n_pseudo=4,
    n_pool=30,
    n_accepted=12,
    n_left=18,
    n_changed=8,
    threshold=0.25,
    n_held_out=20,
    held_out_errors=5,
    n_held_out_accepted=10,
    held_out_accepted_errors=1,
    classes=CLASSES,
    answers_upto=7,
    seconds=1.5,
    learner={"members": [{"steps": 8}]},
)


@pytest.mark.parametrize("threshold", [0.25, 0.0, -math.inf])
def test_metrics_survive_strict_json(threshold: float) -> None:
    metrics = dataclasses.replace(METRICS, threshold=threshold)
    text = json.dumps(metrics.to_json(), allow_nan=False)
    assert RoundMetrics.from_json(json.loads(text)) == metrics


def test_keys_of_a_later_version_are_passed_over() -> None:
    assert RoundMetrics.from_json({**METRICS.to_json(), "kappa": 0.9}) == METRICS


def test_errors_are_shares_of_what_was_held_out() -> None:
    assert METRICS.held_out_error == 0.25
    assert METRICS.held_out_accepted_error == 0.1


def test_a_share_of_nothing_is_not_a_number() -> None:
    none = dataclasses.replace(METRICS, n_held_out=0, n_held_out_accepted=0)
    assert math.isnan(none.held_out_error)
    assert math.isnan(none.held_out_accepted_error)
