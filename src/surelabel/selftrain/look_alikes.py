"""Let images that look alike have a say in each other's labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from surelabel.accept import heed, heed_power
from surelabel.selftrain.learner import Learner, Lesson
from surelabel.types import IntArray, OnProgress, Prediction, derive_seed

MOST = 60_000
"""Of the pool at most so many are asked, so that time is linear in its size."""


def ask_look_alikes(
    said: Prediction,
    truth: IntArray,
    guessed: Prediction,
    lesson: Lesson,
    learner: Learner,
    seed: int,
    workplace: Path,
    on_progress: OnProgress,
) -> tuple[Prediction, Prediction, float]:
    """Predictions of held-out and pool images with their say, and how much it counts.

    Those asked are the pool, by its guesses, and the labels of people. It does not count where
    held-out labels (N,) fit no better with it. With cross-fitting nobody is asked: nets that learnt
    from a held-out image would be heard through those that look like it.
    """
    problem = lesson.problem
    if problem.cross_fit or not len(guessed) or not len(said):
        return said, guessed, 0.0
    people = np.eye(len(problem.classes))[problem.human_labels]
    drawn = np.random.default_rng(derive_seed(seed, "look-alikes")).permutation(len(guessed))
    asked = np.sort(drawn[:MOST])
    alike = learner.look_alikes(
        np.concatenate([guessed.ids[asked], problem.human_ids]),
        np.concatenate([guessed.probabilities[asked], people]),
    )
    if alike is None:
        return said, guessed, 0.0
    by_held_out = alike.say(said.ids, on_progress)
    power = heed_power(said.probabilities, by_held_out, truth, alike.units(said.ids))
    if not power:
        return said, guessed, 0.0
    by_pool = alike.say(guessed.ids, on_progress)
    alike.keep(workplace, power)
    return heed(said, by_held_out, power), heed(guessed, by_pool, power), power
