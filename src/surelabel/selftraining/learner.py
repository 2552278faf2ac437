"""The protocol through which Algorithm 1 sees networks, training and sampling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from surelabel.selection.neighbor_vote import Adjustment
from surelabel.selftraining.round_inputs import Problem, RoundInputs
from surelabel.types import FloatArray, Ids, IntArray, OnProgress, Prediction


class NeighborIndex(Protocol):
    """Images with predictions, to be searched for the neighbors of other images."""

    def votes(self, ids: Ids, on_progress: OnProgress) -> FloatArray:
        """(N, K) mean prediction for the images most similar to each of ``ids``, itself not."""

    def units(self, ids: Ids) -> IntArray:
        """(N,) a number for each of ``ids``, equal within a group and among copies."""

    def save(self, work_folder: Path, adjustment: Adjustment) -> None:
        """Keep the index and the adjustment, for predictions of new images."""


@dataclass(frozen=True)
class OutlierDistances:
    """Distances from the labeled images, (N,) each."""

    held_out: FloatArray
    pool: FloatArray


class Ensemble(Protocol):
    """The trained nets of a round. Predicting changes nothing in it."""

    def predict(self, ids: Ids, on_progress: OnProgress) -> Prediction:
        """Mean over the nets and their Monte Carlo samples, for any images."""

    def predict_held_out(self, problem: Problem, on_progress: OnProgress) -> Prediction:
        """For the tune images, out of fold where they are trained on."""

    def distances_from(
        self,
        outliers: Ids,
        problem: Problem,
        ids: Ids,
        work_folder: Path,
        on_progress: OnProgress,
    ) -> OutlierDistances | None:
        """Distances of the held-out images and of ``ids``, given these outliers.

        The outliers are kept in ``work_folder`` for later predictions. None where outliers make
        no difference.
        """

    def report(self) -> Mapping[str, Any]:
        """Plain values about the nets, for the round's metrics."""


class Learner(Protocol):
    """Trains nets. Its work survives being killed, through the files in ``work_folder``."""

    def train(
        self, round_inputs: RoundInputs, work_folder: Path, on_progress: OnProgress
    ) -> Ensemble:
        """Train an ensemble and leave its weights in ``work_folder``."""

    def neighbor_index(self, ids: Ids, predictions: FloatArray) -> NeighborIndex | None:
        """An index of ``ids``, by their pixels, with a prediction (M, K) for each.

        None where there are no pixels to compare.
        """
