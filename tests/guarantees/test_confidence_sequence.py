from __future__ import annotations

import itertools
from math import comb

import numpy as np

from surelabel.guarantees.bounds import most_wrong
from surelabel.guarantees.confidence_sequence import log_marginal, most_wrong_any_time


def test_the_marginal_sums_to_one() -> None:
    seen = np.arange(51)
    assert np.isclose(np.exp(log_marginal(seen, np.full(51, 50))).sum(), 1)


def test_no_moment_is_lucky_in_every_small_world_counted_out() -> None:
    """All orders of all worlds of 10: how many ever show a bound below the truth."""
    for n_wrong in range(11):
        bad = 0
        for places in itertools.combinations(range(10), n_wrong):
            wrong = np.isin(np.arange(10), places)
            bad += bool((most_wrong_any_time(10, wrong, 0.25) < n_wrong).any())
        assert bad <= 0.25 * comb(10, n_wrong)


def test_checking_everything_ends_at_the_truth() -> None:
    wrong = np.isin(np.arange(60), [3, 50])
    bounds = most_wrong_any_time(60, wrong, 0.05)
    assert bounds[-1] == 2
    assert (bounds >= np.cumsum(wrong)).all()


def test_looking_at_any_time_costs_a_little_against_looking_once() -> None:
    bounds = most_wrong_any_time(10_000, np.zeros(300, dtype=bool), 0.05)
    once = most_wrong(10_000, 300, 0, 0.05)
    assert once < bounds[-1] < 2 * once
    assert (np.diff(bounds) <= 0).all()


def test_no_check_gives_no_bound() -> None:
    assert len(most_wrong_any_time(100, np.zeros(0, dtype=bool), 0.05)) == 0
