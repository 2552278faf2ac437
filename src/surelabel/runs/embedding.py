"""Where the images of a run lie in the features of its nets, and on a map: ``embedding.npz``.

The file is derived from the last round and can be made again at any time
(``workflows.embedding``), so nothing but the page depends on it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from surelabel.files.atomic import atomic_path
from surelabel.runs.folder import EMBEDDING, RunFolder
from surelabel.runs.rounds import POOL_TABLE
from surelabel.types import FloatArray, Ids, IntArray

_DIGEST = "digest"
_Texts = npt.NDArray[np.str_] | npt.NDArray[np.object_]


@dataclass(frozen=True, eq=False)
class Embedding:
    """Vectors of N images; similar images have similar ones."""

    ids: Ids
    """(N,)."""
    vectors: npt.NDArray[np.float16]
    """(N, R) of length 1: the principal components of what the nets see."""
    xy: FloatArray | None
    """(N, 2) places on the map, from -1 to 1."""
    n_landmarks: int
    """Images that t-SNE placed; the others lie between the landmarks most similar to them."""
    key: str
    """Digest of what it was made from."""

    @cached_property
    def _order(self) -> IntArray:
        return np.argsort(self.ids).astype(np.int64)

    @cached_property
    def _precise(self) -> npt.NDArray[np.float32]:
        return self.vectors.astype(np.float32)

    def rows(self, ids: _Texts) -> IntArray:
        """(M,) the row of each of ``ids``; -1 for images that are not here."""
        wanted = np.asarray(ids, dtype=np.str_)
        places = np.searchsorted(self.ids, wanted, sorter=self._order)
        rows = self._order[np.minimum(places, len(self.ids) - 1)]
        return np.where(self.ids[rows] == wanted, rows, -1)

    def similarity(self, item_id: str, ids: _Texts) -> FloatArray:
        """(M,) the cosine similarity of ``ids`` to an image; -2 where one of them is not here.

        The image itself comes first, before its copies.
        """
        row, rows = int(self.rows(np.array([item_id]))[0]), self.rows(ids)
        if row < 0:
            return np.full(len(rows), -2.0, dtype=np.float32)
        found = self._precise @ self._precise[row]
        found[row] = 2.0
        return np.where(rows >= 0, found[rows], np.float32(-2.0))

    def vectors_of(self, ids: _Texts) -> FloatArray:
        """(M, R) the vectors of ``ids``; zeros for images that are not here."""
        rows = self.rows(ids)
        return np.where(rows[:, None] >= 0, self._precise[rows], np.float32(0.0))

    def save(self, folder: RunFolder) -> None:
        """Write the file, whole or not at all."""
        arrays: dict[str, npt.NDArray[Any]] = {
            "ids": self.ids,
            "vectors": self.vectors,
            "n_landmarks": np.array(self.n_landmarks),
            "key": np.array(self.key),
        }
        if self.xy is not None:
            arrays["xy"] = self.xy.astype(np.float32)
        arrays[_DIGEST] = np.array(_digest(arrays))
        with atomic_path(folder.path / EMBEDDING) as scratch, scratch.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)


def read_embedding(folder: RunFolder) -> Embedding | None:
    """The embedding of a run, perhaps of an earlier round; None if there is none to be read."""
    path = folder.path / EMBEDDING
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        if str(arrays.pop(_DIGEST)) != _digest(arrays):
            return None
        return Embedding(
            ids=arrays["ids"],
            vectors=arrays["vectors"],
            xy=arrays.get("xy"),
            n_landmarks=int(arrays["n_landmarks"]),
            key=str(arrays["key"]),
        )
    except MemoryError:
        raise
    except Exception:
        # Damaged bytes reach zipfile, zlib and NumPy, which raise what they like.
        return None  # it can be made again


def _digest(arrays: dict[str, npt.NDArray[Any]]) -> str:
    """SHA-256 of the arrays and their names."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape} ".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def embedding_key(folder: RunFolder) -> str:
    """Digest of what an embedding is made from: the images and the last round; empty before it."""
    last = folder.last_round()
    if last is None:
        return ""
    facts = [str(last.number), last.digests()[POOL_TABLE], *sorted(folder.catalog.ids.tolist())]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()


def has_current_embedding(folder: RunFolder, embedding: Embedding | None) -> bool:
    """Whether ``embedding`` is about the images and the last round as they are."""
    return embedding is not None and embedding.key == embedding_key(folder)


def file_stamp(folder: RunFolder) -> tuple[int, int]:
    """Changes when the file is written again; zeros without one."""
    path = Path(folder.path / EMBEDDING)
    try:
        found = path.stat()
    except OSError:
        return (0, 0)
    return (found.st_mtime_ns, found.st_size)
