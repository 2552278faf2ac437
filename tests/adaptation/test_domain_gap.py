from __future__ import annotations

import numpy as np
import pytest
from blobs import blobs

from surelabel.adaptation.clustering import cluster
from surelabel.adaptation.domain_gap import distances_apart, gap


def test_the_same_data_have_no_gap_and_moved_ones_a_growing_one() -> None:
    old, labels = blobs(600, 0.0, 0)
    centroids = cluster(old, labels, 6, 0).centroids
    found = [
        distances_apart(old, blobs(600, shift, 1)[0], centroids) for shift in (0.0, 1.0, 2.0, 20.0)
    ]
    shares = [each.farther for each in found]
    assert abs(shares[0] - 0.5) < 0.06
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert found[-1].ratio > found[0].ratio
    assert distances_apart(old, old, centroids).farther == 0.5


def test_the_sentence_says_what_the_number_says() -> None:
    old, labels = blobs(300, 0.0, 0)
    centroids = cluster(old, labels, 6, 0).centroids
    near, far = distances_apart(old, old, centroids), distances_apart(old, old + 50, centroids)
    assert near.sentence.startswith("The datasets lie close together")
    assert "in 50 of 100 pairs" in near.sentence
    assert far.sentence.startswith("The datasets lie far apart")
    assert "in 100 of 100 pairs" in far.sentence


def test_pairs_are_counted_as_by_hand() -> None:
    old, new = np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0]])
    found = distances_apart(old, new, np.zeros((1, 1)))
    assert found.farther == (1.5 + 3) / 6
    assert found.ratio == 1.5


@pytest.mark.parametrize(("n", "width", "k"), [(400, 64, 16), (1000, 128, 16), (1000, 128, 80)])
@pytest.mark.parametrize("n_unseen", [0, 200])
def test_datasets_of_one_kind_lie_close_together(n: int, width: int, k: int, n_unseen: int) -> None:
    """However many clusters fit themselves to the old images."""
    rng = np.random.default_rng(0)
    old, new = rng.normal(size=(n, width)), rng.normal(size=(n, width))
    found = gap(old, np.arange(n) < n_unseen, new, k, 0)
    assert abs(found.farther - 0.5) < 0.06
    assert gap(old, np.arange(n) < n_unseen, 3 * new, k, 0).farther > 0.99
