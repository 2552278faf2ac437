from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from blobs import CLASSES, blobs, two_datasets

from surelabel.adaptation.clustering import (
    CentroidSet,
    adapted_centroids,
    cluster,
    join_centroids,
    remove_worst_centroids,
)


def centroids_and_decide_labels(seed: int = 0) -> tuple[CentroidSet, np.ndarray, np.ndarray]:
    """A centroid set, and the latents and labels that decide."""
    given, _ = two_datasets(2.0, seed)
    old = cluster(given.old, given.old_labels, 8, seed)
    new = cluster(given.new_net1, given.new_labels, 8, seed)
    adapted = adapted_centroids(new, given.new_net1, given.new, 8)
    return (
        join_centroids(old, adapted, new.labels),
        given.new[given.decide_rows],
        given.decide_labels,
    )


def test_without_removals_the_joined_set_contains_both_sides() -> None:
    given, _ = two_datasets(2.0)
    old = cluster(given.old, given.old_labels, 8, 0)
    new = cluster(given.new_net1, given.new_labels, 8, 0)
    adapted = adapted_centroids(new, given.new_net1, given.new, 8)
    centroid_set = join_centroids(old, adapted, new.labels)
    known = new.labels >= 0
    assert np.array_equal(centroid_set.centroids[~centroid_set.is_adapted], old.centroids)
    assert np.array_equal(centroid_set.centroids[centroid_set.is_adapted], adapted[known])
    assert np.array_equal(centroid_set.labels[centroid_set.is_adapted], new.labels[known])
    assert centroid_set.kept.all()


def test_with_the_same_net_data_and_seed_and_whole_clusters_adapted_centroids_are_the_old() -> None:
    latents, labels = blobs(300, 0.0, 0)
    old, new = (cluster(latents, labels, 9, seed=5) for _ in range(2))
    adapted = adapted_centroids(new, latents, latents, None)
    np.testing.assert_allclose(adapted, old.centroids, rtol=1e-12)
    few = adapted_centroids(new, latents, latents, 3)
    assert not np.allclose(few, old.centroids)


@pytest.mark.parametrize("seed", range(5))
def test_every_removal_raises_the_share_of_right_decide_labels(seed: int) -> None:
    centroid_set, latents, labels = centroids_and_decide_labels(seed)
    reduced, scores = remove_worst_centroids(centroid_set, latents, labels)
    assert scores[0] == np.mean(centroid_set.predict(latents, CLASSES) == labels)
    assert scores[-1] == np.mean(reduced.predict(latents, CLASSES) == labels)
    assert all(before < after for before, after in itertools.pairwise(scores))
    assert len(scores) == 1 + int((~reduced.kept).sum())


def one_by_one(centroid_set: CentroidSet, latents: np.ndarray, labels: np.ndarray) -> list[float]:
    """Step 6 as it is written: classify anew without each cluster, remove the worst, repeat."""

    def right(kept: np.ndarray) -> float:
        guess = replace(centroid_set, kept=kept).predict(latents, CLASSES)
        return float(np.mean(guess == labels))

    kept, scores = centroid_set.kept, [right(centroid_set.kept)]
    while True:
        tried = {}
        for i in np.flatnonzero(kept).tolist():
            if (kept & (centroid_set.labels == centroid_set.labels[i])).sum() > 1:
                tried[i] = right(kept & (np.arange(len(kept)) != i))
        if not tried or max(tried.values()) <= scores[-1]:
            return scores
        scores.append(max(tried.values()))
        best = next(i for i in order_of(centroid_set) if tried.get(i) == scores[-1])
        kept = kept & (np.arange(len(kept)) != best)


def order_of(centroid_set: CentroidSet) -> list[int]:
    """Among equally bad clusters: by class, then by coordinates."""
    keys = [
        (int(label), *c)
        for label, c in zip(centroid_set.labels, centroid_set.centroids, strict=True)
    ]
    return sorted(range(len(keys)), key=lambda i: keys[i])


