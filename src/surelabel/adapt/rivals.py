"""What adaptation has to beat: nearest centroids of the new labels alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surelabel.adapt.clusters import cluster
from surelabel.adapt.joined import Joined
from surelabel.types import UNLABELLED, FloatArray, IntArray, derive_seed


def class_means(latents: FloatArray, labels: IntArray) -> Joined:
    """The mean of each class's labelled latents as a set of centroids."""
    known = np.unique(labels[labels != UNLABELLED])
    centroids = np.stack([latents[labels == k].mean(axis=0) for k in known])
    return _set(centroids, known.astype(np.int64))


def labels_alone(
    fit: tuple[FloatArray, IntArray],
    decide: tuple[FloatArray, IntArray],
    ks: Sequence[int],
    seed: int,
) -> Joined:
    """Nearest centroids of labelled images, with as many of them as suits the labels.

    ``fit`` and ``decide`` are latents (N, D) with labels (N,). Class means and k clusters for each
    k are made of the first and judged by the second, as adaptation chooses its own k; the best is
    made anew of both. Of equals the fewest centroids.
    """
    counts = [0, *sorted(k for k in set(ks) if k <= len(fit[1]))]
    right = [_right(_of(fit, k, seed), decide) for k in counts]
    both = np.concatenate([fit[0], decide[0]]), np.concatenate([fit[1], decide[1]])
    return _of(both, counts[right.index(max(right))], seed)


def _of(labelled: tuple[FloatArray, IntArray], k: int, seed: int) -> Joined:
    """So many clusters, each with its most frequent class; 0: the class means."""
    if not k:
        return class_means(*labelled)
    found = cluster(*labelled, k, derive_seed(seed, "labels alone", k))
    return _set(found.centroids, found.labels)


def _right(made: Joined, decide: tuple[FloatArray, IntArray]) -> int:
    latents, labels = decide
    n_classes = int(max(made.labels.max(), labels.max(initial=0))) + 1
    return int((made.guess(latents, n_classes) == labels).sum())


def _set(centroids: FloatArray, labels: IntArray) -> Joined:
    yes = np.ones(len(labels), dtype=bool)
    return Joined(centroids, labels, yes, yes)
