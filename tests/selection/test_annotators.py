from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import cohen_kappa_score

from surelabel.selection.annotators import (
    agreement,
    class_alphas,
    class_counts,
    cohen_kappa,
    fleiss_kappa,
    krippendorff_alpha,
    least_error,
    weighted_consensus,
)
from surelabel.types import IntArray

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), example C: four people, twelve
# images, some missing. Nominal alpha is .743.
KRIPPENDORFF = (
    np.array(
        [
            [1, 2, 3, 3, 2, 1, 4, 1, 2, 0, 0, 0],
            [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, 0, 3],
            [0, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, 0],
            [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, 0],
        ]
    ).T
    - 1
)

# Fleiss' example as it is usually reprinted: ten subjects, fourteen raters, five classes.
FLEISS = np.array(
    [
        [0, 0, 0, 0, 14],
        [0, 2, 6, 4, 2],
        [0, 0, 3, 5, 6],
        [0, 3, 9, 2, 0],
        [2, 2, 8, 1, 1],
        [7, 7, 0, 0, 0],
        [3, 2, 6, 3, 0],
        [2, 5, 3, 2, 2],
        [6, 5, 2, 1, 0],
        [0, 2, 2, 3, 7],
    ]
)


def test_published_examples() -> None:
    several = KRIPPENDORFF[(KRIPPENDORFF >= 0).sum(axis=1) >= 2]
    assert krippendorff_alpha(class_counts(several, 5)) == pytest.approx(0.743, abs=5e-4)
    assert agreement(KRIPPENDORFF, 5).alpha == pytest.approx(0.743, abs=5e-4)
    assert fleiss_kappa(FLEISS) == pytest.approx(0.210, abs=5e-4)
    grants = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [20, 5, 10, 15], axis=0)
    assert cohen_kappa(grants[:, 0], grants[:, 1]) == pytest.approx(0.4)


@given(arrays(np.int64, (30, 2), elements=st.integers(0, 3)))
def test_cohen_is_scikit_learns(ratings: IntArray) -> None:
    if len(np.unique(ratings)) > 1:
        wanted = cohen_kappa_score(ratings[:, 0], ratings[:, 1])
        assert cohen_kappa(ratings[:, 0], ratings[:, 1]) == pytest.approx(wanted)


@given(arrays(np.int64, (12, 3), elements=st.integers(-1, 3)))
def test_the_order_of_people_and_images_does_not_matter(ratings: IntArray) -> None:
    one, other = agreement(ratings, 4), agreement(ratings[::-1, ::-1], 4)
    assert one.alpha == pytest.approx(other.alpha, nan_ok=True)
    assert one.fleiss == pytest.approx(other.fleiss, nan_ok=True)
    assert (one.n_images, one.n_disputed) == (other.n_images, other.n_disputed)


def test_perfect_agreement_is_one_and_nothing_is_not_defined() -> None:
    same = np.array([[0, 0], [1, 1], [2, 2], [0, -1]])
    found = agreement(same, 3)
    assert (found.alpha, found.fleiss, found.cohen) == (1, 1, 1)
    assert (found.n_images, found.n_people, found.wrong_at_least) == (3, 2, 0)
    np.testing.assert_array_equal(class_alphas(same, 3), [1, 1, 1])
    nobody = agreement(np.full((4, 2), -1), 3)
    assert (nobody.n_images, nobody.alpha, nobody.cohen, nobody.wrong_at_least) == (0, *[None] * 3)
    assert agreement(np.zeros((4, 2), np.int64), 3).alpha is None


def test_of_different_labels_one_can_be_right() -> None:
    assert least_error(np.array([[1, 1], [2, 0]])) == 1 / 4
    assert least_error(np.array([[2, 1, 1], [0, 0, 4]])) == 2 / 8


def test_a_class_that_people_confuse_has_a_lower_alpha() -> None:
    ratings = np.array([[0, 0]] * 10 + [[1, 2], [2, 1]] * 3 + [[1, 1], [2, 2]] * 3)
    alphas = class_alphas(ratings, 3)
    assert alphas[0] == 1
    assert max(alphas[1:]) < 0.5


def noisy_people(seed: int) -> tuple[IntArray, IntArray, np.ndarray]:
    """True classes, labels by three people of different skill, two each, and a fair model."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 5, 400)
    ratings = np.full((400, 3), -1)
    for who, skill in enumerate([0.95, 0.9, 0.7]):
        wrong = (truth + rng.integers(1, 5, 400)) % 5
        ratings[:, who] = np.where(rng.random(400) < skill, truth, wrong)
    ratings[np.arange(400), rng.integers(0, 3, 400)] = -1
    scores = rng.normal(size=(400, 5)) + 2 * np.eye(5)[truth]
    return truth, ratings, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


@pytest.mark.parametrize("seed", range(3))
def test_the_weighted_rule_is_better_than_majority_and_model(seed: int) -> None:
    truth, ratings, model = noisy_people(seed)
    consensus, sure = weighted_consensus(ratings, model)
    counts = class_counts(ratings, 5)
    by_majority = np.where((counts.max(axis=1) == 2), counts.argmax(axis=1), -1)
    assert (consensus != truth).mean() < (by_majority != truth).mean() / 2
    assert (consensus != truth).mean() < (model.argmax(axis=1) != truth).mean() / 2
    assert (sure[consensus == truth].mean()) > sure[consensus != truth].mean()
    unanimous = counts.max(axis=1) == 2
    agrees = consensus[unanimous] == counts.argmax(axis=1)[unanimous]
    assert agrees.mean() > 0.95
