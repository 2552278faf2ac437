"""Scoring: what trained nets predict for images, wherever that is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from torch import Tensor

from surelabel.engines.storage import Facts
from surelabel.inference.sampling import Loader, distances_of, predict
from surelabel.models.bayesian import BayesianNet
from surelabel.selection.out_of_distribution import ReferenceFeatures
from surelabel.types import FloatArray, Ids, OnProgress, Prediction, Progress, no_progress

if TYPE_CHECKING:
    from surelabel.engines.inputs import Features, Images


@dataclass(frozen=True)
class Member:
    """One trained net of the ensemble."""

    net: BayesianNet
    mask_seed: int
    """Seeds its Monte Carlo Dropout masks."""
    facts: Facts
    """How it was trained, from the header of its weights."""
    reference: ReferenceFeatures | None = None
    """For its distances; None without out-of-distribution detection."""


class Scorer(Protocol):
    """Where scoring runs. A prediction does not depend on it."""

    def predict(
        self,
        members: Sequence[Member],
        images: Images | Features,
        ids: Ids,
        mc_samples: int,
        on_progress: OnProgress,
    ) -> Prediction:
        """Mean over members and Monte Carlo samples."""

    def distances(
        self,
        members: Sequence[Member],
        images: Images | Features,
        ids: Ids,
        on_progress: OnProgress,
    ) -> FloatArray:
        """(N,) distances from the labeled images: the mean over the members."""


class LocalScorer:
    """Scores in this process."""

    def predict(
        self,
        members: Sequence[Member],
        images: Images | Features,
        ids: Ids,
        mc_samples: int,
        on_progress: OnProgress = no_progress,
    ) -> Prediction:
        """Mean over members and Monte Carlo samples."""
        return predict_rows(members, images.pixels, images.rows(ids), ids, mc_samples, on_progress)

    def distances(
        self,
        members: Sequence[Member],
        images: Images | Features,
        ids: Ids,
        on_progress: OnProgress = no_progress,
    ) -> FloatArray:
        """(N,) distances from the labeled images: the mean over the members."""
        return distances_of_rows(members, images.pixels, images.rows(ids), on_progress)


LOCAL_SCORER = LocalScorer()


def predict_rows(
    members: Sequence[Member],
    pixels: Loader,
    rows: Tensor,
    ids: Ids,
    mc_samples: int,
    on_progress: OnProgress = no_progress,
) -> Prediction:
    """Mean over members and Monte Carlo samples, with distances if all members have them."""
    distances = [m.reference.distance for m in members if m.reference is not None]
    return predict(
        [m.net for m in members],
        pixels,
        rows,
        ids,
        mc_samples=mc_samples,
        seeds=[m.mask_seed for m in members],
        distances=distances if len(distances) == len(members) else (),
        on_progress=on_progress,
    )


def distances_of_rows(
    members: Sequence[Member], pixels: Loader, rows: Tensor, on_progress: OnProgress = no_progress
) -> FloatArray:
    """(N,) distances from the labeled images: the mean over the members."""
    total: FloatArray = np.zeros(len(rows))
    for number, member in enumerate(members):
        assert member.reference is not None
        report = _part_of(on_progress, number, len(members))
        total += distances_of(member.net, pixels, rows, member.reference.distance, report)
    return total / len(members)


def _part_of(on_progress: OnProgress, member: int, n: int) -> OnProgress:
    """Progress of one member as a part of the progress of all."""

    def report(progress: Progress) -> None:
        done = member * progress.total + progress.done
        on_progress(Progress(progress.what, done, n * progress.total))

    return report
