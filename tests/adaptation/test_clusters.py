from __future__ import annotations

import numpy as np
import pytest
from blobs import blobs

from surelabel.adaptation.clustering import (
    cluster,
    majority_labels,
    nearest_centroid,
    nearest_images,
)


def test_a_centroid_is_the_mean_of_its_members_with_and_without_mini_batches() -> None:
    latents, labels = blobs(500, 0.0, 0)
    for minibatch_above in (10**9, 100):
        clusters = cluster(latents, labels, 7, seed=1, minibatch_above=minibatch_above)
        for number, centroid in enumerate(clusters.centroids):
            np.testing.assert_allclose(centroid, latents[clusters.members == number].mean(axis=0))
        assert clusters.sizes.sum() == len(latents)
        assert clusters.sizes.min() > 0


def test_clusters_of_clean_blobs_have_the_class_of_their_blob() -> None:
    latents, labels = blobs(600, 0.0, 0)
    clusters = cluster(latents, labels, 6, seed=0)
    assert np.mean(clusters.labels[clusters.members] == labels) > 0.95


def test_a_cluster_takes_its_most_frequent_class_and_none_without_labels() -> None:
    labels = np.array([0, 2, 2, -1, 1, 0, -1])
    members = np.array([0, 0, 0, 1, 2, 2, 2])
    assert majority_labels(labels, members, 3).tolist() == [2, -1, 0]
    assert majority_labels(np.full(3, -1), np.array([0, 1, 1]), 2).tolist() == [-1, -1]


def test_no_more_clusters_than_different_latents() -> None:
    latents = np.repeat(np.eye(3), 4, axis=0)
    clusters = cluster(latents, np.repeat([0, 1, 2], 4), 10, seed=0)
    assert len(clusters.labels) == 3
    assert sorted(clusters.labels.tolist()) == [0, 1, 2]


@pytest.mark.parametrize("n", [1, 5, 40, 10**6])
def test_nearest_images_are_those_of_a_full_sort_across_chunks(
    n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    latents, _ = blobs(90, 0.0, 0)
    centroids = latents[:4] + 0.1
    squares = ((latents[:, None] - centroids) ** 2).sum(axis=2)
    whole = squares.argsort(axis=0, kind="stable").T[:, :n]
    monkeypatch.setattr("surelabel.adaptation.clustering._CHUNK", 16)
    assert np.array_equal(nearest_images(latents, centroids, n), whole)
    assert np.array_equal(nearest_centroid(latents, centroids), squares.argmin(axis=1))


def test_the_same_seed_gives_the_same_clusters() -> None:
    latents, labels = blobs(300, 0.0, 0)
    one, two = (cluster(latents, labels, 5, seed=4) for _ in range(2))
    assert np.array_equal(one.centroids, two.centroids)
