from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from engine_data import digit_images, tiny
from torch import Tensor

from surelabel.engines import LocalLearner, alike
from surelabel.engines.alike import most_alike
from surelabel.types import IntArray, Progress


def photos(n: int = 12, side: int = 28) -> Tensor:
    """Smooth random images, (2n, 1, S, S): the second n are the first, darker and flatter."""
    coarse = np.random.default_rng(0).integers(0, 255, (n, 1, side // 7, side // 7))
    images = torch.from_numpy(np.kron(coarse, np.ones((1, 1, 7, 7)))).float()
    return torch.cat([images, 0.4 * images + 20]).to(torch.uint8)


def nearest(images: Tensor, n: int = 1) -> IntArray:
    every = torch.arange(len(images))
    return most_alike(lambda rows: images[rows], every, every, n, seed=0)


def test_an_image_is_most_like_its_darker_and_flatter_self() -> None:
    assert nearest(photos())[:, 0].tolist() == [*range(12, 24), *range(12)]


def test_no_image_is_like_itself() -> None:
    found = nearest(photos(), n=8)
    assert found.shape == (24, 8)
    assert (found != np.arange(24)[:, None]).all()
    assert all(len(set(row)) == 8 for row in found.tolist())


def test_places_are_those_in_the_images_asked() -> None:
    images = photos()
    among = torch.tensor([15, 3, 20])
    found = most_alike(lambda rows: images[rows], torch.tensor([3, 8]), among, 1, seed=0)
    assert found.tolist() == [[0], [2]]


def test_with_few_others_the_last_is_asked_again() -> None:
    found = nearest(photos(2), n=20)
    assert found.shape == (4, 20)
    assert (found != np.arange(4)[:, None]).all()
    assert all(set(row) == set(range(4)) - {i} for i, row in enumerate(found.tolist()))


def test_an_image_without_contrast_breaks_nothing() -> None:
    images = photos()
    images[5] = 7
    assert nearest(images).shape == (24, 1)


def test_of_very_many_others_a_part_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "_MOST", 10)
    first, again = nearest(photos(), n=3), nearest(photos(), n=3)
    assert np.array_equal(first, again)
    assert len(np.unique(first)) <= 10
    assert (first != np.arange(24)[:, None]).all()


def test_batches_change_nothing_and_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    images, whole = photos(), nearest(photos(), n=4)
    monkeypatch.setattr(alike, "_BATCH", 5)
    told: list[Progress] = []
    every = torch.arange(len(images))
    parts = most_alike(lambda r: images[r], every, every, 4, seed=0, on_progress=told.append)
    assert np.array_equal(parts, whole)
    assert [p.done for p in told] == [5, 10, 15, 20, 24]


def test_the_learner_knows_the_copy_of_an_image(tmp_path: Path) -> None:
    images = digit_images(tmp_path / "cache")
    learner = LocalLearner(tiny(), images)
    ids = images.catalog.ids
    found = learner.alike(ids, ids, 3)
    assert found is not None
    assert found[0, 0] == 23  # the last human one is there twice
