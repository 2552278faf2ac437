"""Images and labels in memory, in NumPy files, or in IDX files (the format of MNIST)."""

from __future__ import annotations

import gzip
import math
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from surelabel.dataset.array_store import Pixels
from surelabel.dataset.items import normalize_key
from surelabel.dataset.tables import is_null
from surelabel.errors import InputError, LabelsError

AnyArray: TypeAlias = npt.NDArray[np.generic]
"""An array of any type, as users hand it over."""

_IDX_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_GZIP = b"\x1f\x8b"
_IMAGE_NAMES = ("images", "x", "X", "x_train", "data")
_LABEL_NAMES = ("labels", "y", "Y", "y_train", "target")
"""What people call the arrays of an ``.npz`` file."""


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
    return (
        len(plain) == 4 and plain[:2] == b"\0\0" and plain[2] in _IDX_TYPES and 1 <= plain[3] <= 4
    )


def read_idx(path: Path) -> npt.NDArray[Any]:
    """The array in ``path``, in the machine's byte order."""
    try:
        content = path.read_bytes()
        if content.startswith(_GZIP):
            content = gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path} cannot be read: {error}. Is the download complete?") from None
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _IDX_TYPES:
        raise InputError(f"{path} is not an IDX file: its first four bytes are {content[:4]!r}.")
    kind, n_axes = np.dtype(_IDX_TYPES[content[2]]), content[3]
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


def check_images(array: AnyArray, name: str) -> Pixels:
    """``array`` as uint8 (N, H, W) or (N, H, W, C) with C of 1, 3 or 4, or an ``InputError``."""
    _check_shape(array, name)
    if array.dtype == np.uint8:
        return cast(Pixels, array)
    if array.dtype == np.bool_:
        return array.astype(np.uint8) * np.uint8(255)
    if array.dtype.kind not in "iuf":
        raise InputError(f"{name} holds {array.dtype}; images are uint8, or floats from 0 to 1.")
    low, high = (float(array.min()), float(array.max())) if array.size else (0.0, 0.0)
    if not (low >= 0 and high <= 255):
        raise InputError(
            f"{name} has values from {low:g} to {high:g}; images are from 0 to 255, or floats "
            "from 0 to 1. Scale them first."
        )
    if array.dtype.kind == "f":
        if 1 < high < 2:
            raise InputError(
                f"{name} has values up to {high:g}, a little above 1: clip them at 1, or scale "
                "them to 255."
            )
        scale = 255.0 if high <= 1 else 1.0
        floats = cast(npt.NDArray[np.floating], array)
        pixels: Pixels = np.rint(floats * scale).astype(np.uint8)
        return pixels
    return array.astype(np.uint8)


def _check_shape(array: AnyArray, name: str) -> None:
    shape = array.shape
    if len(shape) == 4 and shape[3] not in (1, 3, 4) and shape[1] in (1, 3, 4):
        raise InputError(
            f"{name} has shape {shape}, which looks like channels first; images are (N, H, W, C). "
            "Use array.transpose(0, 2, 3, 1)."
        )
    if len(shape) not in (3, 4) or (len(shape) == 4 and shape[3] not in (1, 3, 4)):
        raise InputError(f"{name} has shape {shape}; images are (N, H, W) or (N, H, W, 1, 3 or 4).")
    if 0 in shape[1:]:
        raise InputError(f"{name} has shape {shape}: its images have no pixels.")


def label_names(labels: AnyArray, n: int, name: str) -> list[str]:
    """(N,) class names, empty for none, of integers (-1: none) or strings (empty: none)."""
    if labels.shape != (n,):
        raise LabelsError(f"{name} has shape {labels.shape}, and there are {n} images to label.")
    values = labels.tolist()
    if labels.dtype.kind == "U":  # NumPy writes a nan between strings as text
        values = ["" if value == "nan" else value for value in values]
    return [_label_name(value, f"{name}[{i}]") for i, value in enumerate(values)]


def _label_name(value: object, where: str) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if is_null(value) or value == -1:
        return ""
    if isinstance(value, str):
        return normalize_key(value.strip())
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise LabelsError(
            f"{where} is {value!r}; labels are integers from 0, -1 for none, or strings."
        )
    return str(value)


def read_images(path: Path) -> tuple[AnyArray, AnyArray | None]:
    """The images in a ``.npy`` or ``.npz`` file, and the labels an ``.npz`` has beside them."""
    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        return loaded, None
    images = _pick(loaded, _IMAGE_NAMES) if len(loaded) > 1 else next(iter(loaded.values()), None)
    if images is None:
        raise InputError(
            f"{path} holds {', '.join(loaded) or 'nothing'}; call the array of images 'images' "
            "(and that of labels 'labels')."
        )
    return images, _pick(loaded, _LABEL_NAMES)


def read_labels(path: Path) -> AnyArray:
    """The labels in a ``.npy`` or ``.npz`` file."""
    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        return loaded
    labels = _pick(loaded, _LABEL_NAMES) if len(loaded) > 1 else next(iter(loaded.values()), None)
    if labels is None:
        raise LabelsError(f"{path} holds {', '.join(loaded) or 'nothing'}, and no array 'labels'.")
    return labels


def _pick(arrays: dict[str, AnyArray], names: tuple[str, ...]) -> AnyArray | None:
    return next((arrays[name] for name in names if name in arrays), None)


def _load(path: Path) -> AnyArray | dict[str, AnyArray]:
    """What ``path`` holds; objects are refused, because they would be unpickled."""
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return dict(loaded)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read as a NumPy file: {error}.") from None
