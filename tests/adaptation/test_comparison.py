from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom

from surelabel.adaptation.comparison import compare


def outcomes(both: int, only: int, other: int, none: int) -> tuple[np.ndarray, np.ndarray]:
    first = np.repeat([True, True, False, False], [both, only, other, none])
    second = np.repeat([True, False, True, False], [both, only, other, none])
    return first, second


def test_counts_and_differences_are_paired() -> None:
    comparison = compare(*outcomes(50, 20, 4, 6))
    assert (comparison.n, comparison.n_right, comparison.n_other_right) == (80, 70, 54)
    assert (comparison.n_only, comparison.n_only_other) == (20, 4)
    assert comparison.difference[0] == pytest.approx(16 / 80)
    assert comparison.difference[1] <= comparison.difference[0] <= comparison.difference[2]
    assert comparison.is_better


def test_agreement_shows_nothing() -> None:
    comparison = compare(*outcomes(80, 0, 0, 20))
    assert comparison.share == (0.0, 1.0)
    assert comparison.p_value == 1.0
    assert comparison.difference == (0.0, 0.0, 0.0)
    assert not comparison.is_better


@pytest.mark.parametrize(("hits", "n"), [(0, 9), (9, 9), (3, 10), (41, 60)])
def test_the_interval_is_that_of_clopper_and_pearson(hits: int, n: int) -> None:
    """Its ends are quantiles of beta distributions."""
    low = beta.ppf(0.025, hits, n - hits + 1) if hits else 0.0
    high = beta.ppf(0.975, hits + 1, n - hits) if hits < n else 1.0
    assert compare(*outcomes(5, hits, n - hits, 5)).share == pytest.approx((low, high))


def test_the_test_is_that_of_mcnemar_and_agrees_with_the_interval() -> None:
    for only in range(13):
        for other in range(13):
            if only + other:
                comparison = compare(*outcomes(5, only, other, 5))
                tail = binom.cdf(min(only, other), only + other, 0.5)
                assert comparison.p_value == pytest.approx(min(1.0, 2 * tail))
                assert comparison.is_better == (only > other and comparison.p_value < 0.05)


def test_equal_classifiers_are_seldom_called_better() -> None:
    chance = sum(
        binom.pmf(only, 30, 0.5)
        for only in range(31)
        if compare(*outcomes(0, only, 30 - only, 0)).is_better
    )
    assert chance <= 0.025
