from __future__ import annotations

import io
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image
from scipy.spatial import cKDTree

from surelabel.dataset import thumbnails
from surelabel.dataset.thumbnails import (
    average_pool,
    encode_thumbnail,
    nearest_neighbors,
    thumbnail_vectors,
)
from surelabel.types import FloatArray


def images(n: int, size: int, channels: int, seed: int = 0) -> np.ndarray:
    shape = (n, size, size, channels)
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def unit_vectors(n: int, seed: int) -> FloatArray:
    vectors = np.random.default_rng(seed).standard_normal((n, 6))
    scaled: FloatArray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return scaled


@pytest.mark.parametrize("size", [5, 8, 13, 32])
@pytest.mark.parametrize("channels", [1, 3])
def test_dot_products_of_vectors_are_correlations_of_block_means(size: int, channels: int) -> None:
    photos = images(6, size, channels)
    vectors = thumbnail_vectors(photos, 4)
    edges = np.arange(5) * size // 4
    blocks = [
        photos[:, top:bottom, left:right].mean(axis=(1, 2))
        for top, bottom in pairwise(edges.tolist())
        for left, right in pairwise(edges.tolist())
    ]
    means = np.stack(blocks, axis=1).reshape(6, -1)
    assert vectors @ vectors.T == pytest.approx(np.corrcoef(means), abs=1e-5)


def test_brightness_and_contrast_do_not_matter_and_flat_images_are_zeros() -> None:
    pattern = np.random.default_rng(0).integers(0, 100, (16, 16, 1))
    flat = np.full((16, 16, 1), 7)
    vectors = thumbnail_vectors(np.stack([pattern, 2 * pattern + 30, flat]).astype(np.uint8), 8)
    assert vectors[0] @ vectors[1] == pytest.approx(1, abs=1e-4)
    assert not vectors[2].any()


@pytest.mark.parametrize(("size", "factor"), [(28, 2), (16, 1), (31, 2), (64, 5), (224, 16)])
def test_average_pool_has_the_values_of_torch(size: int, factor: int) -> None:
    torch = pytest.importorskip("torch")
    photos = np.moveaxis(images(20, size, 3), -1, 1)
    pooled = torch.nn.functional.avg_pool2d(torch.from_numpy(photos.copy()).float(), factor)
    assert (average_pool(photos, factor) == pooled.round().to(torch.uint8).numpy()).all()


@pytest.mark.parametrize("block", [7, 1000])
def test_neighbors_are_those_of_a_k_d_tree(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(thumbnails, "_QUERIES_PER_BLOCK", block)
    queries, references = unit_vectors(30, 1), unit_vectors(200, 2)
    positions, similarity = nearest_neighbors(queries, references, 9)
    distances, expected = cKDTree(references).query(queries, k=9)
    assert positions.tolist() == expected.tolist()
    assert similarity == pytest.approx(1 - distances**2 / 2)


@pytest.mark.parametrize(("n", "m", "k"), [(0, 3, 2), (3, 0, 2), (3, 3, 0)])
def test_nothing_to_search_has_no_neighbors(n: int, m: int, k: int) -> None:
    positions, similarity = nearest_neighbors(unit_vectors(n, 0), unit_vectors(m, 1), k)
    assert positions.shape == similarity.shape == (n, min(m, k))


@pytest.mark.parametrize(
    ("size", "channels", "media_type", "side"),
    [(20, 1, "image/png", 20), (48, 3, "image/png", 48), (200, 3, "image/jpeg", 96)],
)
def test_small_pixels_are_kept_exactly_and_large_ones_shrunk(
    size: int, channels: int, media_type: str, side: int
) -> None:
    (pixels,) = images(1, size, channels)
    content, kind = encode_thumbnail(pixels, 96, lossless_side=48, jpeg_quality=82)
    with Image.open(io.BytesIO(content)) as shown:
        assert (kind, shown.size) == (media_type, (side, side))
        if kind == "image/png":
            assert np.asarray(shown).tolist() == np.squeeze(pixels).tolist()


def test_transparency_is_laid_on_white() -> None:
    content, _ = encode_thumbnail(
        Image.new("RGBA", (9, 9), (0, 0, 0, 0)), 96, lossless_side=48, jpeg_quality=82
    )
    with Image.open(io.BytesIO(content)) as shown:
        assert shown.getpixel((4, 4)) == (255, 255, 255)
