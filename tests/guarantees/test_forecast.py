"""Drift, suspicious labels and the forecast."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp

from surelabel.guarantees.forecast import forecast
from surelabel.selection.drift import drift
from surelabel.selection.label_errors import suspicious_labels

RNG = np.random.default_rng(3)


def test_the_gap_is_that_of_kolmogorov_and_smirnov() -> None:
    known, new = RNG.normal(0, 1, 400), RNG.normal(0.4, 1, 300)
    found, expected = drift(known, new), ks_2samp(known, new, method="asymp")
    assert found.gap == pytest.approx(expected.statistic)
    assert found.p_value == pytest.approx(expected.pvalue, rel=0.5)
    assert found.higher


def test_equal_images_show_no_drift_and_others_do() -> None:
    clear = [drift(RNG.random(500), RNG.random(500)).is_clear for _ in range(100)]
    assert sum(clear) <= 1
    assert drift(RNG.random(500), RNG.random(500) + 0.4).is_clear
    tiny_shift = drift(RNG.random(60_000), RNG.random(60_000) + 0.02)
    assert tiny_shift.p_value < 1e-3
    assert not tiny_shift.is_clear


def test_few_images_show_nothing() -> None:
    assert not drift(np.zeros(500), np.ones(5)).is_clear
    assert drift(np.full(50, np.nan), np.ones(50)).gap == 0


def test_swapped_labels_are_listed_the_surest_first() -> None:
    labels = RNG.integers(0, 3, 200)
    p = np.full((200, 3), 0.02)
    p[np.arange(200), labels] = 0.96
    given = labels.copy()
    given[[5, 17]] = (labels[[5, 17]] + 1) % 3
    p[17] = np.where(np.arange(3) == labels[17], 0.98, 0.01)
    assert suspicious_labels(p, given).tolist() == [17, 5]
    assert not len(suspicious_labels(p, labels))


def test_doubt_that_is_not_confident_lists_nothing() -> None:
    labels = np.zeros(30, dtype=np.int64)
    p = np.tile([0.2, 0.8], (30, 1))
    assert not len(suspicious_labels(p, labels))


def test_more_certify_labels_promise_no_less() -> None:
    scores = RNG.random(400)
    correct = RNG.random(400) > 0.08 * scores**4
    rng = np.random.default_rng(1)
    sizes = (50, 400, 2000)
    outlooks = forecast(
        scores, correct, n_pool=4000, sizes=sizes, max_error=0.02, delta=0.05, rng=rng
    )
    assert [o.n_certify for o in outlooks] == list(sizes)
    assert outlooks[0].refused == 1
    assert outlooks[0].middle <= outlooks[1].middle <= outlooks[2].middle
    assert all(o.low <= o.middle <= o.high for o in outlooks)
    assert outlooks[2].middle > 0.5


def test_nothing_is_forecast_from_a_handful() -> None:
    few, rng = np.ones(5), np.random.default_rng(2)
    assert not forecast(few, few > 0, n_pool=9, sizes=(5,), max_error=0.02, delta=0.05, rng=rng)


def test_what_is_never_accepted_is_not_in_the_forecast() -> None:
    scores, correct = np.linspace(0, 1, 400), np.ones(400, dtype=bool)
    scores[::2] = np.inf
    (outlook,) = forecast(
        scores,
        correct,
        n_pool=4000,
        sizes=(2000,),
        max_error=0.02,
        delta=0.05,
        rng=np.random.default_rng(3),
    )
    assert outlook.middle == pytest.approx(0.5, abs=0.06)
