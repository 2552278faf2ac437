"""Exact copies, which need no model, and near duplicates: resized, brightened, or of a burst."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from surelabel.dataset.parallel import Ticker
from surelabel.types import (
    UNLABELED,
    BoolArray,
    FloatArray,
    Ids,
    IntArray,
    LabelSource,
    OnProgress,
    Split,
    no_progress,
)

if TYPE_CHECKING:
    from surelabel.dataset.catalog import Catalog


def copied_labels(digests: Ids, labels: IntArray, teachers: BoolArray) -> IntArray:
    """(N,) the label that each image's identical ``teachers`` agree on, or -1.

    ``teachers`` (N,) are the human labels that may be read (train and tune, never certify). A
    digest whose teachers disagree teaches nothing; teachers themselves get -1.
    """
    copies = np.full(len(labels), UNLABELED, dtype=np.int64)
    if not teachers.any():
        return copies
    known, image = np.unique(digests[teachers], return_inverse=True)
    lowest = np.full(len(known), np.iinfo(np.int64).max)
    highest = np.full(len(known), UNLABELED, dtype=np.int64)
    np.minimum.at(lowest, image, labels[teachers])
    np.maximum.at(highest, image, labels[teachers])
    agreed = np.where(lowest == highest, highest, UNLABELED)
    at = np.minimum(np.searchsorted(known, digests), len(known) - 1)
    taught = (known[at] == digests) & ~teachers
    copies[taught] = agreed[at[taught]]
    return copies


def torn(digests: Ids, labels: IntArray) -> BoolArray:
    """(L,) whether an identical image has another label."""
    _, image = np.unique(digests, return_inverse=True)
    lowest = np.full(len(labels), np.iinfo(np.int64).max)
    highest = np.full(len(labels), -1)
    np.minimum.at(lowest, image, labels)
    np.maximum.at(highest, image, labels)
    found: BoolArray = (lowest != highest)[image] & (digests != "")
    return found


def contradictions(catalog: Catalog) -> list[tuple[int, int]]:
    """Of each image that people gave different labels: its first row, and the first that differs.

    Certify labels stay hidden, so they are not compared.
    """
    given = (catalog.labels != UNLABELED) & (catalog.sources == LabelSource.GIVEN)
    rows = np.flatnonzero(given & (catalog.splits != Split.CERTIFY))
    first: dict[str, int] = {}
    found: dict[str, tuple[int, int]] = {}
    for row in rows[torn(catalog.digests[rows], catalog.labels[rows])].tolist():
        digest = catalog.digests[row]
        before = first.setdefault(digest, row)
        if catalog.labels[before] != catalog.labels[row]:
            found.setdefault(digest, (before, row))
    return list(found.values())


_SIDE = 16
_ALIKE = 0.995
"""Correlation of two shrunken images from which on they are near copies."""
_AXES = 12
_SAMPLE = 2000
_PER_IMAGE = 4
_CHUNK = 512


def near_copies(
    pixels: Callable[[IntArray], npt.NDArray[np.uint8]],
    n: int,
    on_progress: OnProgress = no_progress,
) -> tuple[IntArray, FloatArray]:
    """Pairs of near copies among n images, (P, 2) with the lower row first, and how alike they are.

    ``pixels`` gives images (B, S, S, C) by row. Images are shrunk to gray 16x16 and compared by
    correlation, so brightness and contrast do not count. An image without any contrast is like no
    other. Each image is compared with its four nearest in a projection that never puts two images
    further apart: time grows as n log n, and of many copies of one image not every pair is named.
    """
    shrunk = _shrunk(pixels, n, Ticker(on_progress, "near copies", n))
    flat = np.linalg.norm(shrunk, axis=1) < 0.5
    sample = shrunk[:: max(1, n // _SAMPLE)]
    _, _, axes = np.linalg.svd(sample - sample.mean(axis=0), full_matrices=False)
    projected = shrunk @ axes[:_AXES].T
    reach = float(np.sqrt(2 - 2 * _ALIKE))
    k = min(_PER_IMAGE + 1, n)
    tree = cKDTree(projected)
    _, near = tree.query(projected, k=list(range(1, k + 1)), distance_upper_bound=reach)
    rows, places = np.nonzero(near < n)
    pairs = np.stack([rows, near[rows, places]], axis=1)
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    pairs = pairs[~flat[pairs].any(axis=1)]
    alike = np.einsum("pd,pd->p", shrunk[pairs[:, 0]], shrunk[pairs[:, 1]]).astype(np.float64)
    found = alike >= _ALIKE
    return pairs[found].astype(np.int64), np.minimum(alike[found], 1.0)


def _shrunk(
    pixels: Callable[[IntArray], npt.NDArray[np.uint8]], n: int, ticker: Ticker
) -> npt.NDArray[np.float32]:
    """(N, 256) gray thumbnails of mean 0 and length 1; 0 for an image without contrast."""
    parts = []
    for start in range(0, n, _CHUNK):
        gray = pixels(np.arange(start, min(n, start + _CHUNK))).astype(np.float32).mean(axis=3)
        small = _averaged(_averaged(gray, 1), 2).reshape(len(gray), -1)
        small -= small.mean(axis=1, keepdims=True)
        length = np.linalg.norm(small, axis=1, keepdims=True)
        parts.append(np.where(length > 1.0, small / np.maximum(length, 1.0), 0.0))
        ticker.advance(len(gray))
    return np.concatenate(parts)


def _averaged(images: npt.NDArray[np.float32], axis: int) -> npt.NDArray[np.float32]:
    """The axis cut into at most 16 nearly equal parts, each replaced by its mean."""
    size = images.shape[axis]
    side = min(_SIDE, size)
    starts = np.arange(side) * size // side
    shape = [1, 1, 1]
    shape[axis] = side
    widths = np.diff([*starts, size]).reshape(shape)
    sums = np.add.reduceat(images, starts, axis=axis)
    return (sums / widths).astype(np.float32)
