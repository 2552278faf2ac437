from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.inference.selective_risk import augrc, aurc, risk_coverage
from surelabel.types import BoolArray, FloatArray


def test_a_hand_made_example() -> None:
    score, wrong = [0.4, 0.1, 0.3, 0.2], [True, False, False, True]  # in order: right, wrong, ...
    coverage, risk = risk_coverage(score, wrong)
    assert coverage.tolist() == [0.25, 0.5, 0.75, 1.0]
    assert risk == pytest.approx([0, 1 / 2, 1 / 3, 1 / 2])
    assert aurc(score, wrong) == pytest.approx((1 / 2 + 1 / 3 + 1 / 2) / 4)
    # W = 0, 0, 1, 1, 2 from k = 0: trapezoids 0, 1/2, 1, 3/2, each 1 / 4 wide and over N = 4.
    assert augrc(score, wrong) == pytest.approx(3 / 16)


@pytest.mark.parametrize(("n", "n_wrong"), [(10, 0), (10, 3), (1000, 37), (7, 7)])
def test_a_perfect_score(n: int, n_wrong: int) -> None:
    wrong = np.arange(n) >= n - n_wrong
    expected = sum(j / (n - n_wrong + j) for j in range(1, n_wrong + 1)) / n
    assert aurc(np.arange(n), wrong) == pytest.approx(expected)
    assert augrc(np.arange(n), wrong) == pytest.approx((n_wrong / n) ** 2 / 2)


def test_the_best_area_nears_its_limit() -> None:
    n, e = 100_000, 0.2
    wrong = np.arange(n) >= n * (1 - e)
    assert aurc(np.arange(n), wrong) == pytest.approx(e + (1 - e) * math.log(1 - e), abs=1e-5)


def test_the_worst_score_ranks_every_wrong_guess_first() -> None:
    n, n_wrong = 10, 3
    wrong = np.arange(n) < n_wrong
    e = n_wrong / n
    assert augrc(np.arange(n), wrong) == pytest.approx(e * (1 - e) + e**2 / 2)  # AUROC is 0


@given(st.lists(st.booleans(), min_size=1, max_size=50))
def test_a_constant_score_is_chance(wrong: list[bool]) -> None:
    score, rate = np.full(len(wrong), 0.3), np.mean(wrong)
    assert aurc(score, wrong) == pytest.approx(rate)
    assert augrc(score, wrong) == pytest.approx(rate / 2)
    assert risk_coverage(score, wrong)[1] == pytest.approx(np.full(len(wrong), rate))


scored = st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=6)


@given(scored)
def test_ties_are_the_mean_over_every_order(items: list[tuple[int, bool]]) -> None:
    score = np.array([s for s, _ in items], dtype=np.float64)
    wrong = np.array([w for _, w in items])
    areas = [_untied(score, wrong, list(order)) for order in permutations(range(len(items)))]
    assert (aurc(score, wrong), augrc(score, wrong)) == pytest.approx(np.mean(areas, axis=0))


def _untied(score: FloatArray, wrong: BoolArray, order: list[int]) -> tuple[float, float]:
    """Both areas the slow and obvious way, tied items in the given order."""
    first = sorted(order, key=lambda i: score[i])
    n, n_wrong, risk, joint = len(first), 0, 0.0, 0.0
    for k, item in enumerate(first, start=1):
        before, n_wrong = n_wrong, n_wrong + int(wrong[item])
        risk += n_wrong / k / n
        joint += (before + n_wrong) / 2 / n / n
    return risk, joint


@given(scored)
def test_augrc_follows_from_auroc_and_error_rate(items: list[tuple[int, bool]]) -> None:
    score, wrong = np.array([s for s, _ in items]), np.array([w for _, w in items])
    bad, good = score[wrong][:, None], score[~wrong][None]
    e = wrong.mean()
    misranked = ((bad < good) + (bad == good) / 2).mean() if 0 < e < 1 else 0.0
    assert augrc(score, wrong) == pytest.approx(misranked * e * (1 - e) + e**2 / 2)


def test_only_the_ranking_counts() -> None:
    rng = np.random.default_rng(0)
    score, wrong = rng.random(200).round(2), rng.random(200) < 0.3
    order = rng.permutation(200)
    assert aurc(np.exp(9 * score[order]), wrong[order]) == pytest.approx(aurc(score, wrong))
    assert augrc(np.exp(9 * score[order]), wrong[order]) == pytest.approx(augrc(score, wrong))
    assert aurc([-np.inf, 0.0, np.inf], [0, 0, 1]) == pytest.approx(1 / 9)


@pytest.mark.parametrize(
    ("score", "wrong", "says"),
    [
        ([], [], "N > 0"),
        ([0.1, 0.2], [True], "same shape"),
        ([[0.1]], [[True]], "same shape"),
        ([0.1, math.nan], [True, False], "not a number"),
        ([0.1, 0.2], [0.5, 1.0], "true or false"),
    ],
)
def test_what_cannot_be_ranked_is_refused(score: object, wrong: object, says: str) -> None:
    for area in (aurc, augrc):
        with pytest.raises(ValueError, match=says):
            area(score, wrong)  # type: ignore[arg-type]
