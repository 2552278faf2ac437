"""Who votes on a round's labels: its own nets, those of the round before, or both."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from surelabel.selection.calibration import is_clear, losses_at_best
from surelabel.selftraining.learner import Problem
from surelabel.types import FloatArray, Prediction


class Voters(StrEnum):
    """Nets whose outputs are averaged."""

    BOTH = "both"
    """Nets of this round and of the one before."""
    NEW = "new"
    """Those of this round."""
    EARLIER = "earlier"
    """Those of the round before, in the place of the new ones."""


def who_votes(both: FloatArray, new: FloatArray, earlier: FloatArray) -> Voters:
    """Both, unless one of them alone is clearly better.

    Given are -ln p of the held-out labels, (N,) each. A few labels hardly tell, and more nets err
    less often surely.
    """
    if not len(both):
        return Voters.BOTH
    better, losses = Voters.NEW, new
    if earlier.mean() < new.mean():
        better, losses = Voters.EARLIER, earlier
    if not np.isfinite(both).all():
        return better
    return better if is_clear(both - losses) else Voters.BOTH


def losses_of(said: Prediction, problem: Problem) -> FloatArray:
    """(N,) -ln p of the held-out labels, at the temperature from 1 up that suits them best.

    More nets are less sure, which is no merit by itself.
    """
    known = dict(zip(problem.tune_ids.tolist(), problem.tune_labels.tolist(), strict=True))
    labels = np.array([known[i] for i in said.ids.tolist()], dtype=np.int64)
    return losses_at_best(said.probabilities, labels, coolest=1.0)
