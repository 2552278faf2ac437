from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from surelabel.adaptation.comparison import clopper_pearson, compare, mcnemar


def outcomes(both: int, only: int, other: int, none: int) -> tuple[np.ndarray, np.ndarray]:
    first = np.repeat([True, True, False, False], [both, only, other, none])
    second = np.repeat([True, False, True, False], [both, only, other, none])
    return first, second


def test_counts_and_differences_are_paired() -> None:
    found = compare(*outcomes(50, 20, 4, 6))
    assert (found.n, found.n_right, found.n_other_right) == (80, 70, 54)
    assert (found.n_only, found.n_only_other) == (20, 4)
    assert found.difference[0] == pytest.approx(16 / 80)
    assert found.difference[1] <= found.difference[0] <= found.difference[2]
    assert found.is_better


def test_agreement_shows_nothing() -> None:
    found = compare(*outcomes(80, 0, 0, 20))
    assert found.share == (0.0, 1.0)
    assert found.p_value == 1.0
    assert found.difference == (0.0, 0.0, 0.0)
    assert not found.is_better


@pytest.mark.parametrize(("hits", "n"), [(0, 9), (9, 9), (3, 10), (41, 60)])
def test_the_interval_is_the_exact_one(hits: int, n: int) -> None:
    low, high = clopper_pearson(hits, n)
    exact = binomtest(hits, n).proportion_ci(0.95, method="exact")
    assert (low, high) == pytest.approx((exact.low, exact.high))


def test_the_test_is_the_binomial_one_and_agrees_with_the_interval() -> None:
    for only in range(13):
        for other in range(13):
            if only + other:
                exact = binomtest(only, only + other).pvalue
                assert mcnemar(only, other) == pytest.approx(exact)
                found = compare(*outcomes(5, only, other, 5))
                assert found.is_better == (only > other and found.p_value < 0.05)


def test_equal_classifiers_are_seldom_called_better() -> None:
    chance = sum(
        binom.pmf(only, 30, 0.5) for only in range(31) if clopper_pearson(only, 30)[0] > 0.5
    )
    assert chance <= 0.025
