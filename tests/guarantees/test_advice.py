"""Advice on how much to label knows the size of the collection."""

from __future__ import annotations

import numpy as np
import pytest

from surelabel.guarantees.advice import (
    certify_labels_advised,
    checks_advised,
    right_checks_to_go,
)
from surelabel.guarantees.bounds import shows_at_most, whole_share
from surelabel.guarantees.confidence_sequence import anytime_upper_bound


@pytest.mark.parametrize("n", [10, 50, 433, 1000, 60_000])
def test_the_advised_sample_survives_one_mistake_and_one_image_less_does_not(n: int) -> None:
    advised = certify_labels_advised(n, n, 0.02, 0.05)
    allowed = whole_share(0.02, n)
    assert advised <= n
    assert shows_at_most(allowed, n, advised, 1, 0.05) or advised == n
    assert not shows_at_most(allowed, n, advised - 1, 1, 0.05)


def test_a_small_collection_is_not_told_to_label_a_fixed_number() -> None:
    assert certify_labels_advised(433, 433, 0.02, 0.05) < 200
    assert certify_labels_advised(0, 0, 0.02, 0.05) == 0
    assert certify_labels_advised(60_000, 60_000, 0.01, 0.05) > 300


@pytest.mark.parametrize("n", [0, 1, 5, 300, 5000])
def test_the_advised_checks_show_the_error_although_one_label_is_wrong(n: int) -> None:
    advised = checks_advised(n, 0.02, 0.05)
    assert advised <= n
    if 1 < advised < n:
        wrong = np.arange(advised) == 0
        assert anytime_upper_bound(n, wrong, 0.05)[-1] <= whole_share(0.02, n)


def test_right_checks_to_go_are_the_fewest_that_show_it() -> None:
    so_far = np.arange(40) == 3
    n = right_checks_to_go(3000, so_far, 60, 0.05)
    checks = np.concatenate([so_far, np.zeros(n, dtype=bool)])
    assert anytime_upper_bound(3000, checks, 0.05)[-1] <= 60 < n + 60
    assert anytime_upper_bound(3000, checks[:-1], 0.05)[-1] > 60
    assert right_checks_to_go(3000, checks, 60, 0.05) == 0
    assert right_checks_to_go(50, np.ones(3, dtype=bool), 2, 0.05) == -1
    assert right_checks_to_go(50, np.zeros(50, dtype=bool), 0, 0.05) == 0
