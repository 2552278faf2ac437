from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from engine_data import digit_images, digits

from surelabel.engines import inputs as images
from surelabel.engines.inputs import Images


@pytest.fixture(name="in_memory")
def fixture_in_memory(tmp_path: Path) -> Images:
    return digit_images(tmp_path / "cache")


def test_mapped_images_are_the_same_pixels_as_those_in_memory(
    in_memory: Images, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images, "_IN_MEMORY", 0)
    mapped = digit_images(tmp_path / "cache")
    assert mapped._all is None
    assert in_memory._all is not None
    ids = np.random.default_rng(0).permutation(in_memory.catalog.ids)[:30]
    rows = in_memory.rows(ids)
    assert torch.equal(rows, mapped.rows(ids))
    assert torch.equal(in_memory.pixels(rows), mapped.pixels(rows))
    for one, other in zip(in_memory.statistics(3), mapped.statistics(3), strict=True):
        assert torch.equal(one, other)


def test_pixels_are_those_of_the_image_with_the_id(in_memory: Images) -> None:
    originals, _ = digits()
    catalog = in_memory.catalog
    for position in (50, 3, 17):
        pixels = in_memory.pixels(in_memory.rows(catalog.ids[[position]]))
        assert pixels.shape == (1, 1, 8, 8)
        assert pixels.dtype == torch.uint8
        row = int(catalog.paths[position].split(":")[1])
        assert np.array_equal(pixels[0, 0].numpy(), originals[row])


def test_statistics_are_the_mean_and_deviation_of_each_channel(in_memory: Images) -> None:
    mean, std = in_memory.statistics(0)
    every = in_memory.pixels(torch.arange(len(in_memory.catalog))).double().numpy()
    assert mean.numpy() == pytest.approx(every.mean(axis=(0, 2, 3)))
    assert std.numpy() == pytest.approx(every.std(axis=(0, 2, 3)), rel=1e-3)
