from __future__ import annotations

import itertools
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, hypergeom

from surelabel.guarantees.bounds import (
    shows_at_most,
    whole_share,
    wrong_upper_bound,
    zero_error_sample_size,
)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_the_bound_is_the_largest_number_that_the_hypergeometric_tail_allows(
    data: st.DataObject,
) -> None:
    n_all = data.draw(st.integers(1, 2000))
    n_drawn = data.draw(st.integers(0, n_all))
    n_wrong = data.draw(st.integers(0, n_drawn))
    possible = np.arange(n_wrong, n_all - (n_drawn - n_wrong) + 1)
    allowed = possible[hypergeom.cdf(n_wrong, n_all, possible, n_drawn) > 0.05]
    assert wrong_upper_bound(n_all, n_drawn, n_wrong, 0.05) == allowed.max()


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_test_agrees_with_exact_arithmetic(data: st.DataObject) -> None:
    """P(X <= x | allowed + 1 wrong) as a fraction of whole numbers."""
    n_all = data.draw(st.integers(1, 300))
    n_drawn, allowed = data.draw(st.integers(0, n_all)), data.draw(st.integers(0, n_all - 1))
    n_wrong = data.draw(st.integers(0, n_drawn))
    draws = sum(
        comb(allowed + 1, i) * comb(n_all - allowed - 1, n_drawn - i) for i in range(n_wrong + 1)
    )
    tail = Fraction(draws, comb(n_all, n_drawn))
    if abs(tail - Fraction(0.07)) > 1e-9:
        assert shows_at_most(allowed, n_all, n_drawn, n_wrong, 0.07) == (tail <= 0.07)


def test_many_tests_at_once_give_what_each_gives_alone() -> None:
    allowed, n_all = np.array([0, 3, 20, 400]), np.array([50, 300, 1000, 400])
    n_drawn, n_wrong = np.array([20, 100, 300, 0]), np.array([0, 1, 2, 0])
    together = shows_at_most(allowed, n_all, n_drawn, n_wrong, 0.05)
    cases = zip(allowed.tolist(), n_all.tolist(), n_drawn.tolist(), n_wrong.tolist(), strict=True)
    alone = [bool(shows_at_most(a, n, drawn, wrong, 0.05)) for a, n, drawn, wrong in cases]
    assert together.tolist() == alone
    assert together[-1], "all of them may be wrong, so nothing has to be shown"


def test_the_bound_holds_in_every_small_population_counted_out() -> None:
    """All draws of all populations of 9: the share of draws whose bound is below the truth."""
    for n_wrong, n_drawn in itertools.product(range(10), range(10)):
        members = [k < n_wrong for k in range(9)]
        bad = sum(
            wrong_upper_bound(9, n_drawn, sum(draw), 0.2) < n_wrong
            for draw in itertools.combinations(members, n_drawn)
        )
        assert bad <= 0.2 * comb(9, n_drawn)


def test_the_bound_is_exact_with_everything_checked_and_n_with_nothing_checked() -> None:
    assert wrong_upper_bound(40, 40, 3, 0.05) == 3
    assert wrong_upper_bound(40, 0, 0, 0.05) == 40


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.data())
def test_more_errors_and_more_confidence_give_larger_bounds(
    n_all: int, data: st.DataObject
) -> None:
    n_drawn = data.draw(st.integers(1, n_all))
    bounds = [wrong_upper_bound(n_all, n_drawn, x, 0.05) for x in range(n_drawn + 1)]
    assert bounds == sorted(bounds)
    assert wrong_upper_bound(n_all, n_drawn, 0, 0.01) >= bounds[0]
    for allowed in (0, n_all // 50, n_all // 5):
        assert shows_at_most(allowed, n_all, n_drawn, 0, 0.05) == (bounds[0] <= allowed)


def test_zero_errors_need_the_known_numbers() -> None:
    assert [zero_error_sample_size(e, 0.05) for e in (0.01, 0.02, 0.05)] == [299, 149, 59]
    assert zero_error_sample_size(0.01, 0.05, 10**6) in (298, 299)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 3000), st.sampled_from([0.005, 0.02, 0.1, 0.3]))
def test_a_finite_set_needs_no_more_and_exactly_enough(n_all: int, max_error: float) -> None:
    n, allowed = zero_error_sample_size(max_error, 0.05, n_all), whole_share(max_error, n_all)
    if allowed:
        assert n <= zero_error_sample_size(max_error, 0.05) + 1 / max_error
    assert wrong_upper_bound(n_all, n, 0, 0.05) <= allowed
    assert n == 0 or wrong_upper_bound(n_all, n - 1, 0, 0.05) > allowed


def test_whole_shares_are_not_lost_to_rounding() -> None:
    assert [whole_share(0.02, 50), whole_share(0.1, 30), whole_share(0.005, 199)] == [1, 3, 0]


def test_numbers_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="5 wrong in 3 drawn"):
        wrong_upper_bound(10, 3, 5, 0.05)
    with pytest.raises(ValueError, match="between 0 and 1"):
        zero_error_sample_size(0.0, 0.05)


def test_large_populations_stay_within_the_binomial_limit() -> None:
    """Sampling without replacement from ten million is nearly sampling with it."""
    at_most = wrong_upper_bound(10**7, 5000, 3, 0.05) / 10**7
    assert binom.cdf(3, 5000, at_most) == pytest.approx(0.05, rel=1e-3)
