from __future__ import annotations

import math

import numpy as np
import pytest

from surelabel_studies.mnist.results import figures_of, kappa_curve, one_minus_kappa, points_for


def test_kappa_of_a_small_table() -> None:
    """Two classes, four of each; one of each wrong: agreement .75, by luck .5, kappa .5."""
    truth = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    label = np.array([0, 0, 0, 1, 1, 1, 1, 0])
    assert one_minus_kappa(truth, label) == pytest.approx(0.5)
    figures = figures_of(truth, label, left=2, rounds=3)
    assert (figures.precision, figures.recall, figures.f1) == pytest.approx((0.25,) * 3)
    assert (figures.left, figures.rounds) == (2, 3)


def test_averages_are_over_classes_not_images() -> None:
    truth, label = np.array([0, 0, 0, 1]), np.array([0, 0, 0, 0])
    figures = figures_of(truth, label, left=0, rounds=1)
    assert figures.recall == pytest.approx(0.5)
    assert figures.precision == pytest.approx(1 - (0.75 + 0) / 2)


def test_all_right_is_zero_and_nothing_labeled_is_no_number() -> None:
    one_class = np.zeros(3, dtype=np.int64)
    assert one_minus_kappa(one_class, one_class) == 0
    none = np.empty(0, dtype=np.int64)
    figures = figures_of(none, none, left=7, rounds=1)
    assert math.isnan(figures.kappa)
    assert math.isnan(figures.precision)
    assert figures.left == 7


def test_the_curve_labels_the_surest_first() -> None:
    truth = np.array([0, 1, 0, 1])
    guess = np.array([0, 1, 0, 0])
    score = np.array([0.3, 0.1, 0.2, 0.9])
    assert kappa_curve(truth, guess, score, [1, 0]) == pytest.approx([0, 0.5])
    assert math.isnan(kappa_curve(truth, guess, score, [4])[0])


def test_points_are_the_papers_in_proportion() -> None:
    assert points_for(54_500) == [17_828, 4092, 762, 0]
    assert points_for(5450) == [1783, 409, 76, 0]
