from __future__ import annotations

import numpy as np
import pytest

from surelabel.selection.calibration import (
    expected_calibration_error,
    fit_temperature,
    reliability,
    temper,
)

RNG = np.random.default_rng(1)


def honest(n: int, k: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and labels drawn from them."""
    p = RNG.dirichlet(np.full(k, 0.4), n)
    labels = (p.cumsum(axis=1) < RNG.random(n)[:, None]).sum(axis=1)
    return p, np.minimum(labels, k - 1)


def test_temperature_one_changes_nothing_and_no_temperature_changes_a_guess() -> None:
    p, _ = honest(50)
    assert temper(p, 1.0) == pytest.approx(p, abs=1e-9)
    for temperature in (0.3, 2.5):
        tempered = temper(p, temperature)
        assert (tempered.argmax(axis=1) == p.argmax(axis=1)).all()
        assert tempered.sum(axis=1) == pytest.approx(np.ones(50))


@pytest.mark.parametrize("true", [0.5, 1.0, 2.5])
def test_the_temperature_that_spoilt_them_is_found(true: float) -> None:
    p, labels = honest(6000)
    assert fit_temperature(temper(p, 1 / true), labels) == pytest.approx(true, rel=0.1)


def test_few_labels_fit_nothing() -> None:
    p, labels = honest(5)
    assert fit_temperature(p, labels) == 1.0


def test_honest_probabilities_have_no_calibration_error_and_tempering_mends_the_spoilt() -> None:
    p, labels = honest(8000)
    spoilt = temper(p, 0.4)
    mended = temper(spoilt, fit_temperature(spoilt, labels))
    errors = [
        expected_calibration_error(q.max(axis=1), q.argmax(axis=1) == labels)
        for q in (p, spoilt, mended)
    ]
    assert errors[0] < 0.03
    assert errors[1] > 0.1
    assert errors[2] < 0.03


def test_the_error_is_the_printed_one() -> None:
    sure = np.array([0.95, 0.95, 0.55, 0.55])
    right = np.array([True, True, True, False])
    assert expected_calibration_error(sure, right) == pytest.approx((0.05 + 0.05) / 2)
    bins = reliability(sure, right)
    assert [(b.low, b.n, b.accuracy) for b in bins] == [
        (0.5, 2, 0.5),
        (pytest.approx(0.9), 2, 1.0),
    ]
    assert np.isnan(expected_calibration_error(np.empty(0), np.empty(0, dtype=bool)))
