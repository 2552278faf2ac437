"""How often bounds are violated in simulated pools; the full size is a benchmark."""

from __future__ import annotations

from collections.abc import Callable
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


@pytest.mark.parametrize(
    ("make", "n_certify", "n_classes"),
    [
        (partial(pools.informative, 1500, 0.12, 0.0), 250, 0),
        (partial(pools.informative, 1500, 0.12, 4.0), 250, 0),
        (partial(pools.informative, 1500, 0.12, 1.0), 400, 3),
        (partial(pools.in_groups, 400, 5, 0.15), 120, 0),
    ],
    ids=["worthless scores", "fair scores", "strata with targets of their own", "groups"],
)
def test_the_finished_dataset_keeps_its_target(
    make: Callable[[np.random.Generator], pools.SimulatedPool], n_certify: int, n_classes: int
) -> None:
    tally = pools.try_dataset_thresholds(
        make,
        n_certify=n_certify,
        max_error=0.04,
        n_draws=N_DRAWS,
        seed=21,
        n_classes=n_classes,
    )
    assert tally.violated <= ALLOWED
    assert 0 < tally.coverage < tally.oracle


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


def test_two_strata_bound_an_audit_too_and_are_no_tighter_where_little_is_wrong() -> None:
    """The reason why an audit draws uniformly."""
    rng, violated = np.random.default_rng(22), 0
    sizes, drawn = np.array([1000, 1000]), np.array([100, 100])
    for _ in range(N_DRAWS):
        wrong = [np.arange(1000) < n for n in (5, 60)]
        found = [each[rng.permutation(1000)[:100]].sum() for each in wrong]
        violated += pools.bound_by_strata(sizes, drawn, np.array(found), 0.05) < 65
    assert violated <= ALLOWED
    make = partial(pools.informative, 4000, 0.003, 3.0)
    bounds = pools.try_strata_of_audits(
        make, n_checks=300, sure_shares=(0.5, 0.3), n_draws=20, seed=23
    )
    assert bounds["uniform"] == min(bounds.values())


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
