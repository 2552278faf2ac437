"""How often promises are broken in worlds whose truth is known; the full size is a benchmark."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

import overfitting_world
import simulated_worlds as worlds
from surelabel.guarantees.certification import CertifySample, bound_at

N_DRAWS = 120
ALLOWED = int(binom.ppf(0.999, N_DRAWS, 0.05))


def test_the_limit_of_the_full_size_is_the_binomial_one() -> None:
    assert binom.ppf(0.999, 2000, 0.05) == worlds.MOST_VIOLATED


@pytest.mark.parametrize("power", [0.0, 1.0, 8.0])
def test_certified_thresholds_keep_their_promise(power: float) -> None:
    make = partial(worlds.informative, 1500, 0.05, power)
    tally = worlds.try_thresholds(make, n_certify=250, max_error=0.04, n_draws=N_DRAWS, seed=1)
    assert tally.broken <= ALLOWED


def test_a_risk_just_above_the_target_is_refused() -> None:
    make = partial(worlds.at_the_limit, 1500, 0.04)
    tally = worlds.try_thresholds(make, n_certify=300, max_error=0.04, n_draws=N_DRAWS, seed=2)
    assert tally.broken <= ALLOWED
    assert tally.refused >= N_DRAWS / 2


def test_plenty_of_labels_come_near_to_an_oracle() -> None:
    make = partial(worlds.informative, 6000, 0.04, 8.0)
    tally = worlds.try_thresholds(make, n_certify=3000, max_error=0.02, n_draws=30, seed=3)
    assert tally.coverage > 0.9 * tally.oracle


def test_groups_that_fail_together_keep_the_promise() -> None:
    make = partial(worlds.in_groups, 400, 5, 0.04)
    tally = worlds.try_thresholds(make, n_certify=150, max_error=0.06, n_draws=60, seed=4)
    assert tally.broken <= binom.ppf(0.999, 60, 0.05)
    assert worlds.try_fences(make, n_certify=150, n_draws=N_DRAWS, seed=5) <= ALLOWED


def test_images_counted_one_by_one_where_groups_were_drawn_break_it() -> None:
    """Why the group has to be the unit: labels of one group say the same thing many times."""
    rng, broken = np.random.default_rng(6), 0
    for _ in range(N_DRAWS):
        world = worlds.in_groups(200, 20, 0.06, rng)
        drawn = world.draw(30, rng)
        alone = CertifySample(drawn.scores, np.arange(len(drawn.units)), drawn.checked, drawn.wrong)
        everything = np.ones(len(drawn.scores), dtype=bool)
        broken += bool(world.wrong.sum() > bound_at(alone, everything, 0.05))
    assert broken > ALLOWED


@pytest.mark.parametrize(("n_all", "n_wrong"), [(300, 6), (2000, 60)])
def test_an_auditor_may_look_after_every_check(n_all: int, n_wrong: int) -> None:
    broken = worlds.try_audits(n_all, n_wrong, 300, n_draws=N_DRAWS, seed=7)
    assert broken <= ALLOWED


@pytest.mark.parametrize("unbalanced", [False, True])
def test_a_model_that_believes_its_own_guesses_keeps_the_promise(unbalanced: bool) -> None:
    result = overfitting_world.try_overfitting(12, unbalanced=unbalanced, seed=8)
    assert result["promised"] > 2
    assert result["broken"] <= binom.ppf(0.999, 12, 0.05)


def test_certifying_with_images_outside_of_the_pool_breaks_it() -> None:
    """The tune split after training on the pool: the pool is surer of itself than it should be."""
    result = overfitting_world.try_overfitting(16, unbalanced=False, seed=9, with_tune=True)
    assert result["broken"] > binom.ppf(0.999, 16, 0.05)


def test_class_balanced_labels_on_an_unbalanced_pool_break_it() -> None:
    limit = binom.ppf(0.999, 30, 0.05)
    assert overfitting_world.try_balanced_labels(30, seed=10) > limit
    assert overfitting_world.try_balanced_labels(30, seed=10, uniform=True) <= limit
