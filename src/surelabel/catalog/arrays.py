"""Images and labels in memory or in NumPy files."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from surelabel.catalog.ids import tidy_key
from surelabel.catalog.pixels import Pixels
from surelabel.catalog.tables import is_null
from surelabel.errors import InputError, LabelsError

_IMAGE_NAMES = ("images", "x", "X", "x_train", "data")
_LABEL_NAMES = ("labels", "y", "Y", "y_train", "target")


def check_images(array: npt.NDArray[Any], name: str) -> Pixels:
    """``array`` as uint8 (N, H, W) or (N, H, W, C) with C of 1, 3 or 4, or a sentence."""
    _check_shape(array, name)
    if array.dtype == np.uint8:
        return array
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
        return np.rint(array * scale).astype(np.uint8)
    return array.astype(np.uint8)


def _check_shape(array: npt.NDArray[Any], name: str) -> None:
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


def label_names(labels: npt.NDArray[Any], n: int, name: str) -> list[str]:
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
        return tidy_key(value.strip())
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise LabelsError(
            f"{where} is {value!r}; labels are integers from 0, -1 for none, or strings."
        )
    return str(value)


def read_images(path: Path) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
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


def read_labels(path: Path) -> npt.NDArray[Any]:
    """The labels in a ``.npy`` or ``.npz`` file."""
    loaded = _load(path)
    if isinstance(loaded, np.ndarray):
        return loaded
    labels = _pick(loaded, _LABEL_NAMES) if len(loaded) > 1 else next(iter(loaded.values()), None)
    if labels is None:
        raise LabelsError(f"{path} holds {', '.join(loaded) or 'nothing'}, and no array 'labels'.")
    return labels


def _pick(arrays: dict[str, npt.NDArray[Any]], names: tuple[str, ...]) -> npt.NDArray[Any] | None:
    return next((arrays[name] for name in names if name in arrays), None)


def _load(path: Path) -> npt.NDArray[Any] | dict[str, npt.NDArray[Any]]:
    """What ``path`` holds; objects are refused, because they would be unpickled."""
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            return dict(loaded)
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read as a NumPy file: {error}.") from None
