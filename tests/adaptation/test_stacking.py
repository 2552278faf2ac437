from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax
from two_domains import two_datasets

from surelabel.adaptation.stacking import (
    MIXTURE,
    Candidate,
    choose,
    cross_fit,
    mean_loss,
    mixture_weights,
)
from surelabel.adaptation.ways import ALONE, DIRECT, OldPosterior, Together
from surelabel.selection.calibration import fit_temperature
from surelabel.types import FloatArray, IntArray

RNG = np.random.default_rng(3)
N, K = 300, 4
LABELS: IntArray = RNG.integers(0, K, N)
FOLDS = np.arange(N) % 5


def expert(strength: float, seed: int, about: FloatArray | None = None) -> FloatArray:
    """Log-probabilities that know the labels more or less well; ``about`` (N,) where."""
    noise = np.random.default_rng(seed).normal(0, 1, (N, K))
    known = strength * np.eye(K)[LABELS] * (np.ones(N) if about is None else about)[:, None]
    return np.asarray(log_softmax(noise + known, axis=1))


def candidate(name: str, logs: FloatArray) -> Candidate:
    return Candidate(name, logs, lambda rows: logs[rows])


def test_one_way_alone_gets_its_best_temperature() -> None:
    logs = 5 * expert(2.0, 0)
    (weight,) = mixture_weights([log_softmax(logs, axis=1)], LABELS)
    p = np.exp(log_softmax(logs, axis=1))
    assert weight == pytest.approx(1 / fit_temperature(p, LABELS), rel=0.05)


def test_a_way_that_knows_nothing_gets_no_weight() -> None:
    weights = mixture_weights([expert(3.0, 0), expert(0.0, 1)], LABELS)
    assert weights[0] > 0.8
    assert 0 <= weights[1] < 0.1


def test_ways_that_know_different_images_are_mixed() -> None:
    half = (np.arange(N) < N // 2).astype(float)
    ways = [candidate("a", expert(4.0, 0, half)), candidate("b", expert(4.0, 1, 1 - half))]
    choice = choose(ways, LABELS, FOLDS)
    assert choice.name == MIXTURE
    assert choice.losses[MIXTURE] < min(choice.losses["a"], choice.losses["b"])
    logs = choice.predict(np.arange(N))
    assert np.allclose(np.exp(logs).sum(axis=1), 1)
    assert mean_loss(logs, LABELS) < 0.9 * min(way.loss(LABELS) for way in ways)


def test_one_way_is_chosen_where_the_others_only_disturb() -> None:
    good = expert(4.0, 0)
    ways = [candidate("good", good), *(candidate(f"{i}", expert(0.0, i)) for i in range(1, 6))]
    choice = choose(ways, LABELS, FOLDS)
    assert choice.name in ("good", MIXTURE)
    assert choice.weights[0] > 5 * choice.weights[1:].max()


def test_held_out_predictions_do_not_know_their_own_labels() -> None:
    data, truth = two_datasets(200)
    rows = np.arange(60)
    folds = rows % 5
    other = truth[rows].copy()
    other[folds == 2] = (other[folds == 2] + 1) % 3
    way = Together(settings=Together().settings[:1])
    made = [cross_fit(way, lambda _: data, rows, y, folds) for y in (truth[rows], other)]
    same = made[0].held_out[folds == 2], made[1].held_out[folds == 2]
    assert np.allclose(*same, atol=0.05)  # a search begins where another ended
    assert not np.allclose(made[0].held_out, made[1].held_out, atol=0.3)


def test_the_setting_with_the_lowest_loss_is_kept() -> None:
    data, truth = two_datasets(200)
    rows, folds = np.arange(60), np.arange(60) % 5
    best = cross_fit(ALONE, lambda _: data, rows, truth[rows], folds)
    for setting in ALONE.settings:
        single = type(ALONE)(settings=(setting,))
        tried = cross_fit(single, lambda _: data, rows, truth[rows], folds)
        assert best.loss(truth[rows]) <= tried.loss(truth[rows]) + 0.01
    direct = cross_fit(DIRECT, lambda _: data, rows, truth[rows], folds)
    assert np.allclose(direct.held_out, direct.predict(rows))


def test_with_one_label_per_class_there_is_nothing_to_choose_by() -> None:
    data, truth = two_datasets(100)
    rows = np.array([int(np.flatnonzero(truth == k)[0]) for k in range(3)])
    folds = np.arange(3)
    ways = (DIRECT, ALONE, Together(), OldPosterior())
    made = [cross_fit(way, lambda _: data, rows, truth[rows], folds) for way in ways]
    choice = choose(made, truth[rows], folds)
    assert choice.by_rule
    assert choice.name == MIXTURE
    assert choice.weights.tolist() == [0, 0, 0.5, 0.5]
    others = choose(made[:2], truth[rows], folds)
    assert others.weights.tolist() == [0.5, 0.5]
    every = np.arange(60)
    assert not choose([candidate("a", expert(1.0, 0))], LABELS, FOLDS).by_rule
    assert np.allclose(np.exp(choice.predict(every)).sum(axis=1), 1)
