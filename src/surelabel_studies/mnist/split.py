"""The split of the MNIST study: a few labels, tune labels, the pool, and test images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from surelabel.dataset.array_store import Pixels
from surelabel.errors import OptionError
from surelabel.types import IntArray, derive_seed
from surelabel_studies.datasets.mnist import Digits
from surelabel_studies.mnist.rows import PAPER_POOL

LABELS = 50
"""Training labels of each class."""
TUNE = 500
"""Tune labels of each class."""
_MIN_TUNE = 20
_POOL_PER_TUNE = 40
"""Pool images per tune image of each class, up to 500 tune images per class."""
_MIN_TEST = 1000


@dataclass(frozen=True)
class StudySplit:
    """The input of a run, and the truth to evaluate it with."""

    images: Pixels
    """(N, H, W), all images except the test images, in the order of MNIST's file."""
    truth: IntArray
    """(N,) the true classes; the run gets only those in ``labels``."""
    labels: pd.DataFrame
    """Columns index, label and, unless the tool makes the split, split (train or tune)."""
    test_images: Pixels
    """Used after a run, never by it."""
    test_truth: IntArray

    @property
    def n_pool(self) -> int:
        """Images without a label."""
        return len(self.truth) - len(self.labels)


def draw_split(
    digits: Digits,
    seed: int,
    *,
    labels_per_class: int = LABELS,
    pool_size: int = 0,
    test_size: int = 0,
) -> StudySplit:
    """Split each class by a seeded permutation: 50 train labels, 500 tune labels, the rest pool.

    With fewer ``labels_per_class``, the first of the 50 are used and the others left out, so that
    tune labels and pool stay the same. ``pool_size`` draws that many pool images at random, and
    proportionally fewer tune images (at least 20 per class) and test images (at least 1,000).
    """
    if labels_per_class > LABELS:
        raise OptionError(f"labels-per-class is {labels_per_class}; it can be up to {LABELS}.")
    truth = digits.train_labels
    rng = np.random.default_rng(seed)
    order = [rng.permutation(np.flatnonzero(truth == k)) for k in np.unique(truth)]
    n_tune = tune_per_class(pool_size)
    train = np.concatenate([rows[:labels_per_class] for rows in order])
    tune = np.concatenate([rows[LABELS : LABELS + n_tune] for rows in order])
    pool = _some(np.concatenate([rows[LABELS + n_tune :] for rows in order]), pool_size, seed)
    split = np.repeat(["train", "tune"], [len(train), len(tune)])
    return _assemble(digits, np.concatenate([train, tune]), pool, split, seed, test_size)


def draw_total(
    digits: Digits, seed: int, total: int, *, pool_size: int = 0, test_size: int = 0
) -> StudySplit:
    """``total`` labels drawn uniformly, as a user would have them; the tool makes the split."""
    order = np.random.default_rng(seed).permutation(len(digits.train_labels))
    pool = _some(order[total:], pool_size, seed)
    return _assemble(digits, order[:total], pool, None, seed, test_size)


def tune_per_class(pool_size: int) -> int:
    """Tune images per class for a pool of this size; 0 is the whole pool."""
    return min(TUNE, max(_MIN_TUNE, round(pool_size / _POOL_PER_TUNE))) if pool_size else TUNE


def n_test_images(n_pool: int, n_test: int) -> int:
    """The number of test images for a pool of ``n_pool``: in proportion, at least 1,000."""
    return min(n_test, max(_MIN_TEST, round(n_test * n_pool / PAPER_POOL)))


def _some(rows: IntArray, n: int, seed: int) -> IntArray:
    if n > len(rows):
        raise OptionError(f"pool-size is {n}, but there are only {len(rows)} images for the pool.")
    if not n:
        return rows
    return np.random.default_rng(derive_seed(seed, "study pool")).permutation(rows)[:n]


def _assemble(
    digits: Digits,
    labeled: IntArray,
    pool: IntArray,
    split: np.ndarray | None,
    seed: int,
    test_size: int,
) -> StudySplit:
    rows = np.sort(np.concatenate([labeled, pool]))
    truth = digits.train_labels
    columns = {
        "index": np.searchsorted(rows, labeled).astype(str),
        "label": truth[labeled].astype(str),
    }
    n_test = test_size or n_test_images(len(pool), len(digits.test_labels))
    order = np.random.default_rng(derive_seed(seed, "study test"))
    shown = np.sort(order.permutation(len(digits.test_labels))[:n_test])
    return StudySplit(
        images=digits.train_images[rows],
        truth=truth[rows],
        labels=pd.DataFrame(columns if split is None else {**columns, "split": split}),
        test_images=digits.test_images[shown],
        test_truth=digits.test_labels[shown],
    )
