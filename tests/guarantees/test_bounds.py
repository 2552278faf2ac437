from __future__ import annotations

import itertools
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from surelabel.guarantees.bounds import (
    chance_of_at_most,
    most_wrong,
    rules_out,
    share_of,
    zero_error_sample,
)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_the_tail_is_the_hypergeometric_one(data: st.DataObject) -> None:
    n_all = data.draw(st.integers(1, 5000))
    n_wrong, n_drawn = data.draw(st.integers(0, n_all)), data.draw(st.integers(0, n_all))
    n_seen = data.draw(st.integers(0, n_drawn))
    expected = hypergeom.cdf(n_seen, n_all, n_wrong, n_drawn)
    assert chance_of_at_most(n_seen, n_all, n_wrong, n_drawn) == pytest.approx(expected, abs=1e-9)


def test_the_bound_holds_in_every_small_world_counted_out() -> None:
    """All draws of all worlds of 9: the share of draws whose bound is below the truth."""
    for n_wrong, n_drawn in itertools.product(range(10), range(10)):
        members = [k < n_wrong for k in range(9)]
        bad = sum(
            most_wrong(9, n_drawn, sum(draw), 0.2) < n_wrong
            for draw in itertools.combinations(members, n_drawn)
        )
        assert bad <= 0.2 * comb(9, n_drawn)


def test_everything_checked_leaves_no_doubt_and_nothing_checked_leaves_all() -> None:
    assert most_wrong(40, 40, 3, 0.05) == 3
    assert most_wrong(40, 0, 0, 0.05) == 40


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.data())
def test_more_errors_and_more_confidence_give_larger_bounds(
    n_all: int, data: st.DataObject
) -> None:
    n_drawn = data.draw(st.integers(1, n_all))
    bounds = [most_wrong(n_all, n_drawn, x, 0.05) for x in range(n_drawn + 1)]
    assert bounds == sorted(bounds)
    assert most_wrong(n_all, n_drawn, 0, 0.01) >= bounds[0]
    for allowed in (0, n_all // 50, n_all // 5):
        assert rules_out(n_all, n_drawn, 0, allowed, 0.05) == (bounds[0] <= allowed)


def test_zero_errors_need_the_known_numbers() -> None:
    assert [zero_error_sample(e, 0.05) for e in (0.01, 0.02, 0.05)] == [299, 149, 59]
    assert zero_error_sample(0.01, 0.05, 10**6) in (298, 299)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 3000), st.sampled_from([0.005, 0.02, 0.1, 0.3]))
def test_a_finite_set_needs_no_more_and_exactly_enough(n_all: int, max_error: float) -> None:
    n, allowed = zero_error_sample(max_error, 0.05, n_all), share_of(max_error, n_all)
    if allowed:
        assert n <= zero_error_sample(max_error, 0.05) + 1 / max_error
    assert most_wrong(n_all, n, 0, 0.05) <= allowed
    assert n == 0 or most_wrong(n_all, n - 1, 0, 0.05) > allowed


def test_shares_are_not_lost_to_rounding() -> None:
    assert [share_of(0.02, 50), share_of(0.1, 30), share_of(0.005, 199)] == [1, 3, 0]


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="5 wrong in 3 drawn"):
        most_wrong(10, 3, 5, 0.05)
    with pytest.raises(ValueError, match="between 0 and 1"):
        zero_error_sample(0.0, 0.05)
    assert np.isfinite(chance_of_at_most(3, 10**7, 10**5, 5000))
