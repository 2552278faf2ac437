from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.selection.weights import inverse_uncertainty_weights, phi


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 30), st.floats(0, 2), st.floats(-10, 10))
def test_phi_is_the_printed_fraction(r: int, gamma: float, bias: float) -> None:
    e = math.exp(gamma * r + bias)
    assert phi(r, gamma, bias) == pytest.approx((1 - e) / (1 + e), abs=1e-12)


def test_phi_is_zero_where_the_line_crosses_zero() -> None:
    assert phi(10, 0.5, -5.0) == 0
    assert phi(4, 0.5, -2.0 - 2 * math.log(3) / 2) == pytest.approx((3 - 1) / (3 + 1))


def test_phi_starts_near_trust_and_ends_near_exploration_when_bias_is_below_zero() -> None:
    course = [phi(r, 0.8, -8.0) for r in range(30)]
    assert course[0] > 0.999
    assert course[-1] < -0.999
    assert course == sorted(course, reverse=True)


def test_phi_does_not_overflow_where_the_exponential_would() -> None:
    assert phi(1000, 100.0, 0.0) == -1
    assert phi(0, 100.0, -10_000.0) == 1


def test_weights_are_the_exponential_of_minus_uncertainty_times_phi() -> None:
    uncertainty = np.array([0.0, 1.0, 2.0])
    trust = phi(3, 0.5, -5.0)
    weights = inverse_uncertainty_weights(uncertainty, 3, 0.5, -5.0)
    np.testing.assert_allclose(weights, [1.0, math.exp(-trust), math.exp(-2 * trust)])


def test_the_sure_count_more_early_and_the_unsure_count_more_late() -> None:
    uncertainty = np.array([0.1, 0.5, 2.0])
    early = inverse_uncertainty_weights(uncertainty, 1, 1.0, -5.0)
    late = inverse_uncertainty_weights(uncertainty, 20, 1.0, -5.0)
    assert (np.diff(early) < 0).all()
    assert (np.diff(late) > 0).all()
    assert (early <= 1).all()
    assert (late >= 1).all()


def test_all_count_the_same_where_phi_is_zero() -> None:
    weights = inverse_uncertainty_weights(np.array([0.0, 3.0]), 10, 0.5, -5.0)
    assert weights.tolist() == [1.0, 1.0]


def test_a_cap_holds_down_what_exceeds_it_and_nothing_else() -> None:
    uncertainty = np.array([0.0, 0.2, 5.0])
    free = inverse_uncertainty_weights(uncertainty, 20, 1.0, -5.0, cap=0.0)
    capped = inverse_uncertainty_weights(uncertainty, 20, 1.0, -5.0, cap=1.1)
    assert free.max() > 100
    np.testing.assert_array_equal(capped, np.minimum(free, 1.1))
    early = inverse_uncertainty_weights(uncertainty, 1, 1.0, -5.0)
    np.testing.assert_array_equal(
        inverse_uncertainty_weights(uncertainty, 1, 1.0, -5.0, cap=1.0), early
    )
