"""Adaptation as a learner, so that an adaptation is recorded as an ordinary round of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from surelabel.engines.storage import write_tensors
from surelabel.runs.rounds import CENTROIDS
from surelabel.selftraining.round_inputs import Problem, RoundInputs
from surelabel.types import FloatArray, Ids, OnProgress, Prediction, no_progress

if TYPE_CHECKING:
    from surelabel.adaptation.candidates import Evidence


class AdaptedLearner:
    """Predicts as the chosen way does; trains nothing."""

    def __init__(self, evidence: Evidence, ids: Ids, facts: Mapping[str, object]) -> None:
        self._evidence = evidence
        self._row = {item_id: row for row, item_id in enumerate(ids.tolist())}
        self._facts = facts

    def train(
        self, round_inputs: RoundInputs, work_folder: Path, on_progress: OnProgress = no_progress
    ) -> AdaptedLearner:
        """Keep the centroids of the paper's way; every way is fitted already."""
        centroid_set = self._evidence.clustering.centroid_set
        arrays = {
            "centroids": centroid_set.centroids,
            "labels": centroid_set.labels,
            "is_adapted": centroid_set.is_adapted,
            "kept": centroid_set.kept,
        }
        tensors = {n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in arrays.items()}
        write_tensors(work_folder / CENTROIDS, tensors, dict(self._facts))
        return self

    def predict(self, ids: Ids, on_progress: OnProgress = no_progress) -> Prediction:
        """There is one sample, so there is no epistemic uncertainty."""
        rows = np.array([self._row[item_id] for item_id in ids.tolist()], dtype=np.int64)
        logs = self._evidence.choice.predict(rows)
        p = np.exp(logs)
        return Prediction(
            ids,
            p,
            expected_entropy=-(p * logs).sum(axis=1),
            expected_square=(p**2).sum(axis=1),
            aleatoric_variance=np.zeros(len(ids)),
            distance=self._evidence.clustering.distance(self._evidence.new[rows]),
        )

    def predict_held_out(
        self, problem: Problem, on_progress: OnProgress = no_progress
    ) -> Prediction:
        """For the tune images, whose labels decided nothing."""
        return self.predict(problem.tune_ids, on_progress)

    def distances_from(
        self,
        outliers: Ids,
        problem: Problem,
        ids: Ids,
        work_folder: Path,
        on_progress: OnProgress = no_progress,
    ) -> None:
        """Outliers make no difference to centroids."""

    def neighbor_index(self, ids: Ids, predictions: FloatArray) -> None:
        """The ways have asked the neighbors already."""

    def report(self) -> Mapping[str, object]:
        """Which way was chosen, and what it was compared with."""
        return {"adaptation": dict(self._facts)}
