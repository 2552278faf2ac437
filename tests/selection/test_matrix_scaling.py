from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from surelabel.selection.matrix_scaling import MatrixScaling, fit_matrix_scaling
from surelabel.types import FloatArray, IntArray

N, K = 1500, 3


def world(seed: int, odd_share: float) -> tuple[FloatArray, FloatArray, IntArray]:
    """Nets that take the odd images of class 0 for class 1; neighbors that are in two minds."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, N)
    own, alike = np.full((N, K), 0.02), np.full((N, K), 0.001)
    guess = np.where(rng.random(N) < 0.95, labels, rng.integers(0, K, N))
    own[np.arange(N), guess], alike[np.arange(N), guess] = 0.96, 0.998
    odd = (labels == 0) & (rng.random(N) < odd_share)
    own[odd], alike[odd] = [0.02, 0.96, 0.02], [0.4, 0.599, 0.001]
    return own, alike, labels


def alone(n: int = N) -> IntArray:
    return np.arange(n)


def found_by(
    own: FloatArray, alike: FloatArray, labels: IntArray, units: IntArray | None = None
) -> tuple[MatrixScaling, FloatArray] | None:
    """With a pool of the same mix of classes."""
    units = alone(len(own)) if units is None else units
    return fit_matrix_scaling(own, own, alike, labels, units, guessed(own))


def guessed(own: FloatArray) -> FloatArray:
    """(K,) how often each class is guessed, as a share."""
    shares: FloatArray = np.bincount(own.argmax(axis=1), minlength=own.shape[1]) / len(own)
    return shares


def test_what_is_taken_for_another_class_is_put_right() -> None:
    own, alike, labels = world(0, odd_share=0.3)
    found = found_by(own, alike, labels)
    assert found is not None
    correct, out_of_fold = found
    before = (own.argmax(1) != labels).sum()
    assert (out_of_fold.argmax(1) != labels).sum() < before / 2
    new_own, new_alike, new_labels = world(1, odd_share=0.3)
    wrong = (correct(new_own, new_own, new_alike).argmax(1) != new_labels).sum()
    assert wrong < (new_own.argmax(1) != new_labels).sum() / 2


def test_where_there_is_nothing_to_put_right_it_is_seldom_tried() -> None:
    tried = 0
    for seed in range(30):
        own, alike, labels = world(seed, odd_share=0.0)
        tried += found_by(own, alike, labels) is not None
    assert tried <= 5


def test_no_correction_is_the_identity() -> None:
    own, alike, _ = world(0, odd_share=0.3)
    nothing = MatrixScaling(1.0, np.zeros((2 * K + 1, K)))
    assert nothing(own, own, alike) == pytest.approx(own)


def test_an_offset_multiplies_the_odds_of_its_class() -> None:
    matrix = np.zeros((5, 2))
    matrix[0, 0] = np.log(3)
    half = np.full((1, 2), 0.5)
    assert MatrixScaling(1.0, matrix)(half, half, half) == pytest.approx(np.array([[0.75, 0.25]]))


def test_few_images_or_groups_correct_nothing() -> None:
    own, alike, labels = world(0, odd_share=0.3)
    assert found_by(own[:99], alike[:99], labels[:99]) is None
    assert found_by(own, alike, labels, alone() % 99) is None


def test_a_group_is_corrected_without_the_labels_of_all_its_images() -> None:
    own, alike, labels = world(0, odd_share=0.3)
    units = alone() // 3
    other = labels.copy()
    other[:3] = (other[:3] + 1) % K
    one = found_by(own, alike, labels, units)
    two = found_by(own, alike, other, units)
    assert one is not None
    assert two is not None
    assert one[1][:3] == pytest.approx(two[1][:3])
    assert one[0].scale != two[0].scale


def test_nothing_is_corrected_where_held_out_labels_lack_a_class() -> None:
    """They would take its images for others: all that is predicted for it is wrong among them."""
    own, alike, labels = world(0, odd_share=0.3)
    wide = [np.concatenate([p * 0.999, np.full((N, 1), 0.001)], axis=1) for p in (own, alike)]
    assert found_by(wide[0], wide[1], labels) is None
    labels[:9] = K
    assert found_by(wide[0], wide[1], labels) is None
    labels[:200] = K
    assert found_by(wide[0], wide[1], labels) is not None


@pytest.mark.parametrize(
    ("times", "speaks"), [(1.9, True), (2.1, False), (0.6, True), (0.4, False)]
)
def test_nothing_is_corrected_where_the_pool_has_another_mix(times: float, speaks: bool) -> None:
    """Of class 0 the nets find two thirds, among held-out images and in the pool alike."""
    own, alike, labels = world(0, odd_share=0.3)
    first = guessed(own)[0] * times
    rest = (1 - first) * guessed(own)[1:] / guessed(own)[1:].sum()
    found = fit_matrix_scaling(own, own, alike, labels, alone(), np.array([first, *rest]))
    assert (found is not None) == speaks


def test_a_class_that_nets_hardly_find_is_corrected() -> None:
    """In the pool they find as little of it: that is no other mix."""
    own, alike, labels = world(0, odd_share=0.8)
    assert guessed(own)[0] < (labels == 0).mean() / 2
    assert found_by(own, alike, labels) is not None


def test_threads_make_no_difference() -> None:
    """Bit for bit: what is resumed with other threads has to end with the same labels."""
    own, alike, labels = world(0, odd_share=0.3)
    found = []
    for n in (1, 2):
        with threadpool_limits(n):
            found.append(found_by(own, alike, labels))
    assert found[0] is not None
    assert found[1] is not None
    assert np.array_equal(found[0][0].matrix, found[1][0].matrix)
    assert np.array_equal(found[0][1], found[1][1])
