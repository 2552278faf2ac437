"""Features of a run that keeps none on disk."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from surelabel.types import Ids, IntArray


class MemoryStore:
    """A ``FeatureStore`` without files."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.row_bytes = 0
        """On disk."""
        self._row: dict[str, int] = {}
        self._all: npt.NDArray[np.float16] = np.empty((0, *shape), dtype=np.float16)

    def missing(self, digests: Ids) -> Ids:
        """The distinct ``digests`` that are not stored, in the order of their first use."""
        unknown = [d for d in dict.fromkeys(digests.tolist()) if d not in self._row]
        return np.array(unknown, dtype=np.str_)

    def add(self, digests: Ids, arrays: npt.NDArray[np.float16]) -> None:
        """Store ``arrays`` (N, ...) under ``digests``, which are new."""
        for i, digest in enumerate(digests.tolist(), start=len(self._all)):
            self._row[digest] = i
        self._all = np.concatenate([self._all, arrays])

    def rows(self, digests: Ids) -> IntArray:
        """(N,) where ``digests`` are."""
        return np.array([self._row[d] for d in digests.tolist()], dtype=np.int64)

    def read(self, rows: IntArray) -> npt.NDArray[np.float16]:
        """(N, ...) arrays at ``rows``."""
        return self._all[rows]
