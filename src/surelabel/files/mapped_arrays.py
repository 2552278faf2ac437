"""Large arrays in mapped temporary files: the system may write them out and take the memory back.

One array per image of a large collection would otherwise fill the memory of an ordinary machine.
Small arrays stay in memory. The files have no name, so nothing is left when a program is killed.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import numpy as np
import numpy.typing as npt

LARGE = 1 << 22
"""Bytes from which on an array is mapped: few images need less, and gain nothing."""
_DISK = "/var/tmp"
"""Unlike /tmp it is never kept in memory."""

Scalar = TypeVar("Scalar", bound=np.generic)


def zeros(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Zeros; mapped if they are large and the disk has room for them."""
    kind = np.dtype(dtype)
    n_bytes = int(np.prod(shape, dtype=np.int64)) * kind.itemsize
    if n_bytes >= LARGE:
        try:
            return _mapped(shape, kind, n_bytes)
        except OSError:  # no room on the disk, or no such folder: memory has to do
            pass
    return np.zeros(shape, dtype=kind)


def mapped(array: npt.NDArray[Scalar]) -> npt.NDArray[Scalar]:
    """``array`` itself if it is small or mapped already, otherwise a mapped copy."""
    if array.nbytes < LARGE or is_mapped(array):
        return array
    copy: npt.NDArray[Scalar] = zeros(array.shape, array.dtype)
    copy[...] = array
    return copy


def is_mapped(array: npt.NDArray[Any]) -> bool:
    """Whether the values of ``array`` are in a mapped file."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(base, mmap.mmap)


def take(array: npt.NDArray[Scalar], rows: npt.NDArray[Any]) -> npt.NDArray[Scalar]:
    """``array[rows]`` for numbers or a mask (N,) of rows; mapped if it is large."""
    places = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
    if len(places) * array.dtype.itemsize < LARGE or array.ndim > 1:
        return array[places]
    taken: npt.NDArray[Scalar] = zeros((len(places),), array.dtype)
    for part in slices(len(places)):
        taken[part] = array[places[part]]
    return taken


def concatenate(parts: Sequence[npt.NDArray[Scalar]]) -> npt.NDArray[Scalar]:
    """The parts (N_i,) one after the other; mapped if that is large."""
    kind = np.result_type(*parts)
    joined: npt.NDArray[Scalar] = zeros((sum(map(len, parts)),), kind)
    start = 0
    for part in parts:
        joined[start : start + len(part)] = part
        start += len(part)
    return joined


def slices(n: int, size: int = 1 << 16) -> Iterable[slice]:
    """Parts of 0 .. n - 1 to work on one after the other."""
    return (slice(start, min(n, start + size)) for start in range(0, n, size))


def temporary_file() -> IO[bytes]:
    """A file without a name, on a disk if possible."""
    folder = os.environ.get("TMPDIR") or (_DISK if Path(_DISK).is_dir() else None)
    return tempfile.TemporaryFile(dir=folder)


def _mapped(shape: tuple[int, ...], kind: np.dtype[Any], n_bytes: int) -> npt.NDArray[Any]:
    with temporary_file() as file:
        # Without room set aside, a full disk would end the program with a signal.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, n_bytes)
        else:
            file.truncate(n_bytes)
        return np.memmap(file, dtype=kind, mode="r+", shape=shape).view(np.ndarray)
