"""Let images that look alike have a say in each other's labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from surelabel.accept import Voice, heed, heed_held_out
from surelabel.config import Config
from surelabel.selftrain.learner import Learner, Lesson
from surelabel.types import IntArray, OnProgress, Prediction, derive_seed

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
