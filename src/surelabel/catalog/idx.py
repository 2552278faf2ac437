"""IDX, the file format of MNIST, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from surelabel.errors import InputError

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"


def is_idx(path: Path) -> bool:
    """Whether ``path`` begins like an IDX file (after gunzip, where it is gzipped)."""
    try:
        with path.open("rb") as file:
            plain = file.read(4)
        if plain.startswith(_GZIP):
            with gzip.open(path) as zipped:
                plain = zipped.read(4)
    except (OSError, EOFError, zlib.error):
        return False
    return len(plain) == 4 and plain[:2] == b"\0\0" and plain[2] in _TYPES and 1 <= plain[3] <= 4


def read_idx(path: Path) -> npt.NDArray[Any]:
    """The array in ``path``, in the machine's byte order."""
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}. Is the download complete?") from None
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _TYPES:
        raise InputError(f"{path} is not an IDX file: its first four bytes are {content[:4]!r}.")
    kind, n_axes = np.dtype(_TYPES[content[2]]), content[3]
    start = 4 + 4 * n_axes
    if len(content) < start:
        raise InputError(f"{path} ends within its header. Is the download complete?")
    shape = struct.unpack(f">{n_axes}I", content[4:start])
    expected = start + math.prod(shape) * kind.itemsize
    if len(content) != expected:
        raise InputError(
            f"{path} has {len(content)} bytes and its header announces {expected}. "
            "Is the download complete?"
        )
    array = np.frombuffer(content, dtype=kind, offset=start).reshape(shape)
    return array.astype(kind.newbyteorder("="), copy=False)


def key_name(path: Path) -> str:
    """The name of the file without ``.gz``, so that ids do not depend on the packing."""
    return path.stem if path.suffix.lower() == ".gz" else path.name
