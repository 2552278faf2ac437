"""What is done to a round's predictions before they are judged: outliers, neighbors, scaling."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from surelabel.config.settings import Config
from surelabel.selection.neighbor_vote import Voice, heed, heed_held_out
from surelabel.selection.out_of_distribution import NO_FENCE, Fence, is_stranger, stranger_fence
from surelabel.selftraining.learner import Learner, Lesson
from surelabel.types import Ids, IntArray, OnProgress, Prediction, derive_seed

_LOOKS = 3
"""How often the strangers found so far help to find others. The third finds few new ones."""
_MOST = 2000
"""As many of them are remembered: a distance costs as much as there are."""


def tell_strangers(
    said: Prediction,
    guessed: Prediction,
    lesson: Lesson,
    learner: Learner,
    workplace: Path,
    on_progress: OnProgress,
) -> tuple[Prediction, Prediction, Fence]:
    """Predictions of held-out and pool images with their last distances, and the fence."""
    if said.distance is None or guessed.distance is None:
        return said, guessed, NO_FENCE
    near, far = said.distance, guessed.distance
    n_pool = len(lesson.problem.pool_ids)
    fence = first = stranger_fence(near, far, n_pool)
    for _ in range(_LOOKS):
        if not fence.found:
            break
        strangers = _at_most(guessed.ids[is_stranger(far, fence.at)])
        again = learner.look_again(lesson, strangers, guessed.ids, workplace, on_progress)
        if again is None:
            break
        near, far = again
        fence = stranger_fence(near, far, n_pool)
    settled = Fence(fence.at, found=first.found)
    return replace(said, distance=near), replace(guessed, distance=far), settled


def _at_most(ids: Ids) -> Ids:
    """All, or ``_MOST`` of them evenly spread."""
    places = np.linspace(0, len(ids) - 1, min(len(ids), _MOST)).astype(int)
    spread: Ids = ids[places]
    return spread


SILENCE = Voice(0.0)
MOST = 60_000
"""Of the pool at most so many are asked, so that time is linear in its size."""


def ask_look_alikes(
    said: Prediction,
    truth: IntArray,
    guessed: Prediction,
    lesson: Lesson,
    learner: Learner,
    config: Config,
    workplace: Path,
    on_progress: OnProgress,
) -> tuple[Prediction, Prediction, Voice]:
    """Predictions of held-out and pool images with their say, and how much it counts.

    Those asked are the pool, by its guesses, and the labels of people. It does not count where
    held-out labels (N,) tell against it. With cross-fitting nobody is asked: nets that learnt
    from a held-out image would be heard through those that look like it.
    """
    problem = lesson.problem
    if problem.cross_fit or not len(guessed) or not len(said):
        return said, guessed, SILENCE
    people = np.eye(len(problem.classes))[problem.human_labels]
    drawn = np.random.default_rng(derive_seed(config.seed, "look-alikes")).permutation(len(guessed))
    asked = np.sort(drawn[:MOST])
    alike = learner.look_alikes(
        np.concatenate([guessed.ids[asked], problem.human_ids]),
        np.concatenate([guessed.probabilities[asked], people]),
    )
    if alike is None:
        return said, guessed, SILENCE
    by_held_out, units = alike.say(said.ids, on_progress), alike.units(said.ids)
    counts = np.bincount(guessed.guess, minlength=len(problem.classes))
    mix = counts / len(guessed) if config.correction else None
    said, voice = heed_held_out(said, by_held_out, truth, units, mix)
    if voice.is_silent:
        return said, guessed, voice
    by_pool = alike.say(guessed.ids, on_progress)
    alike.keep(workplace, voice)
    return said, heed(guessed, by_pool, voice), voice
