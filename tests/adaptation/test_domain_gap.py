from __future__ import annotations

import numpy as np
import pytest
from blobs import blobs

from surelabel.adaptation.clustering import cluster
from surelabel.adaptation.domain_gap import domain_gap, gap_from


def test_equal_datasets_have_no_gap_and_moved_ones_a_growing_one() -> None:
    old, labels = blobs(600, 0.0, 0)
    centroids = cluster(old, labels, 6, 0).centroids
    gaps = [gap_from(centroids, old, blobs(600, shift, 1)[0]) for shift in (0.0, 1.0, 2.0, 20.0)]
    shares = [each.farther for each in gaps]
    assert abs(shares[0] - 0.5) < 0.06
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert gaps[-1].ratio > gaps[0].ratio
    assert gap_from(centroids, old, old).farther == 0.5


def test_the_sentence_gives_the_number() -> None:
    old, labels = blobs(300, 0.0, 0)
    centroids = cluster(old, labels, 6, 0).centroids
    near, far = gap_from(centroids, old, old), gap_from(centroids, old, old + 50)
    assert "close together" in near.sentence
    assert "50 of 100" in near.sentence
    assert "far apart" in far.sentence
    assert "100 of 100" in far.sentence


def test_pairs_are_counted_as_by_hand() -> None:
    old, new = np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0]])
    gap = gap_from(np.zeros((1, 1)), old, new)
    assert gap.farther == (1.5 + 3) / 6
    assert gap.ratio == 1.5


@pytest.mark.parametrize(("n", "width", "k"), [(400, 64, 16), (1000, 128, 16), (1000, 128, 80)])
@pytest.mark.parametrize("n_unseen", [0, 200])
def test_datasets_of_one_kind_are_close_together(n: int, width: int, k: int, n_unseen: int) -> None:
    """However many clusters fit themselves to the old images."""
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(n, width)), rng.normal(size=(n, width))
    gap = domain_gap(old, np.arange(n) < n_unseen, new, k, 0)
    assert abs(gap.farther - 0.5) < 0.06
    assert domain_gap(old, np.arange(n) < n_unseen, 3 * new, k, 0).farther > 0.99
