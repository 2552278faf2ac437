"""Tell strangers: find some, then look again for what is more like them than like any class."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from surelabel.accept import NO_FENCE, Fence, is_stranger, stranger_fence
from surelabel.selftrain.learner import Learner, Lesson
from surelabel.types import Ids, OnProgress, Prediction

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
