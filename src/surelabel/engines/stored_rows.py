"""Pixels or features in the cache, read by row: what another process needs to see the same images.

Only the file is read, memory-mapped; the index stays with the process that wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from surelabel.dataset.array_store import ArrayStore
from surelabel.errors import InputError
from surelabel.types import IntArray


@dataclass
class StoredRows:
    """The arrays of N items: ``at`` (N,) are their rows in the file."""

    file: str
    shape: tuple[int, ...]
    dtype: str
    at: IntArray
    is_pixels: bool
    _map: npt.NDArray[Any] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, store: ArrayStore[Any], at: IntArray) -> StoredRows:
        """Rows ``at`` of ``store``."""
        is_pixels = store.dtype == np.uint8
        return cls(str(store.file.absolute()), store.shape, store.dtype.str, at, is_pixels)

    def __call__(self, rows: Tensor) -> Tensor:
        """Images (B, C, H, W) or features (B, ...) at these rows."""
        arrays = np.asarray(self._mapped()[self.at[rows.numpy()]])
        tensor = torch.from_numpy(np.ascontiguousarray(arrays))
        return tensor.permute(0, 3, 1, 2) if self.is_pixels else tensor

    def _mapped(self) -> npt.NDArray[Any]:
        if self._map is None:
            n_bytes = int(np.prod(self.shape)) * np.dtype(self.dtype).itemsize
            needed = (int(self.at.max()) + 1) * n_bytes if len(self.at) else 0
            path = Path(self.file)
            if not path.is_file() or path.stat().st_size < needed:
                raise InputError(
                    f"{path} is not there, or not all of it: every worker has to see the cache "
                    "folder. Put it on storage that all of them share, with --cache."
                )
            shape = (path.stat().st_size // n_bytes, *self.shape)
            self._map = np.memmap(path, dtype=self.dtype, mode="r", shape=shape)
        return self._map

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_map": None}  # the file is mapped where it is read


@dataclass
class StoredViews:
    """Stored distorted views: ``views`` (N, 1 + V) are rows of the image and of its views."""

    stored: StoredRows
    views: IntArray

    def __call__(self, rows: Tensor, generator: torch.Generator) -> Tensor:
        """Features of the image or of one of its views, drawn for each row."""
        pick = torch.randint(self.views.shape[1], (len(rows),), generator=generator)
        at = self.views[rows.numpy(), pick.numpy()]
        mapped = self.stored._mapped()
        return torch.from_numpy(np.ascontiguousarray(mapped[at]))
