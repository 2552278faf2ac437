"""Images with the same bytes, and near duplicates: saved again, resized, brightened, or a burst."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from surelabel.dataset.array_store import Pixels
from surelabel.dataset.parallel import ProgressCounter
from surelabel.dataset.thumbnails import thumbnail_vectors
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

_SIDE = 16
"""Side of the gray thumbnails that are compared."""
_COARSE_SIDE = 8
"""Side of those that color images are compared by: a small copy of a small image keeps no more."""
_MIN_CORRELATION = 0.995
"""Two thumbnails that correlate at least this much are near duplicates."""
_MIN_COARSE_CORRELATION = 0.99
"""The same for the coarse ones of color images, if those of side 16 do not contradict it."""
_MIN_FINE_CORRELATION = 0.95
_N_COMPONENTS = 12
"""Principal components in which neighbors are searched."""
_SAMPLE_SIZE = 2000
"""Thumbnails from which the principal components are computed."""
_MAX_PER_IMAGE = 4
_BATCH_SIZE = 512


def copied_labels(digests: Ids, labels: IntArray, labeled: BoolArray) -> IntArray:
    """(N,) the label that each image takes over from ``labeled`` images with the same bytes, or -1.

    ``labeled`` (N,) marks the human labels that may be read (train and tune, never certify).
    Where the labels of identical images contradict each other, none is copied. The labeled images
    themselves get -1.
    """
    copies = np.full(len(labels), UNLABELED, dtype=np.int64)
    if not labeled.any():
        return copies
    known, image = np.unique(digests[labeled], return_inverse=True)
    lowest, highest = _label_range(image, labels[labeled], len(known))
    agreed = np.where(lowest == highest, highest, UNLABELED)
    at = np.minimum(np.searchsorted(known, digests), len(known) - 1)
    is_copy = (known[at] == digests) & ~labeled
    copies[is_copy] = agreed[at[is_copy]]
    return copies


def contradictory(digests: Ids, labels: IntArray) -> BoolArray:
    """(L,) whether an identical image has another label; an empty digest equals no other."""
    known, image = np.unique(digests, return_inverse=True)
    lowest, highest = _label_range(image, labels, len(known))
    different: BoolArray = (lowest != highest)[image] & (digests != "")
    return different


def contradictions(catalog: Catalog) -> list[tuple[int, int]]:
    """Two rows of each image that people labeled differently: the first, and the first unlike it.

    Certify labels stay hidden, so they are not compared.
    """
    given = (catalog.labels != UNLABELED) & (catalog.sources == LabelSource.GIVEN)
    rows = np.flatnonzero(given & (catalog.splits != Split.CERTIFY))
    first: dict[str, int] = {}
    pairs: dict[str, tuple[int, int]] = {}
    for row in rows[contradictory(catalog.digests[rows], catalog.labels[rows])].tolist():
        digest = catalog.digests[row]
        before = first.setdefault(digest, row)
        if catalog.labels[before] != catalog.labels[row]:
            pairs.setdefault(digest, (before, row))
    return list(pairs.values())


def find_near_duplicates(
    pixels: Callable[[IntArray], Pixels], n: int, on_progress: OnProgress = no_progress
) -> tuple[IntArray, FloatArray]:
    """Pairs of near duplicates among n images, (P, 2) with the lower row first; correlations (P,).

    ``pixels`` returns images (B, S, S, C) by row. They are compared as gray thumbnails by
    correlation, so brightness and contrast do not matter, and flat images are left out. Color
    images are compared coarsely first: of photographs of 32 pixels, 16x16 thumbnails find 3 % of
    the copies at half the size, 8x8 ones 93 % (at .99, before the finer ones are asked). Gray
    digits would be mistaken for each other. Each image is compared with its four nearest neighbors
    in a projection that never increases distances. A k-d tree finds them in O(n log n), where the
    exact search of ``thumbnails`` takes O(n^2). Of many copies of one image not every pair is
    listed.
    """
    fine, coarse = _gray_vectors(pixels, n, ProgressCounter(on_progress, "near duplicates", n))
    vectors, lowest = (
        (fine, _MIN_CORRELATION) if coarse is None else (coarse, _MIN_COARSE_CORRELATION)
    )
    flat = np.linalg.norm(vectors, axis=1) < 0.5
    sample = vectors[:: max(1, n // _SAMPLE_SIZE)]
    _, _, components = np.linalg.svd(sample - sample.mean(axis=0), full_matrices=False)
    projected = vectors @ components[:_N_COMPONENTS].T
    max_distance = float(np.sqrt(2 - 2 * lowest))
    k = min(_MAX_PER_IMAGE + 1, n)
    tree = cKDTree(projected)
    _, near = tree.query(projected, k=list(range(1, k + 1)), distance_upper_bound=max_distance)
    rows, places = np.nonzero(near < n)
    pairs = np.stack([rows, near[rows, places]], axis=1)
    pairs = np.unique(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1), axis=0)
    pairs = pairs[~flat[pairs].any(axis=1)]
    correlation = _correlations(vectors, pairs)
    duplicate = correlation >= lowest
    if coarse is not None:
        duplicate &= _correlations(fine, pairs) >= _MIN_FINE_CORRELATION
    return pairs[duplicate].astype(np.int64), np.minimum(correlation[duplicate], 1.0)


def _correlations(vectors: FloatArray, pairs: IntArray) -> FloatArray:
    """(P,) the correlation of the two thumbnails of each pair."""
    products: FloatArray = np.einsum("pd,pd->p", vectors[pairs[:, 0]], vectors[pairs[:, 1]])
    return products.astype(np.float64)


def _gray_vectors(
    pixels: Callable[[IntArray], Pixels], n: int, progress: ProgressCounter
) -> tuple[FloatArray, FloatArray | None]:
    """(N, 256) gray thumbnails as vectors, and (N, 64) coarse ones if the images are in color."""
    fine, coarse, is_color = [], [], False
    for start in range(0, n, _BATCH_SIZE):
        images = pixels(np.arange(start, min(n, start + _BATCH_SIZE)))
        gray = images.astype(np.float32).mean(axis=3, keepdims=True)
        fine.append(thumbnail_vectors(gray, min(_SIDE, gray.shape[1])))
        is_color = images.shape[3] == 3
        if is_color:
            coarse.append(thumbnail_vectors(gray, min(_COARSE_SIDE, gray.shape[1])))
        progress.advance(len(gray))
    return np.concatenate(fine), np.concatenate(coarse) if is_color else None


def _label_range(image: IntArray, labels: IntArray, n_images: int) -> tuple[IntArray, IntArray]:
    """The lowest and the highest label of each distinct image; ``image`` (L,) numbers them."""
    lowest = np.full(n_images, np.iinfo(np.int64).max)
    highest = np.full(n_images, UNLABELED, dtype=np.int64)
    np.minimum.at(lowest, image, labels)
    np.maximum.at(highest, image, labels)
    return lowest, highest
