from __future__ import annotations

from typing import Any

import pytest
from fake_learner import CLASSES, settings

from surelabel.config.choices import Mode
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.stopping import stop_reason
from surelabel.types import StopReason


def metrics(n_changed: int, *, n_left: int = 10, n_pool: int = 1000, **more: Any) -> RoundMetrics:
    values: dict[str, Any] = {
        "number": 1,
        "inputs": "now",
        "n_human": 9,
        "n_pseudo": 0,
        "n_pool": n_pool,
        "n_accepted": n_pool - n_left,
        "n_left": n_left,
        "n_changed": n_changed,
        "threshold": 0.1,
        "n_held_out": 9,
        "held_out_errors": 0,
        "n_held_out_accepted": 9,
        "held_out_accepted_errors": 0,
        "classes": CLASSES,
    }
    return RoundMetrics(**{**values, **more})


def test_a_run_without_a_round_is_not_over() -> None:
    assert stop_reason([], "now", settings()) is None


def test_rounds_with_other_inputs_do_not_count() -> None:
    config = settings(max_rounds=2, stop_after_empty=2)
    old = metrics(0, inputs="before")
    assert stop_reason([old, old, old], "now", config) is None
    assert stop_reason([old, old, metrics(5)], "now", config) is None
    assert stop_reason([old, metrics(5), metrics(5)], "now", config) is StopReason.ROUND_LIMIT
    assert stop_reason([old, metrics(0)], "now", config) is None, "one empty round, not two"


def test_labels_that_were_taken_back_start_the_count_anew() -> None:
    config = settings(max_rounds=2)
    between = metrics(5, inputs="with a slip")
    assert stop_reason([metrics(5), metrics(5), between], "now", config) is None
    assert stop_reason([metrics(5), metrics(5), between, metrics(5)], "now", config) is None


@pytest.mark.parametrize(
    ("mode", "n_pool", "fewest"),
    [
        (Mode.KEEP, 100, 16),
        (Mode.KEEP, 10**6, 16),
        (Mode.RELABEL, 500, 5),
        (Mode.RELABEL, 9999, 16),
    ],
)
def test_the_fewest_changes_are_the_batch_size_or_a_hundredth_of_a_small_pool(
    mode: Mode, n_pool: int, fewest: int
) -> None:
    config = settings(mode=mode, stop_below=-1, batch_size=16)
    enough, few = metrics(fewest, n_pool=n_pool), metrics(fewest - 1, n_pool=n_pool)
    assert stop_reason([enough], "now", config) is None
    assert stop_reason([few], "now", config) is StopReason.FEW_CHANGES


@pytest.mark.parametrize("n_pool", [0, 50, 1000])
def test_a_labeled_pool_without_a_change_is_the_end_whatever_its_size(n_pool: int) -> None:
    done = metrics(0, n_left=0, n_pool=n_pool)
    for stop_below in (-1, 0, 5):
        assert stop_reason([done], "now", settings(stop_below=stop_below)) is StopReason.POOL_EMPTY


def test_an_empty_round_is_forgiven_until_there_are_enough_in_a_row() -> None:
    config = settings(stop_after_empty=2, max_rounds=99)
    assert stop_reason([metrics(0), metrics(3), metrics(0)], "now", config) is None
    reason = stop_reason([metrics(3), metrics(0), metrics(0)], "now", config)
    assert reason is StopReason.NONE_ACCEPTED
