from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax

from surelabel.selection.calibration import is_clear_gain, losses_at_best_temperature


@given(st.floats(0.3, 4.0))
def test_how_sure_one_is_makes_no_difference_at_the_best_temperature(factor: float) -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 4, 500)
    logits = rng.normal(size=(500, 4)) + np.eye(4)[labels]
    plain, other = (
        losses_at_best_temperature(softmax(f * logits, axis=1), labels) for f in (1.0, factor)
    )
    assert other.mean() == pytest.approx(plain.mean(), abs=1e-4)


def test_no_temperature_below_the_coolest_one() -> None:
    rng = np.random.default_rng(2)
    labels = np.zeros(50, dtype=np.int64)
    logits = rng.normal((2.0, 0.0, 0.0), size=(50, 3))
    losses = losses_at_best_temperature(softmax(0.1 * logits, axis=1), labels, coolest=1.0)
    assert losses == pytest.approx(-log_softmax(0.1 * logits, axis=1)[:, 0])


@pytest.mark.parametrize(
    ("gains", "clear"),
    [
        (np.full(10, 0.0009), False),
        (np.full(10, 0.0011), True),
        (-np.full(10, 0.5), False),
        (np.tile([1.0, -0.9], 50), False),
        (np.tile([1.0, -0.9], 500), True),
    ],
)
def test_a_gain_is_clear_if_it_matters_and_exceeds_its_error(
    gains: np.ndarray, clear: bool
) -> None:
    assert is_clear_gain(gains) is clear
