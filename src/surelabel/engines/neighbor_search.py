"""The images most similar to an image, by their pixels, and what is predicted for them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from surelabel.config.settings import Config
from surelabel.engines.inputs import Features, Images
from surelabel.engines.members import read_tensors, write_tensors
from surelabel.selection.matrix_scaling import MatrixScaling
from surelabel.selection.neighbor_vote import Adjustment
from surelabel.selftraining.learner import RoundInputs
from surelabel.types import FloatArray, Ids, IntArray, OnProgress, Progress, no_progress

N_ALIKE = 20
"""How many of the most similar images are asked."""
_SIDE = 14
"""Images are shrunk, by a whole factor, to about this many pixels a side."""
_BATCH = 1000
_PHOTOS = 100
"""So many are shrunk at a time: they may be large."""
FILE = "neighbor-vote.safetensors"
"""In the folder of a round whose labels neighbors had a say in."""


@dataclass(frozen=True)
class NeighborIndex:
    """Images that can be asked: how they look, and what is said of each."""

    images: Images
    """Those that ask are among these."""
    looks: Tensor
    """(M, D) shrunken images, uint8."""
    says: Tensor
    """(M, K) probabilities."""
    marks: Tensor
    """(M,) int64, equal where the images are equal."""

    def say(self, ids: Ids, on_progress: OnProgress = no_progress) -> FloatArray:
        """(N, K) the mean of what is said of the twenty images most like each of ``ids``.

        An image does not ask itself, its copies, its group, or who is not like it at all.
        """
        rows, own = self.images.rows(ids), torch.from_numpy(self.units(ids))
        seen = _normalized(self.looks)
        found = []
        for start in range(0, len(rows), _BATCH):
            part = slice(start, start + _BATCH)
            likeness = _normalized(_looks(self.images, rows[part])) @ seen.T
            likeness[own[part, None] == self._units_asked[None, :]] = 0.0
            most, places = likeness.topk(min(N_ALIKE, len(seen)), dim=1)
            found.append(_mean_of(self.says[places], most > 0))
            on_progress(Progress("asking neighbors", min(start + _BATCH, len(rows)), len(rows)))
        return torch.cat(found).double().numpy()

    def keep(self, work_folder: Path, adjustment: Adjustment) -> None:
        """Write what predictions of new images need, and how much they adjust it."""
        tensors = {"looks": self.looks, "says": self.says.half(), "marks": self.marks}
        about = {"power": adjustment.power}
        if adjustment.scaling is not None:
            tensors["scaling"] = torch.from_numpy(adjustment.scaling.matrix)
            about["scale"] = adjustment.scaling.scale
        write_tensors(work_folder / FILE, tensors, about)

    def units(self, ids: Ids) -> IntArray:
        """(N,) a number for each of ``ids``, equal where a group or equal bytes tie them."""
        return self._units[self.images.catalog.rows(ids)]

    @cached_property
    def _units(self) -> IntArray:
        return self.images.catalog.units(self.images.catalog.ids)

    @cached_property
    def _units_asked(self) -> Tensor:
        """(M,) the units of those asked; -1 for one that is not among the images."""
        catalog = self.images.catalog
        known = dict(zip(_marks(catalog.digests).tolist(), self._units.tolist(), strict=True))
        return torch.tensor([known.get(mark, -1) for mark in self.marks.tolist()])


def neighbor_vote(images: Images, ids: Ids, says: FloatArray) -> NeighborIndex:
    """``ids`` to be asked, of which ``says`` (M, K) is said."""
    rows = images.rows(ids)
    marks = _marks(images.catalog.digests[rows.numpy()])
    return NeighborIndex(images, _looks(images, rows), torch.from_numpy(says).float(), marks)


def kept(folder: Path, images: Images) -> tuple[NeighborIndex, Adjustment] | None:
    """What a round kept in its folder, to be asked by other images, and its adjustment; or None."""
    if not (folder / FILE).exists():
        return None
    tensors, about = read_tensors(folder / FILE)
    asked = NeighborIndex(images, tensors["looks"], tensors["says"].float(), tensors["marks"])
    scaling = None
    if "scaling" in tensors:
        scaling = MatrixScaling(float(about["scale"]), tensors["scaling"].numpy())
    return asked, Adjustment(float(about["power"]), scaling)


def forget(work_folder: Path) -> None:
    """Remove what a killed attempt at a round kept."""
    (work_folder / FILE).unlink(missing_ok=True)


def look_length(size: int, channels: int) -> int:
    """How many numbers a shrunken image of ``size`` x ``size`` has."""
    return channels * (size // _factor(size)) ** 2


def _factor(size: int) -> int:
    return max(1, round(size / _SIDE))


def _marks(digests: Ids) -> Tensor:
    """(N,) the first 60 bits of SHA-256 digests."""
    return torch.tensor([int(digest[:15], 16) for digest in digests.tolist()])


def _looks(images: Images, rows: Tensor) -> Tensor:
    """The images at these rows, shrunk: (N, D), uint8."""
    return torch.cat([_shrunk(images.pixels(part)) for part in torch.split(rows, _PHOTOS)])


def _shrunk(images: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, D)."""
    return (
        functional.avg_pool2d(images.float(), _factor(images.shape[-1]))
        .flatten(1)
        .round()
        .to(torch.uint8)
    )


def _normalized(looks: Tensor) -> Tensor:
    """Of mean 0 and length 1, (N, D); zeros for an image without contrast."""
    flat = looks.float()
    return functional.normalize(flat - flat.mean(dim=1, keepdim=True), dim=1)


def _mean_of(says: Tensor, counts: Tensor) -> Tensor:
    """(N, K) mean over the n that count, of (N, n, K); a class is as likely as any where none."""
    weight = counts[..., None].float()
    total, n = (says * weight).sum(dim=1), weight.sum(dim=1)
    return torch.where(n > 0, total / n.clamp(min=1), 1 / says.shape[-1])


class TeacherCorrection:
    """Gives neighbors of some images the say in any guesses of them that they had before."""

    def __init__(
        self,
        asked: NeighborIndex,
        adjustment: Adjustment,
        ids: Ids,
        on_progress: OnProgress = no_progress,
    ) -> None:
        rows = asked.images.rows(ids)
        self._adjustment = adjustment
        self._said = asked.say(ids, on_progress)
        self._places = torch.full((len(asked.images.catalog),), -1)
        self._places[rows] = torch.arange(len(rows))

    def __call__(self, rows: Tensor, own: Tensor) -> Tensor:
        """Rows (B,) of these images and a net's probabilities (B, K) -> the same, adjusted."""
        said = self._said[self._places[rows].numpy()]
        return torch.from_numpy(self._adjustment(own.double().numpy(), said)).float()


def teacher_correction_for(
    round_inputs: RoundInputs,
    images: Images | Features,
    config: Config,
    on_progress: OnProgress = no_progress,
) -> TeacherCorrection | None:
    """For images without a label, by the adjustment of the round before; None without one."""
    if not config.consistency or round_inputs.earlier is None or not isinstance(images, Images):
        return None
    found = kept(round_inputs.earlier, images)
    pool = round_inputs.problem.pool_ids
    left = pool[~np.isin(pool, np.concatenate([round_inputs.pseudo_ids, round_inputs.outliers]))]
    return TeacherCorrection(*found, left, on_progress) if found is not None and len(left) else None