@pytest.mark.parametrize("seed", range(5))
def test_removals_are_those_of_trying_every_centroid(seed: int) -> None:
    centroid_set, latents, labels = centroids_and_decide_labels(seed)
    assert remove_worst_centroids(centroid_set, latents, labels)[1] == pytest.approx(
        one_by_one(centroid_set, latents, labels)
    )


def test_the_order_of_centroids_at_one_place_changes_nothing() -> None:
    """Two clusters of different classes at the same point are a tie in every distance."""
    centroids = np.array([[0.0], [0.0], [5.0], [6.0]])
    labels = np.array([1, 0, 1, 0])
    yes = np.ones(4, dtype=bool)
    latents, truth = np.array([[0.1], [-0.1], [5.1], [6.2]]), np.array([1, 1, 1, 0])
    outcomes = set()
    for order in itertools.permutations(range(4)):
        at = list(order)
        reduced, scores = remove_worst_centroids(
            CentroidSet(centroids[at], labels[at], yes, yes), latents, truth
        )
        kept = {(float(centroids[i][0]), int(labels[i])) for i in np.array(at)[reduced.kept]}
        outcomes.add((tuple(scores), tuple(sorted(kept))))
    assert outcomes == {((0.5, 1.0), ((0.0, 1), (5.0, 1), (6.0, 0)))}


def test_a_misleading_centroid_is_the_one_removed() -> None:
    centroid_set, latents, labels = centroids_and_decide_labels()
    bad = latents[labels == 0].mean(axis=0)
    spoiled = CentroidSet(
        np.vstack([centroid_set.centroids, bad]),
        np.append(centroid_set.labels, 1),
        np.append(centroid_set.is_adapted, False),
        np.append(centroid_set.kept, True),
    )
    reduced, scores = remove_worst_centroids(spoiled, latents, labels)
    assert not reduced.kept[-1]
    assert scores[-1] >= remove_worst_centroids(centroid_set, latents, labels)[1][0]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_centroids_changes_nothing(seed: int) -> None:
    centroid_set, latents, labels = centroids_and_decide_labels(seed)
    order = np.random.default_rng(seed).permutation(len(centroid_set.labels))
    shuffled = CentroidSet(
        centroid_set.centroids[order],
        centroid_set.labels[order],
        centroid_set.is_adapted[order],
        centroid_set.kept[order],
    )
    one, scores = remove_worst_centroids(centroid_set, latents, labels)
    two, shuffled_scores = remove_worst_centroids(shuffled, latents, labels)
    assert scores == shuffled_scores
    assert np.array_equal(one.kept[order], two.kept)
    np.testing.assert_allclose(
        one.distances(latents, CLASSES), two.distances(latents, CLASSES), atol=1e-9
    )


def test_the_last_centroid_of_a_class_stays() -> None:
    centroids = np.array([[0.0], [10.0], [20.0]])
    centroid_set = CentroidSet(centroids, np.array([0, 1, 2]), np.zeros(3, bool), np.ones(3, bool))
    latents, labels = np.array([[10.0]] * 4), np.zeros(4, dtype=np.int64)
    reduced, scores = remove_worst_centroids(centroid_set, latents, labels)
    assert reduced.kept.all()
    assert scores == [0.0]


def test_a_removed_centroid_is_not_used() -> None:
    centroid_set, latents, _ = centroids_and_decide_labels()
    first = centroid_set.nearest(latents)
    without = replace(centroid_set, kept=np.arange(len(centroid_set.labels)) != first[0])
    assert first[0] not in without.nearest(latents)
    assert np.array_equal(
        without.labels[without.nearest(latents)], without.predict(latents, CLASSES)
    )


def test_a_class_without_a_centroid_is_infinitely_far() -> None:
    centroid_set = CentroidSet(np.zeros((1, 2)), np.array([1]), np.zeros(1, bool), np.ones(1, bool))
    distances = centroid_set.distances(np.array([[3.0, 4.0]]), 3)
    assert distances.tolist() == [[np.inf, 25.0, np.inf]]
