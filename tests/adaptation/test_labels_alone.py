from __future__ import annotations

import numpy as np
from blobs import blobs

from surelabel.adaptation.comparison import class_means, labels_alone


def two_ended(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two classes on a line, each at two places: 0 and 2 are one class, 1 and 3 the other."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 4, n)
    return rng.normal(10.0 * place[:, None], 0.1, (n, 2)), (place % 2).astype(np.int64)


def test_class_means_are_the_means_of_the_labeled() -> None:
    latents, labels = blobs(60, 0.0, 0)
    shown = np.where(np.arange(60) < 30, labels, -1)
    made = class_means(latents, shown)
    for label, centroid in zip(made.labels, made.centroids, strict=True):
        np.testing.assert_allclose(centroid, latents[shown == label].mean(axis=0))


def test_classes_at_several_places_get_several_centroids() -> None:
    fit, decide, fresh = (two_ended(40, seed) for seed in range(3))
    made = labels_alone(fit, decide, [2, 4, 8], seed=0)
    assert len(made.labels) == 4
    assert np.array_equal(made.predict(fresh[0], 2), fresh[1])
    means = class_means(*fit)
    assert np.mean(means.predict(fresh[0], 2) == fresh[1]) < 0.9


def test_where_more_centroids_are_no_better_the_class_means_stay_made_of_all_labels() -> None:
    fit, decide = ((latents, labels % 2) for latents, labels in (two_ended(40, s) for s in (0, 1)))
    apart = [(latents + 100.0 * labels[:, None], labels) for latents, labels in (fit, decide)]
    made = labels_alone(apart[0], apart[1], [4, 8], seed=0)
    both = class_means(*(np.concatenate(parts) for parts in zip(*apart, strict=True)))
    np.testing.assert_allclose(made.centroids, both.centroids)


def test_no_more_centroids_than_labels() -> None:
    fit, decide = two_ended(6, 0), two_ended(6, 1)
    assert len(labels_alone(fit, decide, [500], seed=0).labels) == 2
