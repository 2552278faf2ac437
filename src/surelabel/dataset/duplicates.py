"""Images with the same bytes, and near duplicates: saved again, resized, brightened, or a burst."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from scipy.spatial import cKDTree

from surelabel.dataset.array_store import Pixels
from surelabel.dataset.parallel import ProgressCounter
from surelabel.dataset.thumbnails import thumbnail_vectors
from surelabel.files.mapped_arrays import slices, zeros
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
_PAIRS = 1 << 14
"""Pairs that are compared at a time."""


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
    for part in slices(len(digests)):
        at = np.minimum(np.searchsorted(known, digests[part]), len(known) - 1)
        is_copy = (known[at] == digests[part]) & ~labeled[part]
        copies[part][is_copy] = agreed[at[is_copy]]
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
    progress = ProgressCounter(on_progress, "near duplicates", n)
    rows = np.arange(0, n, max(1, n // _SAMPLE_SIZE))
    sample, is_color = _coarse_vectors(pixels, rows)
    lowest = _MIN_COARSE_CORRELATION if is_color else _MIN_CORRELATION
    _, _, components = np.linalg.svd(sample - sample.mean(axis=0), full_matrices=False)
    projected = zeros((n, len(components[:_N_COMPONENTS])), np.float32)
    flat = np.zeros(n, dtype=np.bool_)
    for part in slices(n):
        vectors, _ = _coarse_vectors(pixels, np.arange(part.start, part.stop), progress)
        flat[part] = np.linalg.norm(vectors, axis=1) < 0.5
        projected[part] = vectors @ components[:_N_COMPONENTS].T
    pairs = _near(projected, float(np.sqrt(2 - 2 * lowest)))
    pairs = pairs[~flat[pairs].any(axis=1)]
    correlation = np.zeros(len(pairs))
    duplicate = np.zeros(len(pairs), dtype=np.bool_)
    for part in slices(len(pairs), _PAIRS):
        correlation[part] = _correlations(pixels, pairs[part], _coarse_vectors)
        duplicate[part] = correlation[part] >= lowest
        if is_color:
            fine = _correlations(pixels, pairs[part], _fine_vectors)
            duplicate[part] &= fine >= _MIN_FINE_CORRELATION
    return pairs[duplicate].astype(np.int64), np.minimum(correlation[duplicate], 1.0)


def _near(projected: FloatArray, max_distance: float) -> IntArray:
    """(P, 2) pairs of rows, each image with its four nearest within ``max_distance``."""
    n = len(projected)
    tree = cKDTree(projected)
    places = list(range(1, min(_MAX_PER_IMAGE + 1, n) + 1))
    found = [np.empty((0, 2), dtype=np.int64)]
    for part in slices(n):
        asked = tree.indices[part]  # neighbors after each other: what they visit is cached
        _, near = tree.query(projected[asked], k=places, distance_upper_bound=max_distance)
        rows, columns = np.nonzero(near < n)
        pairs = np.stack([asked[rows], near[rows, columns]], axis=1)
        found.append(np.sort(pairs[pairs[:, 0] != pairs[:, 1]], axis=1))
    return np.unique(np.concatenate(found), axis=0)


def _correlations(
    pixels: Callable[[IntArray], Pixels],
    pairs: IntArray,
    vectors_of: Callable[[Callable[[IntArray], Pixels], IntArray], tuple[FloatArray, bool]],
) -> FloatArray:
    """(P,) the correlation of the two thumbnails of each pair."""
    rows, places = np.unique(pairs, return_inverse=True)
    vectors, _ = vectors_of(pixels, rows)
    places = places.reshape(pairs.shape)
    products: FloatArray = np.einsum("pd,pd->p", vectors[places[:, 0]], vectors[places[:, 1]])
    return products.astype(np.float64)


def _coarse_vectors(
    pixels: Callable[[IntArray], Pixels], rows: IntArray, progress: ProgressCounter | None = None
) -> tuple[FloatArray, bool]:
    """Gray thumbnails as vectors: (M, 64) of color images, (M, 256) of others; and if in color."""
    return _vectors(pixels, rows, _COARSE_SIDE, progress)


def _fine_vectors(pixels: Callable[[IntArray], Pixels], rows: IntArray) -> tuple[FloatArray, bool]:
    """(M, 256) gray thumbnails as vectors, and whether the images are in color."""
    return _vectors(pixels, rows, _SIDE)


def _vectors(
    pixels: Callable[[IntArray], Pixels],
    rows: IntArray,
    side_in_color: int,
    progress: ProgressCounter | None = None,
) -> tuple[FloatArray, bool]:
    vectors, is_color = [], False
    for part in slices(len(rows), _BATCH_SIZE):
        images = pixels(rows[part])
        is_color = images.shape[3] == 3
        gray = images.astype(np.float32)
        gray = gray.mean(axis=3, keepdims=True) if is_color else gray
        side = side_in_color if is_color else _SIDE
        vectors.append(thumbnail_vectors(gray, min(side, gray.shape[1])))
        if progress is not None:
            progress.advance(len(gray))
    return np.concatenate(vectors), is_color


def _label_range(image: IntArray, labels: IntArray, n_images: int) -> tuple[IntArray, IntArray]:
    """The lowest and the highest label of each distinct image; ``image`` (L,) numbers them."""
    lowest = np.full(n_images, np.iinfo(np.int64).max)
    highest = np.full(n_images, UNLABELED, dtype=np.int64)
    np.minimum.at(lowest, image, labels)
    np.maximum.at(highest, image, labels)
    return lowest, highest
