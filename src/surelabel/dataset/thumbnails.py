"""Small versions of images: vectors to compare images by their pixels, and encoded thumbnails.

Near duplicates, the order of review and the neighbor vote compare images this way. It is cheap,
needs no model and works before the first round.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
from PIL import Image

from surelabel.dataset.array_store import Pixels
from surelabel.types import FloatArray, IntArray

_MIN_CONTRAST = 1.0
"""Thumbnails that deviate less than this from their mean, in gray levels, are flat."""
_QUERIES_PER_BLOCK = 1000


def thumbnail_vectors(images: Pixels | npt.NDArray[np.float32], side: int) -> FloatArray:
    """(N, D) unit vectors of images (N, S, S, C) that are shrunk to ``side`` x ``side`` blocks.

    The mean is subtracted, so dot products are correlations: brightness and contrast do not
    matter. A flat image becomes zeros and is similar to no other. D is side * side * C.
    """
    vectors = _block_means(images.astype(np.float32), side).reshape(len(images), -1)
    vectors -= vectors.mean(axis=1, keepdims=True)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled = vectors / np.maximum(length, _MIN_CONTRAST)
    return np.where(length > _MIN_CONTRAST, scaled, np.float32(0.0))


def average_pool(images: Pixels, factor: int) -> Pixels:
    """Images (..., H, W) shrunk by a whole factor: each block of pixels becomes its rounded mean.

    Rows and columns that fill no whole block are dropped. The values are those of PyTorch's
    ``avg_pool2d`` on float32, rounded: sums of bytes are exact.
    """
    *leading, height, width = images.shape
    rows, columns = height // factor, width // factor
    whole = images[..., : rows * factor, : columns * factor]
    blocks = whole.reshape(*leading, rows, factor, columns, factor)
    sums = blocks.sum(axis=(-3, -1), dtype=np.uint32).astype(np.float32)
    pooled: Pixels = np.rint(sums / np.float32(factor * factor)).astype(np.uint8)
    return pooled


def nearest_neighbors(
    queries: FloatArray, references: FloatArray, k: int
) -> tuple[IntArray, FloatArray]:
    """The k references most similar to each query, the most similar first: exact search.

    Queries (N, D) and references (M, D) are unit vectors; similarity is their dot product.
    Returns positions of references and similarities, both (N, min(k, M)). Memory is O(M) beside
    the result.
    """
    k = min(k, len(references))
    positions = np.empty((len(queries), k), dtype=np.int64)
    similarities = np.empty((len(queries), k), dtype=np.result_type(queries, references))
    for start in range(0, len(queries) if k else 0, _QUERIES_PER_BLOCK):
        block = slice(start, start + _QUERIES_PER_BLOCK)
        similarity = queries[block] @ references.T
        best = np.sort(np.argpartition(-similarity, k - 1, axis=1)[:, :k], axis=1)
        values = np.take_along_axis(similarity, best, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        positions[block] = np.take_along_axis(best, order, axis=1)
        similarities[block] = np.take_along_axis(values, order, axis=1)
    return positions, similarities


def encode_thumbnail(
    image: Image.Image | Pixels, max_side: int, *, lossless_side: int, jpeg_quality: int
) -> tuple[bytes, str]:
    """The image, at most ``max_side`` pixels wide and high, as a file, and its media type.

    ``image`` is an open file or stored pixels (H, W, C). A result of up to ``lossless_side``
    pixels is a PNG, a larger one a JPEG. Transparency is laid on white.
    """
    picture = image if isinstance(image, Image.Image) else _picture(image)
    if picture.mode in {"LA", "PA", "RGBA", "P"}:
        picture = picture.convert("RGBA")
        white = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(white, picture)
    if picture.mode != "L":
        picture = picture.convert("RGB")
    if max(picture.size) > max_side:
        picture.thumbnail((max_side, max_side), Image.Resampling.LANCZOS)
    encoded = io.BytesIO()
    if max(picture.size) <= lossless_side:
        picture.save(encoded, "PNG")
        return encoded.getvalue(), "image/png"
    picture.save(encoded, "JPEG", quality=jpeg_quality)
    return encoded.getvalue(), "image/jpeg"


def _block_means(images: npt.NDArray[np.float32], side: int) -> npt.NDArray[np.float32]:
    """(N, S, S, C) -> (N, side, side, C), means of nearly equal blocks; small images are repeated.

    First rows are averaged, then columns.
    """
    size = images.shape[1]
    if size == side:
        return images
    starts = np.arange(side) * size // side
    if size < side:
        return images[:, starts][:, :, starts]
    widths = np.diff([*starts, size])
    for axis, shape in ((1, (-1, 1, 1)), (2, (-1, 1))):
        sums = np.add.reduceat(images, starts, axis=axis)
        images = (sums / widths.reshape(shape)).astype(np.float32)
    return images


def _picture(pixels: Pixels) -> Image.Image:
    return Image.fromarray(np.asarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels))
