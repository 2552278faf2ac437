from __future__ import annotations

import numpy as np
import pytest

from surelabel.selection.out_of_distribution import (
    OutlierThreshold,
    ReferenceFeatures,
    is_outlier,
    outlier_threshold,
)

RNG = np.random.default_rng(2)
CENTERS = RNG.normal(0, 1, (3, 10))


def seen(n: int, spread: float = 0.2) -> np.ndarray:
    """Three classes in ten dimensions."""
    return CENTERS[RNG.integers(0, 3, n)] + RNG.normal(0, spread, (n, 10))


def test_the_distance_is_one_minus_the_cosine_to_the_nearest_image() -> None:
    known = ReferenceFeatures(np.array([[1.0, 0.0], [0.0, 2.0]]), (2,))
    points = np.array([[3.0, 4.0], [5.0, 0.0], [-1.0, -1.0]])
    assert known.distance(points) == pytest.approx([0.2, 1e-6, 1 + np.sqrt(0.5)], rel=1e-6)


def test_stages_are_judged_by_themselves_and_meet_in_their_geometric_mean() -> None:
    first, second = seen(40), seen(40)
    both = ReferenceFeatures(np.hstack([first, 1000 * second]), (10, 10))
    a, b = seen(7), seen(7)
    apart = (
        ReferenceFeatures(first, (10,)).distance(a),
        ReferenceFeatures(second, (10,)).distance(b),
    )
    assert both.distance(np.hstack([a, b])) == pytest.approx(np.sqrt(apart[0] * apart[1]))


def test_neither_brightness_nor_the_order_of_the_labels_matters() -> None:
    known, points = seen(50), seen(9)
    plain = ReferenceFeatures(known, (4, 6)).distance(points)
    assert ReferenceFeatures(known[::-1], (4, 6)).distance(7 * points) == pytest.approx(plain)


def test_an_image_without_any_activity_has_a_distance() -> None:
    assert np.isfinite(ReferenceFeatures(seen(5), (10,)).distance(np.zeros((1, 10)))).all()


def test_with_outliers_it_is_how_much_nearer_the_labeled_image_is() -> None:
    known, odd, points = seen(40), seen(8), seen(7)
    apart = [ReferenceFeatures(them, (4, 6)).distance(points) for them in (known, odd)]
    both = ReferenceFeatures(known, (4, 6), outliers=odd).distance(points)
    assert both == pytest.approx(apart[0] / apart[1])


def test_a_outlier_is_not_its_own_witness() -> None:
    known, odd = seen(40), seen(8)
    for at in range(8):
        others = ReferenceFeatures(known, (4, 6), outliers=np.delete(odd, at, axis=0))
        all_of_them = ReferenceFeatures(known, (4, 6), outliers=odd)
        point = 3 * odd[at : at + 1]
        assert all_of_them.distance(point) == pytest.approx(others.distance(point))


def test_distant_images_are_above_the_threshold() -> None:
    known = ReferenceFeatures(seen(600), (10,))
    pool = known.distance(seen(3000))
    threshold = outlier_threshold(known.distance(seen(300)), pool).at
    assert is_outlier(known.distance(-CENTERS), threshold).all()
    assert is_outlier(pool, threshold).mean() < 0.02


def test_outliers_in_the_pool_make_the_threshold_stricter() -> None:
    tune = RNG.lognormal(0, 0.3, 500)
    clean = RNG.lognormal(0, 0.3, 9000)
    threshold = outlier_threshold(tune, clean).at
    logs = np.log(tune)
    q1, q3 = np.quantile(logs, [0.25, 0.75])
    assert threshold == pytest.approx(np.exp(q3 + 1.5 * (q3 - q1)))
    outliers = RNG.lognormal(0.7, 0.15, 1000)
    found = outlier_threshold(tune, np.concatenate([clean, outliers]))
    assert found.pool_has_outliers
    closer = found.at
    assert closer < threshold
    assert (outliers > closer).mean() > 1.5 * (outliers > threshold).mean()
    assert (clean > closer).mean() < 0.13


def test_a_clean_pool_rarely_moves_the_threshold() -> None:
    moved = 0
    for _ in range(300):
        tune, pool = RNG.lognormal(0, 0.3, 100), RNG.lognormal(0, 0.3, 2000)
        moved += outlier_threshold(tune, pool).pool_has_outliers
    assert moved < 27, "15 of 300 are expected at most"


def test_no_fence_without_tune_images_and_no_outlier_without_a_distance() -> None:
    assert outlier_threshold(np.ones(5), np.ones(100)) == OutlierThreshold(
        np.inf, pool_has_outliers=False
    )
    assert not is_outlier(np.array([np.nan, 3.0]), np.inf).any()


def test_what_is_left_of_a_clean_pool_is_odd_by_selection_and_no_outlier() -> None:
    rng = np.random.default_rng(7)
    tune, pool = rng.lognormal(0, 0.3, 500), rng.lognormal(0, 0.3, 9000)
    left = np.sort(pool)[-900:]
    assert outlier_threshold(tune, left).pool_has_outliers
    assert not outlier_threshold(tune, left, len(pool)).pool_has_outliers
    outliers = rng.lognormal(0.7, 0.15, 1000)
    assert outlier_threshold(tune, np.concatenate([left, outliers]), 10_000).pool_has_outliers


def test_an_empty_pool_leaves_the_fence_where_tune_images_put_it() -> None:
    tune = np.random.default_rng(8).lognormal(0, 0.3, 500)
    threshold = outlier_threshold(tune, np.empty(0))
    assert np.isfinite(threshold.at)
    assert not threshold.pool_has_outliers
