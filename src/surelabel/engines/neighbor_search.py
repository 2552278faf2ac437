"""The images most similar to an image, by their pixels, and the predictions for them.

For up to 60,000 images the search is exact and runs in PyTorch: another library rounds similarities
differently, and a tie broken the other way would change the labels of a run. For more it is
approximate; see ``approximate_search``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from surelabel.config.settings import Config
from surelabel.dataset.catalog import as_numbers
from surelabel.dataset.thumbnails import average_pool
from surelabel.engines.approximate_search import (
    APPROXIMATE_QUERIES,
    EXACT_QUERIES,
    ApproximateSearch,
    approximate_search,
    exact_nearest,
)
from surelabel.engines.inputs import Features, Images
from surelabel.engines.storage import read_tensors, write_tensors
from surelabel.files.mapped_arrays import slices, zeros
from surelabel.selection.matrix_scaling import MatrixScaling
from surelabel.selection.neighbor_vote import Adjustment
from surelabel.selftraining.round_inputs import RoundInputs
from surelabel.types import FloatArray, Ids, IntArray, OnProgress, Progress, no_progress

N_NEIGHBORS = 20
FILE = "neighbor-vote.safetensors"
"""In the folder of a round whose predictions were adjusted."""
_SIDE = 14
"""Images are shrunk, by a whole factor, to about this many pixels per side."""
_DIGITS = 15
"""Hexadecimal digits of a digest that are compared."""
_SHRINK_BATCH = 100
"""Images that are shrunk at a time: they may be large."""


@dataclass(frozen=True)
class NeighborIndex:
    """Thumbnails of images, and a prediction for each."""

    images: Images
    """The images that are looked up are among these."""
    thumbnails: Tensor
    """(M, D) uint8."""
    predictions: Tensor
    """(M, K) probabilities."""
    digests: Tensor
    """(M,) int64, equal where the images are equal."""

    def votes(self, ids: Ids, on_progress: OnProgress = no_progress) -> FloatArray:
        """(N, K) mean prediction for the 20 images most similar to each of ``ids``.

        An image itself, its copies, its group and images without any likeness do not vote.
        """
        rows, own = self.images.rows(ids), torch.from_numpy(self.units(ids))
        votes = zeros((len(rows), self.predictions.shape[1]), np.float64)
        at_once = EXACT_QUERIES if self._search is None else APPROXIMATE_QUERIES
        for part in slices(len(rows), at_once):
            vectors = unit_vectors(_thumbnails(self.images, rows[part]))
            highest, places = self._nearest(vectors, own[part])
            for few in slices(len(vectors), EXACT_QUERIES):  # many classes take much memory
                mean = mean_prediction(self.predictions[places[few]], highest[few] > 0)
                votes[part][few] = mean.double().numpy()
            on_progress(Progress("finding neighbors", part.stop, len(rows)))
        return votes

    def _nearest(self, vectors: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
        """(N, n) similarities and places of the indexed images nearest to ``vectors`` (N, D)."""
        n = min(N_NEIGHBORS, len(self.thumbnails))
        if self._search is not None:
            return self._search.nearest(vectors, own, n, excluded=0.0)
        return exact_nearest(vectors, self._vectors, own, self._indexed_units, n, excluded=0.0)

    @cached_property
    def _vectors(self) -> Tensor:
        return unit_vectors(self.thumbnails)

    @cached_property
    def _search(self) -> ApproximateSearch | None:
        """None where the search is exact."""
        n_images = len(self.images.catalog)
        return approximate_search(self._vectors.__getitem__, self._indexed_units, n_images)

    def save(self, work_folder: Path, adjustment: Adjustment) -> None:
        """Keep what predictions of new images need: the index and the adjustment."""
        tensors = {
            "thumbnails": self.thumbnails,
            "predictions": self.predictions.half(),
            "digests": self.digests,
        }
        about = {"power": adjustment.power}
        if adjustment.scaling is not None:
            tensors["scaling"] = torch.from_numpy(adjustment.scaling.matrix)
            about["scale"] = adjustment.scaling.scale
        write_tensors(work_folder / FILE, tensors, about)

    def units(self, ids: Ids) -> IntArray:
        """(N,) a number for each of ``ids``, equal within a group and among copies."""
        return self._units[self.images.catalog.rows(ids)]

    @cached_property
    def _units(self) -> IntArray:
        return self.images.catalog.units(self.images.catalog.ids)

    @cached_property
    def _indexed_units(self) -> Tensor:
        """(M,) the units of the indexed images; -1 for one that is not among ``images``."""
        known = as_integers(self.images.catalog.digests).numpy()
        order = np.argsort(known, kind="stable")
        wanted = self.digests.numpy()
        # Of equal digests the last one: all have the same unit.
        at = np.maximum(np.searchsorted(known, wanted, side="right", sorter=order) - 1, 0)
        units = np.where(known[order[at]] == wanted, self._units[order[at]], -1)
        return torch.from_numpy(units)


def neighbor_index(images: Images, ids: Ids, predictions: FloatArray) -> NeighborIndex:
    """An index of ``ids`` with their predictions (M, K)."""
    rows = images.rows(ids)
    digests = as_integers(images.catalog.digests[rows.numpy()])
    thumbnails = _thumbnails(images, rows)
    return NeighborIndex(images, thumbnails, torch.from_numpy(predictions).float(), digests)


def load_adjustment(folder: Path, images: Images) -> tuple[NeighborIndex, Adjustment] | None:
    """What a round saved in its folder, to be applied to ``images``; None where it has none."""
    if not (folder / FILE).exists():
        return None
    tensors, about = read_tensors(folder / FILE)
    predictions = tensors["predictions"].float()
    index = NeighborIndex(images, tensors["thumbnails"], predictions, tensors["digests"])
    scaling = None
    if "scaling" in tensors:
        scaling = MatrixScaling(float(about["scale"]), tensors["scaling"].numpy())
    return index, Adjustment(float(about["power"]), scaling)


def remove_adjustment(work_folder: Path) -> None:
    """Delete what a killed attempt at a round saved."""
    (work_folder / FILE).unlink(missing_ok=True)


class TeacherCorrection:
    """Adjusts a teacher's predictions of unlabeled images while its student is trained.

    A net that learns from its own guesses grows sure of them, of the wrong ones too. The
    adjustment that the round before made after training is made here during training.
    """

    def __init__(
        self,
        index: NeighborIndex,
        adjustment: Adjustment,
        ids: Ids,
        on_progress: OnProgress = no_progress,
    ) -> None:
        rows = index.images.rows(ids)
        self._adjustment = adjustment
        self._votes = index.votes(ids, on_progress)
        self._places = torch.full((len(index.images.catalog),), -1)
        self._places[rows] = torch.arange(len(rows))

    def __call__(self, rows: Tensor, own: Tensor) -> Tensor:
        """Rows (B,) of these images and the teacher's probabilities (B, K) -> adjusted ones."""
        votes = self._votes[self._places[rows].numpy()]
        return torch.from_numpy(self._adjustment(own.double().numpy(), votes)).float()


