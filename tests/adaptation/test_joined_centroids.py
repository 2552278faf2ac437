from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from blobs import CLASSES, blobs, facets

from surelabel.adaptation.clustering import Joined, adapted_centroids, cluster, join, prune


def parts(seed: int = 0) -> tuple[Joined, np.ndarray, np.ndarray]:
    """A joined set and the decision labels."""
    given, _ = facets(2.0, seed)
    old = cluster(given.old, given.old_labels, 8, seed)
    own = cluster(given.new_own, given.new_labels, 8, seed)
    adapted = adapted_centroids(own, given.new_own, given.new, 8)
    return join(old, adapted, own.labels), given.new[given.decide], given.decide_labels


def test_without_removals_the_joined_set_contains_both_sides() -> None:
    given, _ = facets(2.0)
    old = cluster(given.old, given.old_labels, 8, 0)
    own = cluster(given.new_own, given.new_labels, 8, 0)
    adapted = adapted_centroids(own, given.new_own, given.new, 8)
    joined = join(old, adapted, own.labels)
    known = own.labels >= 0
    assert np.array_equal(joined.centroids[~joined.is_adapted], old.centroids)
    assert np.array_equal(joined.centroids[joined.is_adapted], adapted[known])
    assert np.array_equal(joined.labels[joined.is_adapted], own.labels[known])
    assert joined.kept.all()


def test_with_the_same_net_data_and_seed_and_whole_clusters_adapted_centroids_are_the_old() -> None:
    latents, labels = blobs(300, 0.0, 0)
    old, own = (cluster(latents, labels, 9, seed=5) for _ in range(2))
    adapted = adapted_centroids(own, latents, latents, None)
    np.testing.assert_allclose(adapted, old.centroids, rtol=1e-12)
    few = adapted_centroids(own, latents, latents, 3)
    assert not np.allclose(few, old.centroids)


@pytest.mark.parametrize("seed", range(5))
def test_removing_never_lowers_the_decision_score_and_every_removal_raises_it(seed: int) -> None:
    joined, latents, labels = parts(seed)
    pruned, scores = prune(joined, latents, labels)
    assert scores[0] == np.mean(joined.guess(latents, CLASSES) == labels)
    assert scores[-1] == np.mean(pruned.guess(latents, CLASSES) == labels)
    assert all(before < after for before, after in itertools.pairwise(scores))
    assert len(scores) == 1 + int((~pruned.kept).sum())


def one_by_one(joined: Joined, latents: np.ndarray, labels: np.ndarray) -> list[float]:
    """Step 6 as it is written: classify anew without each cluster, remove the worst, repeat."""

    def right(kept: np.ndarray) -> float:
        guess = replace(joined, kept=kept).guess(latents, CLASSES)
        return float(np.mean(guess == labels))

    kept, scores = joined.kept, [right(joined.kept)]
    while True:
        tried = {}
        for i in np.flatnonzero(kept).tolist():
            if (kept & (joined.labels == joined.labels[i])).sum() > 1:
                tried[i] = right(kept & (np.arange(len(kept)) != i))
        if not tried or max(tried.values()) <= scores[-1]:
            return scores
        scores.append(max(tried.values()))
        best = next(i for i in order_of(joined) if tried.get(i) == scores[-1])
        kept = kept & (np.arange(len(kept)) != best)


def order_of(joined: Joined) -> list[int]:
    """Among equally bad clusters: by class, then by coordinates."""
    keys = [(int(label), *c) for label, c in zip(joined.labels, joined.centroids, strict=True)]
    return sorted(range(len(keys)), key=lambda i: keys[i])


@pytest.mark.parametrize("seed", range(5))
def test_removals_are_those_of_trying_every_cluster(seed: int) -> None:
    joined, latents, labels = parts(seed)
    assert prune(joined, latents, labels)[1] == pytest.approx(one_by_one(joined, latents, labels))


def test_the_order_of_clusters_at_one_place_changes_nothing() -> None:
    """Two clusters of different classes at the same point are a tie in every distance."""
    centroids = np.array([[0.0], [0.0], [5.0], [6.0]])
    labels = np.array([1, 0, 1, 0])
    yes = np.ones(4, dtype=bool)
    latents, truth = np.array([[0.1], [-0.1], [5.1], [6.2]]), np.array([1, 1, 1, 0])
    found = set()
    for order in itertools.permutations(range(4)):
        at = list(order)
        pruned, scores = prune(Joined(centroids[at], labels[at], yes, yes), latents, truth)
        kept = {(float(centroids[i][0]), int(labels[i])) for i in np.array(at)[pruned.kept]}
        found.add((tuple(scores), tuple(sorted(kept))))
    assert found == {((0.5, 1.0), ((0.0, 1), (5.0, 1), (6.0, 0)))}


def test_a_misleading_cluster_is_the_one_removed() -> None:
    joined, latents, labels = parts()
    bad = latents[labels == 0].mean(axis=0)
    spoiled = Joined(
        np.vstack([joined.centroids, bad]),
        np.append(joined.labels, 1),
        np.append(joined.is_adapted, False),
        np.append(joined.kept, True),
    )
    pruned, scores = prune(spoiled, latents, labels)
    assert not pruned.kept[-1]
    assert scores[-1] >= prune(joined, latents, labels)[1][0]


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_clusters_changes_nothing(seed: int) -> None:
    joined, latents, labels = parts(seed)
    order = np.random.default_rng(seed).permutation(len(joined.labels))
    shuffled = Joined(
        joined.centroids[order],
        joined.labels[order],
        joined.is_adapted[order],
        joined.kept[order],
    )
    one, scores = prune(joined, latents, labels)
    two, shuffled_scores = prune(shuffled, latents, labels)
    assert scores == shuffled_scores
    assert np.array_equal(one.kept[order], two.kept)
    np.testing.assert_allclose(
        one.distances(latents, CLASSES), two.distances(latents, CLASSES), atol=1e-9
    )


def test_the_last_cluster_of_a_class_stays() -> None:
    centroids = np.array([[0.0], [10.0], [20.0]])
    joined = Joined(centroids, np.array([0, 1, 2]), np.zeros(3, bool), np.ones(3, bool))
    latents, labels = np.array([[10.0]] * 4), np.zeros(4, dtype=np.int64)
    pruned, scores = prune(joined, latents, labels)
    assert pruned.kept.all()
    assert scores == [0.0]


def test_an_excluded_centroid_has_no_say() -> None:
    joined, latents, _ = parts()
    first = joined.owner(latents)
    without = replace(joined, kept=np.arange(len(joined.labels)) != first[0])
    assert first[0] not in without.owner(latents)
    assert np.array_equal(without.labels[without.owner(latents)], without.guess(latents, CLASSES))


def test_a_class_without_a_centroid_is_infinitely_far() -> None:
    joined = Joined(np.zeros((1, 2)), np.array([1]), np.zeros(1, bool), np.ones(1, bool))
    found = joined.distances(np.array([[3.0, 4.0]]), 3)
    assert found.tolist() == [[np.inf, 25.0, np.inf]]
