from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.arrays import read_idx
from surelabel.dataset.build import build_catalog
from surelabel.types import IntArray, Split

MNIST = Path(__file__).resolve().parents[3] / "shared" / "data" / "mnist"
IMAGES = MNIST / "train-images-idx3-ubyte.gz"
LABELS = MNIST / "train-labels-idx1-ubyte.gz"

pytestmark = pytest.mark.skipif(not IMAGES.exists(), reason=f"MNIST is not in {MNIST}")


def fifty_a_class() -> IntArray:
    truth = read_idx(LABELS).astype(np.int64)
    labels = np.full(len(truth), -1, dtype=np.int64)
    for k in range(10):
        chosen = np.random.default_rng(k).permutation(np.flatnonzero(truth == k))[:50]
        labels[chosen] = k
    return labels


def test_sixty_thousand_digits_become_a_catalog(tmp_path: Path) -> None:
    labels = fifty_a_class()
    catalog = build_catalog(IMAGES, labels, seed=0, cache=tmp_path)
    assert (len(catalog), catalog.size, catalog.channels) == (60_000, 28, 1)
    assert catalog.classes == tuple("0123456789")
    assert catalog.paths[12] == "train-images-idx3-ubyte:00012"
    assert not catalog.cross_fit
    for split, n in ((Split.TRAIN, 40), (Split.TUNE, 10)):
        assert np.bincount(catalog.labels_of(catalog.in_split(split))).tolist() == [n] * 10
    shuffled = np.random.default_rng(0).permutation(catalog.ids)
    rows = catalog.rows(shuffled)
    assert catalog.ids[rows].tolist() == shuffled.tolist()
    pixels = PixelStore(tmp_path, 28, 1).gather(catalog.digests[rows])
    assert (pixels[..., 0] == read_idx(IMAGES)[rows]).all()


def test_labels_can_come_as_the_idx_file(tmp_path: Path) -> None:
    test_images, test_labels = (
        MNIST / "t10k-images-idx3-ubyte.gz",
        MNIST / "t10k-labels-idx1-ubyte.gz",
    )
    catalog = build_catalog(test_images, test_labels, seed=0, cache=tmp_path)
    assert catalog.labels.tolist() == read_idx(test_labels).tolist()
    assert len(catalog.in_split(Split.TUNE)) == pytest.approx(2000, abs=10)
