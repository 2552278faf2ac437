"""Ask the images that look alike what the next round should learn."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from surelabel.accept import N_ALIKE, heed, heed_power
from surelabel.selftrain.learner import Learner, Lesson
from surelabel.types import FloatArray, IntArray, OnProgress, Prediction


@dataclass(frozen=True)
class Asked:
    """Predictions of held-out and pool images in which look-alikes had a say, and how much."""

    said: Prediction
    guessed: Prediction
    power: float


def ask_look_alikes(
    said: Prediction,
    truth: IntArray,
    guessed: Prediction,
    lesson: Lesson,
    learner: Learner,
    on_progress: OnProgress,
) -> Asked | None:
    """None where held-out labels (N,) do not fit better so, or nobody knows what looks alike.

    Those asked are the pool, by its guesses, and the labels of people. With cross-fitting the nets
    must not learn of each other's labels, and look-alikes would tell.
    """
    problem = lesson.problem
    if problem.cross_fit or not len(guessed) or not len(said):
        return None
    among = np.concatenate([guessed.ids, problem.human_ids])
    asking = np.concatenate([said.ids, guessed.ids])
    near = learner.alike(asking, among, N_ALIKE, on_progress)
    if near is None:
        return None
    people = np.eye(len(problem.classes))[problem.human_labels]
    alike = _mean_of(np.concatenate([guessed.probabilities, people]), near)
    by_held_out, by_pool = alike[: len(said)], alike[len(said) :]
    power = heed_power(said.probabilities, by_held_out, truth)
    if not power:
        return None
    return Asked(
        replace(said, probabilities=heed(said.probabilities, by_held_out, power)),
        replace(guessed, probabilities=heed(guessed.probabilities, by_pool, power)),
        power,
    )


def _mean_of(probabilities: FloatArray, near: IntArray) -> FloatArray:
    """(N, K) the mean over the columns of ``near`` (N, n); memory is O(N K)."""
    total: FloatArray = np.zeros((len(near), probabilities.shape[1]))
    for column in near.T:
        total += probabilities[column]
    total /= near.shape[1]
    return total
