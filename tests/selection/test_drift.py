from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ks_2samp

from surelabel.export.columns import drift_of
from surelabel.selection.drift import drift

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


def test_a_small_difference_is_not_clear_however_significant() -> None:
    tiny_shift = drift(RNG.random(60_000), RNG.random(60_000) + 0.02)
    assert tiny_shift.p_value < 1e-3
    assert not tiny_shift.is_clear


def test_few_images_show_nothing() -> None:
    assert not drift(np.zeros(500), np.ones(5)).is_clear
    assert drift(np.full(50, np.nan), np.ones(50)).gap == 0


def test_images_that_lie_nearer_are_not_reported_and_farther_ones_are() -> None:
    known = pd.DataFrame({"score": RNG.random(300), "distance": RNG.random(300)})
    nearer, farther = known.assign(distance=known.distance - 0.4), known.assign(distance=1.5)
    assert drift(known["distance"].to_numpy(), nearer["distance"].to_numpy()).is_clear
    assert not drift_of(known, nearer)
    assert list(drift_of(known, farther)) == ["distance"]
    assert list(drift_of(known, known.assign(score=0))) == ["score"]
