"""Certification by looks: the same outcome from fewer answers, and valid whenever people stop."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

import simulated_pools as pools
from surelabel.guarantees.certification import (
    CertifySample,
    certified_dataset_threshold,
    look_spending,
)
from surelabel.guarantees.certify_plan import plan_status
from surelabel.guarantees.critical_counts import critical_count, look_counts

N_DRAWS = 60
ALLOWED = int(binom.ppf(0.999, N_DRAWS, 0.05))


def test_one_look_with_all_of_delta_is_the_test_of_fixed_size() -> None:
    (count,) = look_counts(10_600, [600], 212, np.array([0.05]))
    assert count == critical_count(10_600, 600, 212, 0.05)


def test_looks_cost_little_and_counts_never_fall() -> None:
    sizes = [300, 600, 1200, 2400]
    counts = look_counts(10_600, sizes, 212, 0.05 * look_spending(4))
    fixed = np.array([critical_count(10_600, n, 212, 0.05) for n in sizes])
    assert (np.diff(counts) > 0).all()
    assert (counts <= fixed).all()
    assert (counts >= 0.8 * fixed - 1).all()


@pytest.mark.parametrize("wrong", list(itertools.combinations(range(6), 3)))
def test_in_every_small_pool_the_chance_of_a_false_pass_at_any_look_is_below_delta(
    wrong: tuple[int, ...],
) -> None:
    """Every order of a pool of six, for every place of the wrong images: an exact enumeration."""
    n_all, sizes, n_allowed, delta = 6, [1, 2, 4], 1, 0.45
    counts = look_counts(n_all, sizes, n_allowed, delta * np.array([0.3, 0.7, 1.0]))
    assert counts.max() >= 0
    is_wrong = np.isin(np.arange(n_all), wrong)
    false_passes, orders = 0, list(itertools.permutations(range(n_all)))
    for order in orders:
        false = False
        for n, count in zip(sizes, counts.tolist(), strict=True):
            drawn = np.isin(np.arange(n_all), order[:n])
            passed = np.cumsum(is_wrong & drawn) <= count
            false |= bool((passed & (np.cumsum(is_wrong & ~drawn) > n_allowed)).any())
        false_passes += false
    assert false_passes / len(orders) <= delta


@pytest.mark.parametrize("power", [0.5, 4.0])
def test_asking_the_surest_first_gives_the_outcome_of_all_labels(power: float) -> None:
    rng = np.random.default_rng(3)
    for _ in range(20):
        pool = pools.informative(2000, 0.1, power, rng)
        everything = pools.with_looks(pool, [400], rng)
        asked = pools.ask_surest_first(everything, 0.03)
        whole = certified_dataset_threshold(everything, 0.03, 0.05, n_labels=2000)
        assert (
            certified_dataset_threshold(asked, 0.03, 0.05, n_labels=2000).threshold
            == whole.threshold
        )
        below = everything.checked & (everything.scores <= whole.threshold)
        assert below.sum() <= asked.checked.sum() <= below.sum() + 1


def test_a_later_look_never_takes_back_what_an_earlier_one_showed() -> None:
    rng = np.random.default_rng(4)
    pool = pools.informative(3000, 0.1, 3.0, rng)
    sample = pools.with_looks(pool, [300, 600], rng)
    first = pools.ask_surest_first(sample.up_to(1), 0.03)
    unanswered = replace(sample, checked=first.checked)
    before, after = (
        certified_dataset_threshold(each, 0.03, 0.05, n_labels=3000) for each in (first, unanswered)
    )
    assert after.threshold >= before.threshold > 0


@pytest.mark.parametrize(
    ("make", "sizes"),
    [
        (partial(pools.informative, 1500, 0.08, 3.0), [150, 300, 450]),
        (partial(pools.informative, 1500, 0.15, 0.0), [150, 300, 450]),
        (partial(pools.in_groups, 500, 4, 0.2), [100, 150]),
    ],
)
def test_whenever_people_stop_the_target_is_kept(
    make: Callable[[np.random.Generator], pools.SimulatedPool], sizes: list[int]
) -> None:
    """Whoever reads the result again and again during the looks sees it violated in few pools."""
    tally = pools.try_looks(make, sizes=sizes, max_error=0.04, n_draws=N_DRAWS, seed=5)
    assert tally.violated <= ALLOWED
    assert tally.asked < 0.95 * tally.sampled


def test_looks_counted_as_samples_of_fixed_size_violate_the_target() -> None:
    """A page that is stopped by a rule, but counted as if its size had been fixed before."""
    make = partial(pools.informative, 1500, 0.15, 0.0)
    sizes = list(range(60, 460, 20))
    violated = pools.try_naive_stopping(make, sizes=sizes, max_error=0.04, n_draws=N_DRAWS, seed=6)
    assert violated > ALLOWED


def test_uncertain_images_taken_as_certify_images_violate_the_target() -> None:
    """Labels drawn actively: the least sure are all checked, the sure ones hardly."""
    rng, violated = np.random.default_rng(7), 0
    for _ in range(40):
        pool = pools.at_the_limit(1500, 0.08, rng)
        active = np.arange(1500) >= 1200
        sample = CertifySample(pool.scores, pool.units, active, pool.wrong)
        result = certified_dataset_threshold(sample, 0.04, 0.05, n_labels=1500)
        accepted = (pool.scores <= result.threshold) & ~active
        violated += bool(pool.wrong[accepted].sum() > 60)
    assert violated > binom.ppf(0.999, 40, 0.05)


def test_strata_chosen_after_looking_violate_the_target() -> None:
    """Of ten parts of the pool, the best one is certified as if it were the only one."""
    rng, violated = np.random.default_rng(8), 0
    for _ in range(40):
        pool = pools.informative(1500, 0.15, 0.0, rng)
        sample = pool.draw(300, rng)
        parts = [rng.random(1500) < 0.5 for _ in range(10)]
        results = [
            certified_dataset_threshold(sample.restrict(part), 0.04, 0.05, n_labels=int(part.sum()))
            for part in parts
        ]
        for part, result in zip(parts, results, strict=True):
            accepted = part & (pool.scores <= result.threshold) & ~sample.checked
            if pool.wrong[accepted].sum() > int(0.04 * part.sum()):
                violated += 1
                break
    assert violated > binom.ppf(0.999, 40, 0.05)


def test_the_status_says_what_is_shown_and_when_the_look_is_over() -> None:
    n = 1000
    scores, wrong = np.arange(n) / n, np.zeros(n, dtype=bool)
    wrong[600:] = True
    looks = np.zeros(n, dtype=np.int64)
    looks[::5] = 1
    sample = CertifySample(scores, np.arange(n), np.zeros(n, dtype=bool), wrong, looks)
    status = plan_status(sample, 0.05, 0.05, n_labels=n)
    assert status.images_per_answer == 5
    assert status.n_answered == status.n_wrong == 0
    assert status.to_ask.tolist() == list(range(0, n, 5))
    while not status.is_over:
        checked = sample.checked.copy()
        checked[status.to_ask[0]] = True
        sample = replace(sample, checked=checked)
        before, status = status, plan_status(sample, 0.05, 0.05, n_labels=n)
        assert status.result.threshold >= before.result.threshold
    assert status.n_wrong == status.n_may_be_wrong + 1
    assert status.n_answered == 120 + status.n_wrong
    assert 600 <= status.result.counts.n_accepted < 660
