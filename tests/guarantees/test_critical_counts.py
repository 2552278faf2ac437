from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import hypergeom

from surelabel.guarantees.critical_counts import NEVER, critical_count, critical_counts


@pytest.mark.parametrize(
    ("n_all", "n_drawn", "n_allowed"),
    [(1000, 300, 20), (10_600, 300, 212), (2299, 500, 114), (60, 30, 6)],
)
def test_one_count_is_the_largest_that_the_hypergeometric_tail_allows(
    n_all: int, n_drawn: int, n_allowed: int
) -> None:
    count = critical_count(n_all, n_drawn, n_allowed, 0.05)
    assert count >= 0
    for c, within in ((count, True), (count + 1, False)):
        tail = hypergeom.cdf(c, n_all, n_allowed + c + 1, n_drawn)
        assert (tail <= 0.05) == within


def test_nothing_can_pass_with_too_few_drawn_and_everything_with_enough() -> None:
    assert critical_count(1000, 20, 10, 0.05) == NEVER
    assert critical_count(1000, 990, 10, 0.05) == 990
    assert critical_count(1000, 0, 10, 0.05) == NEVER


@pytest.mark.parametrize("wrong", list(itertools.combinations(range(7), 3)))
def test_in_every_small_pool_the_chance_of_a_false_pass_is_below_delta(
    wrong: tuple[int, ...],
) -> None:
    """All draws of a pool of seven, for every place of the wrong images: an exact enumeration."""
    n_all, n_drawn, delta = 7, 3, 0.3
    n_allowed = np.array([0, 0, 1, 1, 1, 2, 2])
    spending = delta * np.arange(1, 8) / 7
    counts = critical_counts(n_all, n_drawn, n_allowed, spending)
    assert counts.max() >= 0
    is_wrong = np.isin(np.arange(n_all), wrong)
    false_passes, draws = 0, list(itertools.combinations(range(n_all), n_drawn))
    for draw in draws:
        drawn = np.isin(np.arange(n_all), draw)
        passed = np.cumsum(is_wrong & drawn) <= counts
        too_wrong = np.cumsum(is_wrong & ~drawn) > n_allowed
        false_passes += bool((passed & too_wrong).any())
    assert false_passes / len(draws) <= delta


def test_counts_never_fall_and_a_larger_delta_never_lowers_them() -> None:
    allowed = np.arange(0, 200, 2)
    spending = np.arange(1, 101) / 100
    strict, loose = (critical_counts(10_000, 800, allowed, d * spending) for d in (0.01, 0.1))
    assert (np.diff(strict) >= 0).all()
    assert (strict <= loose).all()
    assert (strict < loose).any()
