from __future__ import annotations

import numpy as np
import pytest

from surelabel.accept import fit_clouds, is_stranger, stranger_fence

RNG = np.random.default_rng(2)
CENTERS = RNG.normal(0, 6, (3, 10))


def latents(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Three long clouds in ten dimensions."""
    labels = RNG.integers(0, 3, n)
    return CENTERS[labels] + RNG.normal(0, 1, (n, 10)) * np.linspace(0.2, 3, 10), labels


def test_the_distance_does_not_depend_on_the_scale_of_an_axis() -> None:
    x, labels = latents(5000)
    scale = np.linspace(1, 50, 10)
    plain = fit_clouds(x, labels, 3).distance(x[:100])
    scaled = fit_clouds(x * scale, labels, 3).distance(x[:100] * scale)
    assert scaled == pytest.approx(plain, rel=0.05)


def test_the_class_mean_is_at_distance_zero_and_a_typical_image_near_one() -> None:
    x, labels = latents(4000)
    clouds = fit_clouds(x, labels, 3)
    means = np.stack([x[labels == k].mean(axis=0) for k in range(3)])
    assert clouds.distance(means) == pytest.approx(np.zeros(3), abs=1e-5)
    assert np.median(clouds.distance(x)) == pytest.approx(1, rel=0.1)


def test_what_lies_between_or_far_from_all_classes_is_beyond_the_fence() -> None:
    x, labels = latents(600)
    clouds = fit_clouds(x, labels, 3)
    tune, _ = latents(300)
    fence = stranger_fence(clouds.distance(tune))
    between = CENTERS[[0, 1, 2]] / 2 + CENTERS[[1, 2, 0]] / 2
    far = RNG.normal(0, 30, (50, 10))
    assert is_stranger(clouds.distance(np.concatenate([between, far])), fence).all()
    assert is_stranger(clouds.distance(latents(2000)[0]), fence).mean() < 0.02


def test_few_images_in_many_dimensions_still_give_a_distance() -> None:
    x, labels = RNG.normal(0, 1, (12, 64)), np.arange(12) % 3
    distance = fit_clouds(x, labels, 3).distance(RNG.normal(0, 1, (20, 64)))
    assert np.isfinite(distance).all()


def test_a_class_without_an_image_is_passed_over_and_a_dead_axis_does_no_harm() -> None:
    x, labels = latents(200)
    x[:, 4] = 0.0
    assert np.isfinite(fit_clouds(x, labels, 5).distance(x)).all()


def test_no_fence_without_tune_images_and_no_stranger_without_a_distance() -> None:
    assert stranger_fence(np.ones(5)) == np.inf
    assert not is_stranger(np.array([np.nan, 3.0]), np.inf).any()
