from __future__ import annotations

import numpy as np
import pytest

from surelabel.inference.measures import all_measures, entropy
from surelabel.selection.calibration import temper
from surelabel.selection.neighbor_vote import Adjustment, adjust, choose_power, fit_adjustment
from surelabel.types import FloatArray, IntArray, Prediction

N, K = 400, 4
ALONE = np.arange(N)
"""Every image is a group of its own."""
EVEN = np.full(K, 1 / K)
USUAL = 0.25
"""Their power where held-out labels tell neither for nor against it."""


def world(seed: int = 0, own_right: float = 0.85) -> tuple[FloatArray, FloatArray, IntArray]:
    """Labels, guesses that are sure of themselves, and neighbors that are right on their own."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, N)
    return vote(rng, labels, own_right, 0.95), vote(rng, labels, 0.9, 0.7), labels


def vote(rng: np.random.Generator, labels: IntArray, right: float, sure: float) -> FloatArray:
    guess = np.where(rng.random(N) < right, labels, (labels + 1) % K)
    rest = (1 - sure) / (K - 1)
    return np.where(np.arange(K) == guess[:, None], sure, rest)


def sampled(*samples: FloatArray) -> Prediction:
    """The mean of what sampled nets predicted, each (N, K)."""
    p = np.mean(samples, axis=0)
    return Prediction(
        np.array([f"image{i}" for i in range(len(p))]),
        p,
        expected_entropy=np.mean([entropy(s) for s in samples], axis=0),
        expected_square=np.mean([(s**2).sum(axis=1) for s in samples], axis=0),
        aleatoric_variance=np.full(len(p), 0.25),
    )


def adjusted(own: FloatArray, alike: FloatArray, power: float) -> FloatArray:
    return adjust(sampled(own), alike, Adjustment(power)).probabilities


def test_opposite_votes_of_equal_strength_cancel() -> None:
    own, alike = np.array([[0.9, 0.1]]), np.array([[0.1, 0.9]])
    assert adjusted(own, alike, 1.0) == pytest.approx(np.array([[0.5, 0.5]]))


def test_a_product_in_closed_form() -> None:
    found = adjusted(np.array([[0.8, 0.2]]), np.array([[0.25, 0.75]]), 0.5)
    a, b = 0.8 * 0.25**0.5, 0.2 * 0.75**0.5
    assert found == pytest.approx(np.array([[a / (a + b), b / (a + b)]]))


def test_a_power_of_0_and_uniform_votes_change_nothing() -> None:
    own, alike, _ = world()
    assert np.array_equal(adjusted(own, alike, 0.0), own)
    before, after = (
        sampled(own, own[::-1]),
        adjust(sampled(own, own[::-1]), np.full((N, K), 1 / K), Adjustment(0.7)),
    )
    for name, values in all_measures(before).items():
        assert all_measures(after)[name] == pytest.approx(values, abs=1e-12), name


def test_unanimous_neighbors_cannot_rule_a_class_out() -> None:
    own, alike = np.array([[0.999, 0.001]]), np.array([[0.0, 1.0]])
    assert adjusted(own, alike, 0.5)[0, 0] > 0.9


def test_disagreement_keeps_its_share_of_the_uncertainty_and_noise_stays() -> None:
    rng = np.random.default_rng(3)
    before = sampled(*rng.dirichlet(np.ones(K), (5, N)))
    after = adjust(before, rng.dirichlet(np.ones(K), N), Adjustment(0.5))
    old, new = ({str(k): v for k, v in all_measures(p).items()} for p in (before, after))
    share = old["mutual_information"] / old["predictive_entropy"]
    assert new["mutual_information"] / new["predictive_entropy"] == pytest.approx(share)
    share = old["variance_trace"] / old["total_trace"]
    assert new["variance_trace"] / new["total_trace"] == pytest.approx(share)
    assert np.array_equal(new["aleatoric_variance"], old["aleatoric_variance"])


def test_a_guess_without_any_doubt_breaks_nothing() -> None:
    certain = sampled(np.array([[1.0, 0.0]]))
    after = adjust(certain, np.array([[0.0, 1.0]]), Adjustment(0.75))
    assert after.guess.tolist() == [0]
    assert all(np.isfinite(values).all() for values in all_measures(after).values())


def test_neighbors_that_are_right_where_the_net_is_wrong_get_a_higher_power() -> None:
    own, alike, labels = world()
    power = choose_power(own, alike, labels, ALONE)
    assert power > USUAL
    wrong = (own.argmax(1) != labels).mean()
    assert (adjusted(own, alike, power).argmax(1) != labels).mean() <= wrong


def test_uninformative_neighbors_rarely_get_a_higher_power() -> None:
    reports = 0
    for seed in range(60):
        own, _, labels = world(seed)
        alike = np.random.default_rng(1000 + seed).dirichlet(np.full(K, 2.0), N)
        reports += choose_power(own, alike, labels, ALONE) > USUAL
    assert reports <= 6


def test_misleading_neighbors_get_no_vote() -> None:
    own, _, labels = world()
    assert choose_power(own, vote(np.random.default_rng(1), labels, 0.1, 0.7), labels, ALONE) == 0


def test_labels_without_any_mistake_tell_nothing() -> None:
    own, alike, labels = world(own_right=1.0)
    assert choose_power(own, own, labels, ALONE) == USUAL
    assert choose_power(own[:50], alike[:50] * 0 + 1 / K, labels[:50], ALONE[:50]) == USUAL


def test_mere_doubt_is_no_gain() -> None:
    """Overconfident guesses fit better when they are softened, but not because others are asked."""
    own, _, labels = world(own_right=0.7)
    assert choose_power(temper(own, 0.3), temper(own, 2.0), labels, ALONE) == USUAL


def test_few_held_out_labels_decide_nothing() -> None:
    own, alike, labels = world()
    assert choose_power(own[:39], alike[:39], labels[:39], ALONE[:39]) == USUAL


def test_two_groups_are_too_few_to_tell_from_though_they_have_many_images() -> None:
    own, alike, labels = world()
    assert choose_power(own, alike, labels, ALONE) > USUAL
    assert choose_power(own, alike, labels, ALONE % 2) == USUAL


def test_a_gain_in_one_large_group_is_one_gain() -> None:
    """Neighbors help in 200 images of one scene, and nowhere else."""
    own, alike, labels = world()
    alike = np.where(ALONE[:, None] < 200, alike, 1 / K)
    assert choose_power(own, alike, labels, ALONE) > USUAL
    assert choose_power(own, alike, labels, np.maximum(ALONE, 199)) == USUAL


def test_held_out_images_are_told_as_others_will_be() -> None:
    own, alike, labels = world()
    predicted, adjustment = fit_adjustment(sampled(own), alike, labels, ALONE, None)
    assert adjustment == Adjustment(choose_power(own, alike, labels, ALONE))
    assert np.array_equal(predicted.probabilities, adjusted(own, alike, adjustment.power))


def test_matrix_scaling_works_without_a_vote() -> None:
    """What is wrongly guessed is of the class before the guess."""
    own, _, labels = world()
    alike = vote(np.random.default_rng(1), labels, 0.1, 0.7)
    predicted, adjustment = fit_adjustment(sampled(own), alike, labels, ALONE, EVEN)
    assert adjustment.power == 0
    assert adjustment.scaling is not None
    assert not adjustment.is_identity
    at = np.arange(N)
    assert np.log(predicted.probabilities[at, labels]).mean() > np.log(own[at, labels]).mean()
    plain, silence = fit_adjustment(sampled(own), alike, labels, ALONE, None)
    assert silence.is_identity
    assert np.array_equal(plain.probabilities, own)


def test_held_out_images_are_corrected_without_their_own_labels() -> None:
    """Many images of class 0 are taken for class 1, and their neighbors are in two minds."""
    own, alike, labels = world(5, own_right=0.97)
    odd = (labels == 0) & (np.arange(N) % 2 == 0)
    own[odd], alike[odd] = [0.09, 0.89, 0.01, 0.01], [0.3, 0.699, 0.001, 0.0]
    predicted, adjustment = fit_adjustment(sampled(own), alike, labels, ALONE, EVEN)
    assert adjustment.scaling is not None
    plain = adjusted(own, alike, adjustment.power)
    assert predicted.probabilities[odd, 0].mean() > 2 * plain[odd, 0].mean()
    first = int(np.flatnonzero(odd)[0])
    other = labels.copy()
    other[first] = 1
    again, _ = fit_adjustment(sampled(own), alike, other, ALONE, EVEN)
    assert again.probabilities[first] == pytest.approx(predicted.probabilities[first])
    after = adjust(sampled(own), alike, adjustment)
    assert np.abs(after.probabilities - predicted.probabilities).mean() < 0.02
