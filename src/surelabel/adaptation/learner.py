"""Adaptation as a learner: what Algorithm 1's round does with it becomes an ordinary round."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from surelabel.adaptation.clustering import Adaptation
from surelabel.engines.members import write_tensors
from surelabel.selftraining.learner import RoundInputs
from surelabel.types import FloatArray, Ids, OnProgress, Prediction, no_progress

CENTROIDS = "centroids.safetensors"
"""The joined set A, in the folder of the round."""


class AdaptedLearner:
    """Names the class of the nearest centroid; trains nothing."""

    def __init__(
        self, adaptation: Adaptation, ids: Ids, latents: FloatArray, facts: Mapping[str, Any]
    ) -> None:
        self.adaptation = adaptation
        self._latents = latents
        self._row = {item_id: row for row, item_id in enumerate(ids.tolist())}
        self._facts = facts

    def learn(
        self, round_inputs: RoundInputs, work_folder: Path, on_progress: OnProgress = no_progress
    ) -> None:
        """Keep the centroids; they were chosen already."""
        joined = self.adaptation.joined
        arrays = {
            "centroids": joined.centroids,
            "labels": joined.labels,
            "is_adapted": joined.is_adapted,
            "kept": joined.kept,
        }
        tensors = {n: torch.from_numpy(np.ascontiguousarray(a)) for n, a in arrays.items()}
        write_tensors(work_folder / CENTROIDS, tensors, dict(self._facts))

    def predict(self, ids: Ids, on_progress: OnProgress = no_progress) -> Prediction:
        """From the distances; there is one sample, so nothing of it is due to the parameters."""
        latents = self._latents[[self._row[item_id] for item_id in ids.tolist()]]
        p = self.adaptation.probabilities(latents)
        logs = np.log(np.where(p > 0, p, 1.0))
        return Prediction(
            ids,
            p,
            expected_entropy=-(p * logs).sum(axis=1),
            expected_square=(p**2).sum(axis=1),
            aleatoric_variance=np.zeros(len(ids)),
            distance=self.adaptation.distance(latents),
        )

    def predict_held_out(
        self, round_inputs: RoundInputs, on_progress: OnProgress = no_progress
    ) -> Prediction:
        """About the tune images, whose labels decided nothing."""
        return self.predict(round_inputs.problem.tune_ids, on_progress)

    def look_again(
        self,
        round_inputs: RoundInputs,
        outliers: Ids,
        ids: Ids,
        work_folder: Path,
        on_progress: OnProgress = no_progress,
    ) -> None:
        """Centroids know no outliers."""

    def neighbor_vote(self, ids: Ids, says: FloatArray) -> None:
        """Only latents are known of the images."""

    def report(self) -> Mapping[str, Any]:
        """How the adaptation came to be and what it was compared with."""
        return {"adaptation": dict(self._facts)}
