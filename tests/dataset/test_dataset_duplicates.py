from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from surelabel.dataset.duplicates import copied_labels, find_near_duplicates
from surelabel.dataset.items import string_array
from surelabel.types import Progress


def test_copies_get_the_label_that_identical_images_agree_on() -> None:
    digests = string_array(["a", "a", "b", "b", "b", "c", "a", "d"])
    labels = np.array([1, -1, 0, 1, -1, -1, 1, -1])
    labeled = np.array([1, 0, 1, 1, 0, 0, 1, 0], dtype=np.bool_)
    assert copied_labels(digests, labels, labeled).tolist() == [-1, 1, -1, -1, -1, -1, -1, -1]


def test_without_labels_nothing_is_copied() -> None:
    unlabeled = np.zeros(2, dtype=np.bool_)
    labels = np.array([0, -1])
    assert copied_labels(string_array(["a", "a"]), labels, unlabeled).tolist() == [-1, -1]


RNG = np.random.default_rng(4)


def photographs(n: int, size: int = 64) -> np.ndarray:
    """Blurred noise: no two are similar."""
    coarse = RNG.integers(0, 256, (n, 9, 9, 3), dtype=np.uint8)
    large = [Image.fromarray(c).resize((size, size), Image.Resampling.BICUBIC) for c in coarse]
    return np.stack([np.asarray(each) for each in large])


def pairs_of(images: np.ndarray) -> list[tuple[int, int]]:
    pairs, correlation = find_near_duplicates(lambda rows: images[rows], len(images))
    assert len(pairs) == len(correlation)
    assert ((correlation >= 0.99) & (correlation <= 1)).all()
    return [(int(a), int(b)) for a, b in pairs]


def saved_again(image: np.ndarray, quality: int) -> np.ndarray:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file))


def test_a_photograph_saved_again_brightened_or_resized_is_a_near_duplicate() -> None:
    images = photographs(60)
    again = saved_again(images[3], 40)
    brighter = np.clip(images[10] * 0.7 + 60, 0, 255).astype(np.uint8)
    shrunk = Image.fromarray(images[20]).resize((40, 40)).resize((64, 64))
    copies = np.stack([again, brighter, np.asarray(shrunk)])
    assert pairs_of(np.concatenate([images, copies])) == [(3, 60), (10, 61), (20, 62)]


def test_small_photographs_are_found_at_half_their_size() -> None:
    rng = np.random.default_rng(3)
    detailed = rng.integers(0, 256, (40, 24, 24, 3), dtype=np.uint8)
    coarse = rng.integers(0, 256, (40, 5, 5, 3), dtype=np.uint8)
    originals = [
        Image.blend(Image.fromarray(a).resize((32, 32)), Image.fromarray(b).resize((32, 32)), 0.7)
        for a, b in zip(detailed, coarse, strict=True)
    ]
    halves = [each.resize((16, 16)) for each in originals[:20]]
    images = np.stack([np.asarray(each.resize((64, 64))) for each in (*originals, *halves)])
    assert pairs_of(images) == [(i, 40 + i) for i in range(20)]


def test_different_photographs_and_flat_ones_are_no_duplicates() -> None:
    images = photographs(200)
    images[:3] = 200
    assert pairs_of(images) == []


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_few_small_images_are_enough(n: int) -> None:
    images = RNG.integers(0, 256, (n, 8, 8, 1), dtype=np.uint8)
    assert pairs_of(images) == []
    both = np.concatenate([images, images[:1]])
    assert pairs_of(both) == [(0, n)]


def test_many_copies_of_one_image_stay_a_short_list() -> None:
    images = np.repeat(photographs(1), 300, axis=0)
    pairs = pairs_of(images)
    assert len(pairs) <= 300 * 5
    assert {row for pair in pairs for row in pair} == set(range(300))


def test_progress_reaches_the_last_image() -> None:
    reports: list[Progress] = []
    images = photographs(20)
    find_near_duplicates(lambda rows: images[rows], len(images), reports.append)
    assert (reports[0].done, reports[-1].done, reports[-1].total) == (0, 20, 20)
