"""Which images look most alike, by their pixels or by what a frozen net says of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from surelabel.types import IntArray, OnProgress, Progress, derive_seed, no_progress

_SIDE = 14
"""Images are shrunk, by a whole factor, to about this many pixels a side."""
_BATCH = 1000
_MOST = 60_000
"""Images are compared with at most so many others, so that time is linear in their number."""


def most_alike(
    pixels: Callable[[Tensor], Tensor],
    rows: Tensor,
    among: Tensor,
    n: int,
    *,
    seed: int,
    on_progress: OnProgress = no_progress,
) -> IntArray:
    """(N, n) places in ``among`` of the rows most like each of ``rows``, other than itself.

    Likeness is the correlation of shrunken images, or of features. Above 60,000 others a random
    part of them is looked at. With fewer than n others the last one is repeated.
    """
    places = np.arange(len(among))
    if len(among) > _MOST:
        rng = np.random.default_rng(derive_seed(seed, "look-alikes"))
        places = np.sort(rng.permutation(len(among))[:_MOST])
    others = among[torch.from_numpy(places)]
    seen = _looks(pixels, others)
    found = []
    for start in range(0, len(rows), _BATCH):
        part = rows[start : start + _BATCH]
        likeness = _looks(pixels, part) @ seen.T
        likeness[part[:, None] == others[None, :]] = -torch.inf
        nearest = likeness.topk(min(n, len(others) - 1), dim=1).indices.numpy()
        found.append(places[nearest])
        on_progress(Progress("asking look-alikes", min(start + _BATCH, len(rows)), len(rows)))
    alike = np.concatenate(found)
    return np.pad(alike, [(0, 0), (0, n - alike.shape[1])], mode="edge").astype(np.int64)


def _looks(pixels: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """(N, D) of mean 0 and length 1; zeros for an image without contrast."""
    starts = range(0, len(rows), _BATCH)
    return torch.cat([_look(pixels(rows[start : start + _BATCH])) for start in starts])


def _look(images: Tensor) -> Tensor:
    images = images.float()
    if images.ndim == 4:
        images = functional.avg_pool2d(images, max(1, round(images.shape[-1] / _SIDE)))
    flat = images.flatten(1)
    return functional.normalize(flat - flat.mean(dim=1, keepdim=True), dim=1)
