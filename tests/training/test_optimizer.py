from __future__ import annotations

import pytest

from surelabel.config.choices import Optimizer, Schedule, Tail
from surelabel.config.settings import Config
from surelabel.training.optimizer import learning_rate, peak_learning_rate


def course(schedule: Schedule, n_steps: int = 1000, peak: float = 0.4) -> list[float]:
    return [learning_rate(schedule, peak, step, n_steps) for step in range(n_steps)]


def test_the_peak_suits_optimizer_and_net_unless_it_is_given() -> None:
    assert peak_learning_rate(Config(net="compact")) == 0.1
    assert peak_learning_rate(Config(net="efficientnet-lite0")) == 0.01
    assert peak_learning_rate(Config(net="efficientnet-lite0", optimizer=Optimizer.ADAM)) == 0.001
    assert peak_learning_rate(Config(net="efficientnet-lite0", learning_rate=0.3)) == 0.3
    assert peak_learning_rate(Config(net="efficientnet-lite0", tail=Tail.DETAIL)) == 0.05


def test_constant_stays_at_its_peak() -> None:
    assert set(course(Schedule.CONSTANT)) == {0.4}


def test_step_divides_by_ten_at_one_half_and_at_three_quarters() -> None:
    rates = course(Schedule.STEP)
    assert set(rates[:500]) == {0.4}
    assert rates[500:750] == pytest.approx([0.04] * 250)
    assert rates[750:] == pytest.approx([0.004] * 250)


def test_one_cycle_climbs_to_its_peak_once_and_ends_at_almost_nothing() -> None:
    rates = course(Schedule.ONE_CYCLE)
    top = rates.index(max(rates))
    assert rates[0] == pytest.approx(0.04)
    assert max(rates) == pytest.approx(0.4)
    assert 0 < top < 200
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert 0 < rates[-1] < 0.001
    assert learning_rate(Schedule.ONE_CYCLE, 0.4, 1000, 1000) == pytest.approx(0.0004)


@pytest.mark.parametrize("schedule", list(Schedule))
def test_every_rate_is_positive_and_at_most_the_peak_even_for_one_step(schedule: Schedule) -> None:
    for n_steps in (1, 2, 7):
        for rate in course(schedule, n_steps):
            assert 0 < rate <= 0.4
