"""Before all features are computed: how long it takes, and how well the first labels are predicted.

Only the order of the work changes, never a feature: labeled images come first.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import torch
from threadpoolctl import threadpool_limits

from surelabel.engines.cross_fitting import assign_folds
from surelabel.engines.feature_space import Normalization, feature_space, mean_and_deviation
from surelabel.engines.inputs import Features
from surelabel.engines.linear_learner import best_prior
from surelabel.engines.linear_model import N_FOLDS
from surelabel.selftraining.events import FeaturesStarted, FirstLook, OnEvent
from surelabel.selftraining.round_inputs import Problem
from surelabel.types import Ids, IntArray, OnProgress, Progress, derive_seed

FEWEST_IMAGES = 600
"""With fewer to compute nothing is told: they are soon done."""
_FIRST = 200
"""Images before the look."""
_FEWEST_LABELS = 20
_SECONDS = 1.0
"""Of timing before the estimate is told. The first images do not count: they are slower."""
_FEWEST_TIMED = 16


def compute_features(
    features: Features, problem: Problem, seed: int, on_progress: OnProgress, on_event: OnEvent
) -> None:
    """Compute all features; where they are many, tell how long it takes, and look at the first."""
    order = _labeled_first(problem, seed)
    missing = features.missing(order)
    if len(missing) >= FEWEST_IMAGES:
        pace = timed_pace(features, missing, on_progress)
        n_bytes = len(missing) * features.store.row_bytes
        on_event(FeaturesStarted(len(missing), len(missing) * pace, n_bytes))
        pace = _seconds_per_image(features, order[:_FIRST], on_progress) or pace
        look = first_look(features, problem, order[:_FIRST], seed)
        if look is not None:
            seconds_left = pace * len(features.missing(features.catalog.ids))
            on_event(replace(look, seconds_left=seconds_left))
    features.compute(on_progress)


def timed_pace(features: Features, ids: Ids, on_progress: OnProgress) -> float:
    """Seconds per image, from the first of ``ids``, which all lack features; about a second."""
    at_once = features.n_at_once
    warm_up = at_once * _seconds_per_image(features, ids[:at_once], on_progress)
    n_timed = at_once * round(_SECONDS / warm_up)
    n_timed = min(max(n_timed, at_once, _FEWEST_TIMED), _FIRST)
    return _seconds_per_image(features, ids[at_once : at_once + n_timed], on_progress)


def first_look(features: Features, problem: Problem, ids: Ids, seed: int) -> FirstLook | None:
    """Cross-validate a head on the labels among ``ids``; None with few labels or other tails."""
    layers = features.backbone.layers
    known = np.isin(problem.human_ids, ids)
    labels, n_classes = problem.human_labels[known], len(problem.classes)
    units = features.catalog.units(problem.human_ids[known])
    if layers is None or len(labels) < _FEWEST_LABELS or len(np.unique(units)) < N_FOLDS:
        return None
    folds = torch.from_numpy(assign_folds(labels, units, N_FOLDS, seed))
    stored = features.pixels(features.rows(ids))
    mean, _ = mean_and_deviation(stored)
    normalization = Normalization(layers, max(layers.depths), mean, torch.ones_like(mean))
    with threadpool_limits(limits=1, user_api="blas"):
        space = feature_space(normalization, stored, len(ids))
        inputs = space(features.pixels(features.rows(problem.human_ids[known])))
        best = best_prior(space, inputs, torch.from_numpy(labels), folds, n_classes)
        guess = np.empty_like(labels)
        for k, head in enumerate(best.heads):
            guess[folds == k] = head.logits(inputs[folds == k]).argmax(1).numpy()
    return FirstLook(
        n_labels=len(labels),
        accuracy=float((guess == labels).mean()),
        commonest=float(np.bincount(labels).max() / len(labels)),
        n_classes=n_classes,
        n_told_apart=_n_told_apart(labels, guess, n_classes),
        seconds_left=0.0,
    )


def _labeled_first(problem: Problem, seed: int) -> Ids:
    """Labeled images in random order, then those of the pool in random order."""
    rng = np.random.default_rng(derive_seed(seed, "first look"))
    return np.concatenate([rng.permutation(ids) for ids in (problem.human_ids, problem.pool_ids)])


def _seconds_per_image(features: Features, ids: Ids, on_progress: OnProgress) -> float:
    """Compute what is missing of ``ids``; the time that one of them took, 0 if none was missing."""
    n, started = len(features.missing(ids)), 0.0

    def note(progress: Progress) -> None:
        nonlocal started
        started = started or time.monotonic()
        on_progress(progress)

    features.compute(note, ids)
    return (time.monotonic() - started) / n if n else 0.0


def _n_told_apart(labels: IntArray, guess: IntArray, n_classes: int) -> int:
    """Classes at least half of whose labels are found, and half of whose guesses are right."""
    of_labels, of_guesses, right = (
        np.bincount(of, minlength=n_classes) for of in (labels, guess, labels[guess == labels])
    )
    return int(((right > 0) & (2 * right >= of_labels) & (2 * right >= of_guesses)).sum())
