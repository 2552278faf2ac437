"""How often bounds are violated in simulated pools; the full size is a benchmark."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

import overfitting_simulation
import simulated_pools as pools
from surelabel.guarantees.certification import CertifySample, wrong_images_upper_bound

N_DRAWS = 120
ALLOWED = int(binom.ppf(0.999, N_DRAWS, 0.05))


def test_the_limit_of_the_full_size_is_the_binomial_one() -> None:
    assert binom.ppf(0.999, 2000, 0.05) == pools.MOST_VIOLATED


@pytest.mark.parametrize("power", [0.0, 1.0, 8.0])
def test_certified_thresholds_keep_their_target(power: float) -> None:
    make = partial(pools.informative, 1500, 0.05, power)
    tally = pools.try_thresholds(make, n_certify=250, max_error=0.04, n_draws=N_DRAWS, seed=1)
    assert tally.violated <= ALLOWED


def test_a_risk_just_above_the_target_is_refused() -> None:
    make = partial(pools.at_the_limit, 1500, 0.04)
    tally = pools.try_thresholds(make, n_certify=300, max_error=0.04, n_draws=N_DRAWS, seed=2)
    assert tally.violated <= ALLOWED
    assert tally.refused >= N_DRAWS / 2


def test_coverage_with_many_labels_is_close_to_that_of_an_oracle() -> None:
    make = partial(pools.informative, 6000, 0.04, 8.0)
    tally = pools.try_thresholds(make, n_certify=3000, max_error=0.02, n_draws=30, seed=3)
    assert tally.coverage > 0.9 * tally.oracle


def test_groups_that_are_wrong_together_keep_the_target() -> None:
    make = partial(pools.in_groups, 400, 5, 0.04)
    tally = pools.try_thresholds(make, n_certify=150, max_error=0.06, n_draws=60, seed=4)
    assert tally.violated <= binom.ppf(0.999, 60, 0.05)
    assert pools.try_fixed_thresholds(make, n_certify=150, n_draws=N_DRAWS, seed=5) <= ALLOWED


def test_counting_single_images_where_groups_were_drawn_violates_the_bound() -> None:
    """Why the group has to be the sampling unit: its labels all repeat one fact."""
    rng, violated = np.random.default_rng(6), 0
    for _ in range(N_DRAWS):
        pool = pools.in_groups(200, 20, 0.06, rng)
        drawn = pool.draw(30, rng)
        alone = CertifySample(drawn.scores, np.arange(len(drawn.units)), drawn.checked, drawn.wrong)
        everything = np.ones(len(drawn.scores), dtype=bool)
        violated += bool(pool.wrong.sum() > wrong_images_upper_bound(alone, everything, 0.05))
    assert violated > ALLOWED


@pytest.mark.parametrize(("n_all", "n_wrong"), [(300, 6), (2000, 60)])
def test_an_audit_bound_may_be_read_after_every_check(n_all: int, n_wrong: int) -> None:
    violated = pools.try_audits(n_all, n_wrong, 300, n_draws=N_DRAWS, seed=7)
    assert violated <= ALLOWED


@pytest.mark.parametrize("unbalanced", [False, True])
def test_a_model_that_overfits_its_own_guesses_keeps_the_target(unbalanced: bool) -> None:
    result = overfitting_simulation.try_overfitting(12, unbalanced=unbalanced, seed=8)
    assert result["certified"] > 2
    assert result["violated"] <= binom.ppf(0.999, 12, 0.05)


def test_certifying_with_images_outside_the_pool_violates_the_bound() -> None:
    """The tune split after training on the pool: scores of pool images are too good."""
    result = overfitting_simulation.try_overfitting(16, unbalanced=False, seed=9, with_tune=True)
    assert result["violated"] > binom.ppf(0.999, 16, 0.05)


def test_class_balanced_labels_on_an_unbalanced_pool_violate_the_bound() -> None:
    limit = binom.ppf(0.999, 30, 0.05)
    assert overfitting_simulation.try_balanced_labels(30, seed=10) > limit
    assert overfitting_simulation.try_balanced_labels(30, seed=10, uniform=True) <= limit
