from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.selection.coverage import coverage_order
from surelabel.types import FloatArray


def unit_rows(seed: int, n: int, d: int = 4) -> FloatArray:
    rows = np.random.default_rng(seed).normal(size=(n, d))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(2, 25))
def test_each_choice_adds_the_most_coverage(seed: int, n: int) -> None:
    vectors, labeled = unit_rows(seed, n), unit_rows(seed + 1, 2)
    weights = np.random.default_rng(seed).random(n)
    similarity = (1 + vectors @ vectors.T) / 2
    covered = ((1 + labeled @ vectors.T) / 2).max(axis=0)
    for position in coverage_order(vectors, vectors, 6, weights=weights, labeled=labeled):
        gains = np.maximum(similarity - covered, 0) @ weights
        assert gains[position] >= gains.max() - 1e-5
        covered = np.maximum(covered, similarity[position])


def test_every_beginning_of_the_order_is_a_choice_of_its_own() -> None:
    vectors = unit_rows(0, 40)
    order = coverage_order(vectors, vectors, 40)
    assert sorted(order) == list(range(40))
    assert coverage_order(vectors, vectors, 7).tolist() == order[:7].tolist()


def test_the_middle_of_each_group_comes_first_and_what_is_labeled_last() -> None:
    rng = np.random.default_rng(0)
    centers = np.eye(3)[[0] * 50 + [1] * 30 + [2] * 5]
    rows = centers + rng.normal(0, 0.05, centers.shape)
    vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    group = centers.argmax(1)
    assert group[coverage_order(vectors, vectors, 3)].tolist() == [0, 1, 2]
    first = coverage_order(vectors, vectors, 2, labeled=np.eye(3)[:1])
    assert group[first].tolist() == [1, 2]


def test_images_without_weight_are_not_worth_a_label() -> None:
    vectors = np.eye(4)
    weights = np.array([0.0, 1.0, 0.0, 2.0])
    assert coverage_order(vectors, vectors, 2, weights=weights).tolist() == [3, 1]
