from __future__ import annotations

import numpy as np
from blobs import blobs

from surelabel.adapt import cluster, gap


def test_the_same_data_have_no_gap_and_moved_ones_a_growing_one() -> None:
    old, labels = blobs(600, 0.0, 0)
    centroids = cluster(old, labels, 6, 0).centroids
    found = [gap(old, blobs(600, shift, 1)[0], centroids) for shift in (0.0, 1.0, 2.0, 20.0)]
    shares = [each.farther for each in found]
    assert abs(shares[0] - 0.5) < 0.06
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    assert found[-1].ratio > found[0].ratio
    assert gap(old, old, centroids).farther == 0.5


def test_the_sentence_says_what_the_number_says() -> None:
    old, labels = blobs(300, 0.0, 0)
    centroids = cluster(old, labels, 6, 0).centroids
    near, far = gap(old, old, centroids), gap(old, old + 50, centroids)
    assert near.sentence.startswith("The datasets lie close together")
    assert "in 50 of 100 pairs" in near.sentence
    assert far.sentence.startswith("The datasets lie far apart")
    assert "in 100 of 100 pairs" in far.sentence


def test_pairs_are_counted_as_by_hand() -> None:
    old, new = np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0]])
    found = gap(old, new, np.zeros((1, 1)))
    assert found.farther == (1.5 + 3) / 6
    assert found.ratio == 1.5
