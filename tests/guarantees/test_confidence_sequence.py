from __future__ import annotations

import itertools
from math import comb

import numpy as np
from scipy.stats import betabinom, hypergeom

from surelabel.guarantees.bounds import wrong_upper_bound
from surelabel.guarantees.confidence_sequence import PRIOR, anytime_upper_bound


def test_the_bound_is_where_prior_over_posterior_reaches_one_over_delta() -> None:
    """By Bayes' rule over all K, with the prior written out."""
    n_all, checks = 40, np.array([False, True, False, False, False, False])
    possible = np.arange(n_all + 1)
    prior = betabinom.pmf(possible, n_all, *PRIOR)
    bounds, seen = anytime_upper_bound(n_all, checks, 0.2), []
    for n in range(1, len(checks) + 1):
        likelihood = hypergeom.pmf(checks[:n].sum(), n_all, possible, n)
        posterior = prior * likelihood / (prior * likelihood).sum()
        seen.append(possible[posterior > 0.2 * prior].max())
        assert bounds[n - 1] == min(seen)


def test_no_moment_is_lucky_in_every_small_population_counted_out() -> None:
    """All orders of all populations of 10: how many ever show a bound below the truth."""
    for n_wrong in range(11):
        bad = 0
        for places in itertools.combinations(range(10), n_wrong):
            wrong = np.isin(np.arange(10), places)
            bad += bool((anytime_upper_bound(10, wrong, 0.25) < n_wrong).any())
        assert bad <= 0.25 * comb(10, n_wrong)


def test_checking_everything_ends_at_the_truth() -> None:
    wrong = np.isin(np.arange(60), [3, 50])
    bounds = anytime_upper_bound(60, wrong, 0.05)
    assert bounds[-1] == 2
    assert (bounds >= np.cumsum(wrong)).all()


def test_a_bound_for_any_time_is_a_little_looser_than_for_one_time() -> None:
    bounds = anytime_upper_bound(10_000, np.zeros(300, dtype=bool), 0.05)
    once = wrong_upper_bound(10_000, 300, 0, 0.05)
    assert once < bounds[-1] < 2 * once
    assert (np.diff(bounds) <= 0).all()


def test_no_check_gives_no_bound() -> None:
    assert len(anytime_upper_bound(100, np.zeros(0, dtype=bool), 0.05)) == 0
