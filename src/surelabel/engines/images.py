"""Pixels by id, as tensors: the one place where ids become rows."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from surelabel.catalog import Catalog, PixelStore
from surelabel.types import Ids, derive_seed

_IN_MEMORY = 1 << 30
"""Collections up to this many bytes live as one tensor; larger ones stay mapped."""
_SAMPLE = 10_000
_CHUNK = 256


class Images:
    """The decoded images of a catalog."""

    def __init__(self, catalog: Catalog, store: PixelStore, *, in_memory: bool = True) -> None:
        self.catalog = catalog
        self.channels = catalog.channels
        self._store = store
        self._all: Tensor | None = None
        if in_memory and len(catalog) * catalog.size**2 * catalog.channels <= _IN_MEMORY:
            self._all = _to_tensor(store.gather(catalog.digests))

    def rows(self, ids: Ids) -> Tensor:
        """Positions for ``pixels``, (N,)."""
        return torch.from_numpy(self.catalog.rows(ids))

    def pixels(self, rows: Tensor) -> Tensor:
        """uint8 images (N, C, H, W) at these rows."""
        if self._all is not None:
            return self._all[rows]
        return _to_tensor(self._store.gather(self.catalog.digests[rows.numpy()]))

    def statistics(self, seed: int) -> tuple[Tensor, Tensor]:
        """Mean and deviation of each channel (C,), from a random sample of the images."""
        rng = np.random.default_rng(derive_seed(seed, "statistics"))
        chosen = torch.from_numpy(np.sort(rng.permutation(len(self.catalog))[:_SAMPLE]))
        total = torch.zeros(2, self.catalog.channels, dtype=torch.float64)
        for start in range(0, len(chosen), _CHUNK):
            pixels = self.pixels(chosen[start : start + _CHUNK]).double()
            total += torch.stack([pixels.sum((0, 2, 3)), pixels.square().sum((0, 2, 3))])
        mean, square = total / (len(chosen) * self.catalog.size**2)
        std = (square - mean**2).clamp(min=0).sqrt()
        return mean.float(), std.clamp(min=1.0).float()


def _to_tensor(pixels: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Tensor:
    """(N, H, W, C) array -> (N, C, H, W) tensor, channels last in memory."""
    return torch.from_numpy(np.ascontiguousarray(pixels)).permute(0, 3, 1, 2)
