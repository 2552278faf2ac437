"""Two datasets of the same classes: the new one is moved, stretched and has other class shares."""

from __future__ import annotations

import numpy as np
import torch

from surelabel.adaptation.clustering import DatasetLatents, cluster_both
from surelabel.adaptation.spaces import Stored, spaces_of
from surelabel.adaptation.ways import Statistics, TwoDatasets, log_floor
from surelabel.models.backbones import Layers
from surelabel.types import UNLABELED, FloatArray, IntArray

K, D = 3, 12


def blobs(n: int, seed: int, *, noise: float = 1.0) -> tuple[FloatArray, IntArray]:
    """(n, D) around the corners of a simplex, and the classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, K, n)
    made = rng.normal(0, noise, (n, D)) + 3 * np.eye(D)[labels]
    return made.astype(np.float32), labels.astype(np.int64)


def moved(values: FloatArray, *, by: float = 4.0) -> FloatArray:
    """Another camera: an offset, and other gains."""
    offset = np.random.default_rng(9).normal(0, by, D)
    gains = np.linspace(0.6, 1.6, D)
    return (values * gains + offset).astype(np.float32)


def stored(values: FloatArray) -> Stored:
    return Stored(len(values), lambda rows: torch.from_numpy(values[rows]))


def two_datasets(n: int = 400) -> tuple[TwoDatasets, IntArray]:
    """Both datasets, and the true classes of the new one."""
    (old, old_labels), (plain, truth) = blobs(n, 1), blobs(n, 2)
    spaces = spaces_of(stored(old), stored(moved(plain)), Layers((D,), (0,)), 0, seed=0)
    first = TwoDatasets(spaces, old_labels, np.zeros((n, K)))
    space = spaces[Statistics.OLD]
    direct = log_floor(first.old_head(Statistics.OLD).logits(space.new).double().numpy())
    latents = DatasetLatents(
        old=space.old.numpy(),
        old_labels=old_labels,
        new_net1=spaces[Statistics.CENTERED].new.numpy(),
        new=space.new.numpy(),
        new_labels=np.full(n, UNLABELED),
        decide_rows=np.empty(0, dtype=np.int64),
        decide_labels=np.empty(0, dtype=np.int64),
        n_classes=K,
    )
    return TwoDatasets(spaces, old_labels, direct, [cluster_both(latents, 2 * K, 0)]), truth
