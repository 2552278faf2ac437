"""Linear heads on features: nothing held out is known, what is chosen pays, files keep it all."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from surelabel.config.settings import Config
from surelabel.engines import linear_learner, linear_model
from surelabel.engines.inputs import Features
from surelabel.engines.linear_learner import LinearLearner
from surelabel.engines.linear_model import N_FOLDS, LinearEnsemble, load_linear
from surelabel.engines.storage import weights_path
from surelabel.models.backbones import Layers
from surelabel.selftraining.round_inputs import Problem, RoundInputs, round_inputs_from
from surelabel.types import Ids, IntArray

N, N_LABELED, N_CLASSES = 300, 60, 3
CONFIG = Config(net="lite0").in_effect(pretrained=True)


class InMemory:
    """Features of images that exist only as vectors, behind the interface of ``Features``."""

    def __init__(self, values: torch.Tensor, layers: Layers) -> None:
        self.values = values.half()
        self.layers, self.digest, self.lengths_matter = layers, "some weights", False
        ids = np.array([f"{i:04d}" for i in range(len(values))])
        digests = np.array([hashlib.sha256(i.encode()).hexdigest() for i in ids.tolist()])
        self.catalog = SimpleNamespace(
            ids=ids,
            digests=digests,
            rows=lambda some: np.array([int(i) for i in some.tolist()], dtype=np.int64),
            units=lambda some: np.array([int(i) for i in some.tolist()], dtype=np.int64),
        )

    def rows(self, ids: Ids) -> torch.Tensor:
        return torch.from_numpy(self.catalog.rows(ids))

    def pixels(self, rows: torch.Tensor) -> torch.Tensor:
        return self.values[rows]


def some_features(*informative: bool, seed: int = 0) -> tuple[Features, IntArray]:
    """A layer of 12 for each flag, the last layer of the net first; and the true classes."""
    generator = torch.Generator().manual_seed(seed)
    truth = torch.arange(N) % N_CLASSES
    centers = 3 * torch.randn(N_CLASSES, 12, generator=generator)
    layers = [
        torch.randn(N, 12, generator=generator) + (centers[truth] if tells else 0)
        for tells in informative
    ]
    sizes = Layers((12,) * len(layers), tuple(range(len(layers))))
    return cast(Features, InMemory(torch.cat(layers, dim=1), sizes)), truth.numpy()


def some_problem(features: Features, truth: IntArray, n: int = N_LABELED) -> Problem:
    ids = features.catalog.ids
    return Problem(
        classes=("a", "b", "c"),
        human_ids=ids[:n],
        human_labels=truth[:n].copy(),
        tune_ids=ids[:n],
        tune_labels=truth[:n].copy(),
        pool_ids=ids[n:],
        cross_fit=True,
        inputs="digest",
    )


def trained(
    features: Features, inputs: RoundInputs, folder: Path, **options: Any
) -> LinearEnsemble:
    folder.mkdir(exist_ok=True)
    return LinearLearner(CONFIG.replace(**options), features).train(inputs, folder)


def error(ensemble: LinearEnsemble, problem: Problem, truth: IntArray) -> float:
    guess = ensemble.predict(problem.pool_ids).guess
    return float((guess != truth[len(problem.human_ids) :]).mean())


def test_it_labels_the_pool_and_knows_how_well(tmp_path: Path) -> None:
    features, truth = some_features(True)
    problem = some_problem(features, truth)
    ensemble = trained(features, round_inputs_from(1, problem, None), tmp_path)
    held_out = ensemble.predict_held_out(problem)
    assert error(ensemble, problem, truth) < 0.1
    assert sorted(held_out.ids.tolist()) == sorted(problem.tune_ids.tolist())
    assert held_out.distance is not None
    assert (held_out.distance > 1e-4).all()


def test_layers_that_tell_the_classes_apart_are_used(tmp_path: Path) -> None:
    useless_end, truth = some_features(False, False, False, True)
    problem = some_problem(useless_end, truth)
    ensemble = trained(useless_end, round_inputs_from(1, problem, None), tmp_path / "a")
    assert ensemble.facts["layers"] == 4
    assert error(ensemble, problem, truth) < 0.25
    useless_start, truth = some_features(True, True, True, False)
    ensemble = trained(useless_start, round_inputs_from(1, problem, None), tmp_path / "b")
    assert ensemble.facts["layers"] == 3


def with_fixed_folds(monkeypatch: pytest.MonkeyPatch) -> IntArray:
    """Folds that do not depend on the labels, and nothing else to choose."""
    folds = np.arange(N_LABELED) % N_FOLDS
    for module in (linear_learner, linear_model):
        monkeypatch.setattr(module, "folds_of", lambda *_: folds)
    monkeypatch.setattr(linear_learner, "_PRECISIONS", (0.01,))
    return folds


def test_a_fold_s_head_does_not_know_its_labels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folds = with_fixed_folds(monkeypatch)
    features, truth = some_features(True)
    problem = some_problem(features, truth)
    wrong = problem.human_labels.copy()
    wrong[folds == 2] = (wrong[folds == 2] + 1) % N_CLASSES
    lied = replace(problem, human_labels=wrong)
    for number in (1, 2):
        heads = []
        for name, each in (("told", problem), ("lied", lied)):
            inputs = round_inputs_from(number, each, None)
            if number == 2:
                pool, labels = each.pool_ids[:90], truth[N_LABELED : N_LABELED + 90]
                inputs = RoundInputs(
                    2, each, pool, labels, np.ones(len(pool)), tmp_path / f"{name}-1"
                )
            options = {"roll_back": False, "neighbor_vote": False}
            folder = tmp_path / f"{name}-{number}"
            heads.append(trained(features, inputs, folder, **options).model.heads)
        told, lied_to = heads
        assert torch.equal(told[2].weights, lied_to[2].weights)
        assert not torch.equal(told[0].weights, lied_to[0].weights)


def test_a_round_that_learns_nonsense_is_taken_back(tmp_path: Path) -> None:
    features, truth = some_features(True)
    problem = some_problem(features, truth)
    first = trained(features, round_inputs_from(1, problem, None), tmp_path / "1")
    shuffled = np.random.default_rng(0).permutation(truth[N_LABELED:])
    inputs = RoundInputs(
        2, problem, problem.pool_ids, shuffled, np.ones(len(shuffled)), tmp_path / "1"
    )
    second = trained(features, inputs, tmp_path / "2")
    assert np.array_equal(
        first.predict(problem.pool_ids).guess, second.predict(problem.pool_ids).guess
    )


def test_files_predict_what_the_fitted_heads_predict(tmp_path: Path) -> None:
    features, truth = some_features(True, True)
    problem = some_problem(features, truth)
    fitted = trained(features, round_inputs_from(1, problem, None), tmp_path)
    loaded = load_linear(weights_path(tmp_path, 0), CONFIG, features)
    for one, other in (
        (fitted.predict(problem.pool_ids), loaded.predict(problem.pool_ids)),
        (fitted.predict_held_out(problem), loaded.predict_held_out(problem)),
    ):
        assert np.array_equal(one.probabilities, other.probabilities)
        assert np.array_equal(one.expected_entropy, other.expected_entropy)


def test_samples_disagree_and_the_mode_alone_does_not(tmp_path: Path) -> None:
    features, truth = some_features(True)
    problem = some_problem(features, truth)
    inputs = round_inputs_from(1, problem, None)
    sampled = trained(features, inputs, tmp_path / "a", neighbor_vote=False)
    alone = trained(features, inputs, tmp_path / "b", neighbor_vote=False, mc_samples=1)
    for ensemble, disagree in ((sampled, True), (alone, False)):
        p = ensemble.predict(problem.pool_ids)
        entropy = -(p.probabilities * np.log(np.maximum(p.probabilities, 1e-12))).sum(1)
        assert bool((entropy - p.expected_entropy > 1e-6).any()) is disagree


def test_a_class_with_one_label_is_learned(tmp_path: Path) -> None:
    features, truth = some_features(True)
    problem = some_problem(features, truth)
    rare = np.flatnonzero(problem.human_labels == 2)[1:]
    kept = np.delete(np.arange(N_LABELED), rare)
    few = replace(
        problem,
        human_ids=problem.human_ids[kept],
        human_labels=problem.human_labels[kept],
        tune_ids=problem.tune_ids[kept],
        tune_labels=problem.tune_labels[kept],
    )
    ensemble = trained(features, round_inputs_from(1, few, None), tmp_path)
    guess = ensemble.predict(few.pool_ids).guess
    assert (guess == 2).sum() > 0.5 * (truth[N_LABELED:] == 2).sum()
