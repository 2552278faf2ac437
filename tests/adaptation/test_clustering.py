from __future__ import annotations

import numpy as np
import pytest
from blobs import CLASSES, two_datasets

from surelabel.adaptation.clustering import adapt, default_ks, nearest_centroid, softmin
from surelabel.selection.calibration import expected_calibration_error


def test_adaptation_finds_classes_that_moved() -> None:
    given, truth = two_datasets(5.0)
    fresh = np.arange(180, 400)
    adaptation = adapt(given, default_ks(CLASSES, 400), seed=0)
    means = np.stack([given.old[given.old_labels == k].mean(axis=0) for k in range(CLASSES)])
    before = np.mean(nearest_centroid(given.new[fresh], means) == truth[fresh])
    after = np.mean(adaptation.predict(given.new[fresh]) == truth[fresh])
    assert after > before + 0.2
    assert adaptation.centroid_set.kept[adaptation.centroid_set.is_adapted].any()


def test_k_is_the_smallest_of_the_best_on_the_decide_labels() -> None:
    given, _ = two_datasets(2.0)
    adaptation = adapt(given, [3, 6, 12], seed=0)
    best = max(adaptation.by_k.values())
    assert set(adaptation.by_k) == {3, 6, 12}
    assert adaptation.k == min(k for k, score in adaptation.by_k.items() if score == best)
    assert adaptation.scores[-1] == best
    at = given.new[given.decide_rows]
    assert np.mean(adaptation.predict(at) == given.decide_labels) == best


def test_probabilities_are_highest_for_the_nearest_centroid_and_calibrated() -> None:
    given, truth = two_datasets(4.0, n=2000, n_fit=300)
    adaptation = adapt(given, [6, 12], seed=0)
    fresh = np.arange(600, 2000)
    p = adaptation.probabilities(given.new[fresh])
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert np.array_equal(p.argmax(axis=1), adaptation.predict(given.new[fresh]))
    right = p.argmax(axis=1) == truth[fresh]
    assert expected_calibration_error(p.max(axis=1), right) < 0.05


def test_distance_is_from_the_nearest_kept_centroid() -> None:
    given, _ = two_datasets(2.0)
    adaptation = adapt(given, [6], seed=0)
    kept = adaptation.centroid_set.centroids[adaptation.centroid_set.kept]
    far = np.sqrt(((given.new[:5, None] - kept) ** 2).sum(axis=2)).min(axis=1)
    np.testing.assert_allclose(adaptation.distance(given.new[:5]), far)


def test_softmin_of_equal_distances_is_even_and_infinite_ones_get_nothing() -> None:
    assert softmin(np.array([[2.0, 2.0, np.inf]]), 1.0).tolist() == [[0.5, 0.5, 0.0]]
    ratio = softmin(np.array([[0.0, 3.0]]), 3.0)[0]
    assert ratio[0] / ratio[1] == pytest.approx(np.e)


def test_default_ks_follow_the_classes_and_the_images() -> None:
    assert default_ks(2, 1000) == [2, 3, 4, 6, 8, 12, 16]
    assert default_ks(10, 1000)[-1] == 80
    assert default_ks(10, 60) == [10, 15]


def test_float32_latents_give_the_same_classes() -> None:
    given, _ = two_datasets(2.0)
    adaptation = adapt(given, [6], seed=0)
    assert np.array_equal(
        adaptation.predict(given.new.astype(np.float32)), adaptation.predict(given.new)
    )
