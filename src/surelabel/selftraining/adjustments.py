"""What is done to a round's predictions before they are judged: outliers, neighbors, scaling."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from surelabel.config.settings import Config
from surelabel.selection.neighbor_vote import Adjustment, adjust, fit_adjustment
from surelabel.selection.out_of_distribution import (
    NO_OUTLIERS,
    OutlierThreshold,
    is_outlier,
    outlier_threshold,
)
from surelabel.selftraining.learner import Learner, RoundInputs
from surelabel.types import Ids, IntArray, OnProgress, Prediction, derive_seed

_LOOKS = 3
"""How often the outliers found so far help to find others. The third finds few new ones."""
_MOST = 2000
"""As many of them are remembered: a distance costs as much as there are."""


def detect_outliers(
    said: Prediction,
    guessed: Prediction,
    round_inputs: RoundInputs,
    learner: Learner,
    work_folder: Path,
    on_progress: OnProgress,
) -> tuple[Prediction, Prediction, OutlierThreshold]:
    """Predictions of held-out and pool images with their last distances, and the fence."""
    if said.distance is None or guessed.distance is None:
        return said, guessed, NO_OUTLIERS
    near, far = said.distance, guessed.distance
    n_pool = len(round_inputs.problem.pool_ids)
    fence = first = outlier_threshold(near, far, n_pool)
    for _ in range(_LOOKS):
        if not fence.found:
            break
        outliers = _at_most(guessed.ids[is_outlier(far, fence.at)])
        again = learner.look_again(round_inputs, outliers, guessed.ids, work_folder, on_progress)
        if again is None:
            break
        near, far = again
        fence = outlier_threshold(near, far, n_pool)
    settled = OutlierThreshold(fence.at, found=first.found)
    return replace(said, distance=near), replace(guessed, distance=far), settled


def _at_most(ids: Ids) -> Ids:
    """All, or ``_MOST`` of them evenly spread."""
    places = np.linspace(0, len(ids) - 1, min(len(ids), _MOST)).astype(int)
    spread: Ids = ids[places]
    return spread


NO_ADJUSTMENT = Adjustment(0.0)
MOST = 60_000
"""Of the pool at most so many are asked, so that time is linear in its size."""


def adjust_predictions(
    said: Prediction,
    truth: IntArray,
    guessed: Prediction,
    round_inputs: RoundInputs,
    learner: Learner,
    config: Config,
    work_folder: Path,
    on_progress: OnProgress,
) -> tuple[Prediction, Prediction, Adjustment]:
    """Predictions of held-out and pool images with their say, and how much it counts.

    Those asked are the pool, by its guesses, and the labels of people. It does not count where
    held-out labels (N,) tell against it. With cross-fitting nobody is asked: nets that learned
    from a held-out image would be heard through those that look like it.
    """
    problem = round_inputs.problem
    if problem.cross_fit or not len(guessed) or not len(said):
        return said, guessed, NO_ADJUSTMENT
    people = np.eye(len(problem.classes))[problem.human_labels]
    drawn = np.random.default_rng(derive_seed(config.seed, "neighbors")).permutation(len(guessed))
    asked = np.sort(drawn[:MOST])
    alike = learner.neighbor_vote(
        np.concatenate([guessed.ids[asked], problem.human_ids]),
        np.concatenate([guessed.probabilities[asked], people]),
    )
    if alike is None:
        return said, guessed, NO_ADJUSTMENT
    by_held_out, units = alike.say(said.ids, on_progress), alike.units(said.ids)
    counts = np.bincount(guessed.guess, minlength=len(problem.classes))
    mix = counts / len(guessed) if config.matrix_scaling else None
    said, adjustment = fit_adjustment(said, by_held_out, truth, units, mix)
    if adjustment.is_identity:
        return said, guessed, adjustment
    by_pool = alike.say(guessed.ids, on_progress)
    alike.keep(work_folder, adjustment)
    return said, adjust(guessed, by_pool, adjustment), adjustment
