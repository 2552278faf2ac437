"""Images that look alike, by their pixels: what is said of those most like an image."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from surelabel.engines.images import Images
from surelabel.engines.weights import read_tensors, write_tensors
from surelabel.types import FloatArray, Ids, OnProgress, Progress, derive_seed, no_progress

N_ALIKE = 20
"""How many of the most similar images are asked."""
_SIDE = 14
"""Images are shrunk, by a whole factor, to about this many pixels a side."""
_BATCH = 1000
_PHOTOS = 100
"""So many are shrunk at a time: they may be large."""
_MOST = 60_000
"""Images are compared with at most so many others, so that time is linear in their number."""
_FILE = "look-alikes.safetensors"


@dataclass(frozen=True)
class LookAlikes:
    """Images that can be asked: how they look, and what is said of each."""

    images: Images
    """Those that ask are among these."""
    looks: Tensor
    """(M, D) shrunken images, uint8."""
    says: Tensor
    """(M, K) probabilities."""
    units: Tensor
    """(M,) the number of each one's group among ``images``, -1 where it is not there: an image
    does not ask itself, its copies, or its group."""

    def say(self, ids: Ids, on_progress: OnProgress = no_progress) -> FloatArray:
        """(N, K) the mean of what is said of the twenty images most like each of ``ids``."""
        rows, own = self.images.rows(ids), _units(self.images, ids)
        seen = _normalized(self.looks)
        found = []
        for start in range(0, len(rows), _BATCH):
            part = slice(start, start + _BATCH)
            likeness = _normalized(_looks(self.images, rows[part])) @ seen.T
            likeness[own[part, None] == self.units[None, :]] = -torch.inf
            most, places = likeness.topk(min(N_ALIKE, len(seen)), dim=1)
            found.append(_mean_of(self.says[places], torch.isfinite(most)))
            on_progress(Progress("asking look-alikes", min(start + _BATCH, len(rows)), len(rows)))
        return torch.cat(found).double().numpy()

    def keep(self, workplace: Path, power: float) -> None:
        """Write what predictions of new images need, and how much they heed it."""
        tensors = {"looks": self.looks, "says": self.says.half()}
        write_tensors(workplace / _FILE, tensors, {"power": power})


def look_alikes(images: Images, ids: Ids, says: FloatArray, seed: int) -> LookAlikes:
    """``ids`` to be asked, of which ``says`` (M, K) is said; at most 60,000, drawn by the seed."""
    if len(ids) > _MOST:
        rng = np.random.default_rng(derive_seed(seed, "look-alikes"))
        chosen = np.sort(rng.permutation(len(ids))[:_MOST])
        ids, says = ids[chosen], says[chosen]
    looks = _looks(images, images.rows(ids))
    return LookAlikes(images, looks, torch.from_numpy(says).float(), _units(images, ids))


def kept(folder: Path, images: Images) -> tuple[LookAlikes, float] | None:
    """What a round kept in its folder, to be asked by other images, and its power; or None."""
    if not (folder / _FILE).exists():
        return None
    tensors, about = read_tensors(folder / _FILE)
    strange = torch.full((len(tensors["looks"]),), -1)
    asked = LookAlikes(images, tensors["looks"], tensors["says"].float(), strange)
    return asked, float(about["power"])


def _units(images: Images, ids: Ids) -> Tensor:
    every = images.catalog.units(images.catalog.ids)
    return torch.from_numpy(every)[images.rows(ids)]


def _looks(images: Images, rows: Tensor) -> Tensor:
    """The images at these rows, shrunk: (N, D), uint8."""
    return torch.cat([_shrunk(images.pixels(part)) for part in torch.split(rows, _PHOTOS)])


def _shrunk(images: Tensor) -> Tensor:
    """(N, C, H, W) -> (N, D)."""
    factor = max(1, round(images.shape[-1] / _SIDE))
    return functional.avg_pool2d(images.float(), factor).flatten(1).round().to(torch.uint8)


def _normalized(looks: Tensor) -> Tensor:
    """Of mean 0 and length 1, (N, D); zeros for an image without contrast."""
    flat = looks.float()
    return functional.normalize(flat - flat.mean(dim=1, keepdim=True), dim=1)


def _mean_of(says: Tensor, counts: Tensor) -> Tensor:
    """(N, K) mean over the n that count, of (N, n, K); a class is as likely as any where none."""
    weight = counts[..., None].float()
    total, n = (says * weight).sum(dim=1), weight.sum(dim=1)
    return torch.where(n > 0, total / n.clamp(min=1), 1 / says.shape[-1])