def teacher_correction_for(
    round_inputs: RoundInputs,
    images: Images | Features,
    config: Config,
    on_progress: OnProgress = no_progress,
) -> TeacherCorrection | None:
    """For pool images without a label, by the adjustment of the round before; None without one."""
    before = round_inputs.previous_round
    wanted = config.teacher_correction and config.consistency
    if not wanted or before is None or not isinstance(images, Images):
        return None
    stored = load_adjustment(before, images)
    pool = round_inputs.problem.pool_ids
    known = np.concatenate([round_inputs.pseudo_ids, round_inputs.outliers])
    unlabeled = pool[~np.isin(pool, known)]
    if stored is None or not len(unlabeled):
        return None
    return TeacherCorrection(*stored, unlabeled, on_progress)


def thumbnail_length(size: int, channels: int) -> int:
    """How many numbers the thumbnail of an image of ``size`` x ``size`` has."""
    return channels * (size // shrink_factor(size)) ** 2


def shrink_factor(size: int) -> int:
    """By which images of ``size`` x ``size`` are shrunk."""
    return max(1, round(size / _SIDE))


def as_integers(digests: Ids) -> Tensor:
    """(N,) the first 60 bits of digests."""
    numbers = as_numbers(digests, _DIGITS)
    if numbers is None:
        values = [int(digest[:_DIGITS], 16) for digest in digests.tolist()]
        return torch.tensor(values, dtype=torch.int64)
    return torch.from_numpy(numbers.astype(np.int64))


def _thumbnails(images: Images, rows: Tensor) -> Tensor:
    """The images at these rows, shrunk: (N, D), uint8."""
    return torch.cat([_shrink(images.pixels(part)) for part in torch.split(rows, _SHRINK_BATCH)])


def _shrink(images: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, D)."""
    return torch.from_numpy(average_pool(images.numpy(), shrink_factor(images.shape[-1]))).flatten(
        1
    )


def most_similar(similarity: Tensor) -> tuple[Tensor, Tensor]:
    """The highest values of each row of ``similarity`` (N, M), and where they are."""
    highest, places = similarity.topk(min(N_NEIGHBORS, similarity.shape[1]), dim=1)
    return highest, places


def unit_vectors(thumbnails: Tensor) -> Tensor:
    """Of mean 0 and length 1, (N, D); zeros for an image without contrast."""
    flat = thumbnails.float()
    return functional.normalize(flat - flat.mean(dim=1, keepdim=True), dim=1)


def mean_prediction(predictions: Tensor, counts: Tensor) -> Tensor:
    """(N, K) mean of (N, n, K) over the n that count; uniform where none does."""
    weight = counts[..., None].float()
    total, n = (predictions * weight).sum(dim=1), weight.sum(dim=1)
    return torch.where(n > 0, total / n.clamp(min=1), 1 / predictions.shape[-1])
