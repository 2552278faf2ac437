from __future__ import annotations

import itertools

import pytest

from surelabel.config.choices import Effort
from surelabel.config.settings import Config
from surelabel.engines.cross_fitting import n_members
from surelabel.engines.member_training import n_steps


def test_members_are_as_many_as_asked_for() -> None:
    assert n_members(Config(members=5), cross_fit=False) == 5
    assert n_members(Config(members=1), cross_fit=False) == 1


@pytest.mark.parametrize("effort", Effort)
def test_out_of_fold_predictions_need_two_members(effort: Effort) -> None:
    assert n_members(Config(members=1), cross_fit=True) == 2
    assert n_members(Config(members=3), cross_fit=True) == 3
    assert n_members(Config(effort=effort), cross_fit=True) >= 2


def test_steps_are_as_many_as_asked_for_whatever_the_data() -> None:
    assert {n_steps(Config(steps=70), n, n // 2, m) for n in (10, 10**6) for m in (0, 9)} == {70}


def test_epochs_are_passes_over_the_labeled_images() -> None:
    config = Config(epochs=3, batch_size=32)
    assert n_steps(config, 10**6, 300, 20) == 30
    assert n_steps(config, 320, 321, 0) == 33, "the last batch of a pass counts"


def test_more_images_and_more_effort_never_mean_fewer_steps_or_members() -> None:
    efforts = [Config(effort=e) for e in (Effort.LOW, Effort.NORMAL, Effort.HIGH)]
    for less, more in itertools.pairwise(efforts):
        assert n_members(less, cross_fit=False) <= n_members(more, cross_fit=False)
    for config in efforts:
        steps = [n_steps(config, n, 100, 0) for n in (1, 100, 10_000, 100_000, 10**7)]
        assert steps == sorted(steps)
        assert steps[0] >= 1
        assert steps[-1] > steps[0]
        assert steps[-1] == n_steps(config, 10**8, 100, 0), "there is an end to it"
    for n in (100, 10**7):
        steps = [n_steps(config, n, 100, 0) for config in efforts]
        assert steps == sorted(set(steps))


def test_the_first_round_learns_longer_from_a_pool_without_labels() -> None:
    for n in (100, 10**7):
        assert n_steps(Config(), n, 50, 0) == 1.5 * n_steps(Config(), n, 50, 1)
        alone = Config(consistency=0.0)
        assert n_steps(alone, n, 50, 0) == n_steps(alone, n, 50, 1), "nothing to learn from there"
        assert n_steps(Config(), n, n, 0) == n_steps(Config(), n, n - 1, 1), "no pool is left"
