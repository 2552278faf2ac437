from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from surelabel.dataset.array_store import PixelStore
from surelabel.review import similarity
from surelabel.review.similarity import most_similar, similarity_order, similarity_vectors


def store_of(folder: Path, pixels: np.ndarray) -> tuple[PixelStore, np.ndarray]:
    store = PixelStore(folder, pixels.shape[1], pixels.shape[3])
    digests = np.array([f"{n:032x}" for n in range(len(pixels))])
    store.add(digests, pixels)
    return store, digests


@pytest.mark.parametrize("size", [4, 8, 13, 32])
@pytest.mark.parametrize("channels", [1, 3])
def test_vectors_have_length_one_whatever_the_size(
    tmp_path: Path, size: int, channels: int
) -> None:
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (5, size, size, channels), dtype=np.uint8)
    vectors = similarity_vectors(*store_of(tmp_path, pixels))
    assert vectors.shape == (5, 64 * channels)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(5), abs=1e-5)


def test_brightness_and_contrast_do_not_matter(tmp_path: Path) -> None:
    pattern = np.random.default_rng(0).integers(0, 100, (16, 16, 1))
    pair = np.stack([pattern, 2 * pattern + 30]).astype(np.uint8)
    vectors = similarity_vectors(*store_of(tmp_path, pair))
    assert vectors[0] @ vectors[1] == pytest.approx(1, abs=1e-4)


def test_pixels_that_are_gone_are_zeros_and_empty_is_empty(tmp_path: Path) -> None:
    store, digests = store_of(tmp_path, np.full((1, 8, 8, 1), 7, dtype=np.uint8))
    vectors = similarity_vectors(store, np.array([digests[0], "f" * 32]))
    assert not vectors.any()
    assert similarity_order(np.zeros((0, 64))).tolist() == []


def test_the_most_similar_come_first() -> None:
    angles = np.array([0.0, 3.0, 0.2, 1.0])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert most_similar(vectors, 0, np.arange(4), 3).tolist() == [0, 2, 3]
    assert most_similar(vectors, 0, np.array([1, 3]), 9).tolist() == [0, 3, 1]


def test_the_order_visits_one_cluster_after_the_other() -> None:
    rng = np.random.default_rng(1)
    centers = np.eye(3)[rng.integers(0, 3, 30)]
    order = similarity_order(centers + 0.01 * rng.standard_normal((30, 3)))
    assert sorted(order.tolist()) == list(range(30))
    visited = centers[order].argmax(axis=1)
    assert (np.diff(visited) != 0).sum() == 2


def test_many_images_are_ordered_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    vectors = rng.standard_normal((400, 6)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    whole = similarity_order(vectors)
    monkeypatch.setattr(similarity, "_MAX_PART", 50)
    parted = similarity_order(vectors)
    assert sorted(parted.tolist()) == list(range(400))
    assert parted.tolist() == similarity_order(vectors).tolist()

    def mean_similarity(order: np.ndarray) -> float:
        return float((vectors[order[1:]] * vectors[order[:-1]]).sum(axis=1).mean())

    by_chance = mean_similarity(np.arange(400))
    assert mean_similarity(parted) > by_chance + 0.7 * (mean_similarity(whole) - by_chance)


def test_images_that_are_all_the_same_are_ordered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "_MAX_PART", 8)
    for vectors in (np.zeros((50, 4)), np.ones((50, 4)) / 2):
        assert sorted(similarity_order(vectors).tolist()) == list(range(50))
