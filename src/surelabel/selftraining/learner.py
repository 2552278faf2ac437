"""The small protocol through which Algorithm 1 sees networks, training and sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from surelabel.selection.neighbor_vote import Adjustment
from surelabel.types import FloatArray, Ids, IntArray, OnProgress, Prediction


@dataclass(frozen=True)
class Problem:
    """What there is to label, and what people said: everything that does not change in a round."""

    classes: tuple[str, ...]
    human_ids: Ids
    """Trained on; their labels never change."""
    human_labels: IntArray
    tune_ids: Ids
    """Held out. With ``cross_fit`` these are among ``human_ids``, and predicted out of fold."""
    tune_labels: IntArray
    pool_ids: Ids
    cross_fit: bool
    """Too few labels for a tune split: out-of-fold predictions take its place."""
    inputs: str
    """Digest of all of the above and of the pixels."""
    answers_upto: int = 0


@dataclass(frozen=True)
class RoundInputs:
    """What one round learns from."""

    number: int
    problem: Problem
    pseudo_ids: Ids
    """Pool images with an accepted pseudo-label."""
    pseudo_labels: IntArray
    pseudo_weights: FloatArray
    earlier: Path | None = None
    """Folder of the round before: for nets that go on from its own, vote with them or hear what
    corrected them."""
    outliers: Ids = field(default_factory=lambda: np.empty(0, dtype=np.str_))
    """Pool images that looked like none of the classes: nothing is to be learned from them."""


class NeighborIndex(Protocol):
    """Images that can be asked what is said of them, by others that look like them."""

    def say(self, ids: Ids, on_progress: OnProgress) -> FloatArray:
        """(N, K) the mean of what is said of the images most like each of ``ids``, itself not."""

    def units(self, ids: Ids) -> IntArray:
        """(N,) a number for each of ``ids``, equal where they are of one group."""

    def keep(self, work_folder: Path, adjustment: Adjustment) -> None:
        """Let later predictions of new images ask, and adjust it as much as this."""


class Learner(Protocol):
    """Trains and predicts. Its work survives a kill through ``work_folder``."""

    def learn(self, round_inputs: RoundInputs, work_folder: Path, on_progress: OnProgress) -> None:
        """Train on the round_inputs; leave the weights in ``work_folder``."""

    def predict(self, ids: Ids, on_progress: OnProgress) -> Prediction:
        """What the trained nets say about any images."""

    def predict_held_out(self, round_inputs: RoundInputs, on_progress: OnProgress) -> Prediction:
        """About the tune images, out of fold where they are trained on."""

    def look_again(
        self,
        round_inputs: RoundInputs,
        outliers: Ids,
        ids: Ids,
        work_folder: Path,
        on_progress: OnProgress,
    ) -> tuple[FloatArray, FloatArray] | None:
        """Distances of the held-out images and of ``ids``, now that these outliers are known.

        Later predictions know them too. None where outliers make no difference.
        """

    def neighbor_vote(self, ids: Ids, says: FloatArray) -> NeighborIndex | None:
        """``ids`` to be asked by images that look like them, where ``says`` (M, K) is said of each.

        By their pixels, not by what was learned. None where that is not known.
        """

    def report(self) -> Mapping[str, Any]:
        """Plain values about the training just done, for the round's metrics."""
