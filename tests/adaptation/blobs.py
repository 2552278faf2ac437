"""Made-up latents of two datasets: classes as blobs, the second dataset moved."""

from __future__ import annotations

import numpy as np

from surelabel.adaptation.clustering import DatasetLatents
from surelabel.types import FloatArray, IntArray

CLASSES = 3
DIMENSIONS = 6


def blobs(n: int, shift: float, seed: int) -> tuple[FloatArray, IntArray]:
    """n latents in classes of two blobs each, all moved by ``shift`` along the first axes."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(7).normal(0, 4, (CLASSES, 2, DIMENSIONS))
    labels = rng.integers(0, CLASSES, n)
    latents = centers[labels, rng.integers(0, 2, n)] + rng.normal(0, 1, (n, DIMENSIONS))
    latents[:, :3] += shift
    return latents, labels.astype(np.int64)


def two_datasets(
    shift: float, seed: int = 0, n: int = 400, n_fit: int = 90
) -> tuple[DatasetLatents, IntArray]:
    """Dataset 2, dataset 1 which is moved, and the true classes of dataset 1."""
    old, old_labels = blobs(n, 0.0, seed)
    new, truth = blobs(n, shift, seed + 1)
    turned = np.linalg.qr(np.random.default_rng(3).normal(size=(DIMENSIONS, DIMENSIONS)))[0]
    fit = np.where(np.arange(n) < n_fit, truth, -1)
    decide = np.arange(n_fit, 2 * n_fit)
    latents = DatasetLatents(
        old, old_labels, new @ turned, new, fit, decide, truth[decide], CLASSES
    )
    return latents, truth
