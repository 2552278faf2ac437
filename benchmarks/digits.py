"""MNIST as the benchmarks split it: a few labels per class, 500 per class held out, the rest pool.

It is the split of ``surelabel study mnist``: fewer labels leave the other two parts as they are.
The truth of the pool is used to report, never to decide. Needs ``../shared/data/mnist``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from settings import Settings
from surelabel.dataset.arrays import read_idx
from surelabel.types import IntArray
from surelabel_studies.mnist.split import LABELS as STUDY_LABELS

DATA = Path(__file__).resolve().parents[2] / "shared/data/mnist"
IMAGES = DATA / "train-images-idx3-ubyte.gz"
LABELS = DATA / "train-labels-idx1-ubyte.gz"
ABSENT = {"skipped": "shared/data/mnist is not there"}


@dataclass(frozen=True)
class Digits:
    """Images, their truth, and the rows of each part."""

    images: npt.NDArray[np.uint8]
    """(N, 28, 28)."""
    truth: IntArray
    train: IntArray
    tune: IntArray
    pool: IntArray

    def label_table(self) -> Any:
        """The labels a run is given, with their splits, as a DataFrame."""
        import pandas as pd

        rows = np.concatenate([self.train, self.tune])
        return pd.DataFrame(
            {
                "index": rows.astype(str),
                "label": self.truth[rows].astype(str),
                "split": ["train"] * len(self.train) + ["tune"] * len(self.tune),
            }
        )


def have_digits() -> bool:
    return IMAGES.exists()


def read_digits(settings: Settings, *, seed: int | None = None, n_pool: int = 0) -> Digits:
    """The split that the seed draws; ``n_pool`` takes so many pool images, evenly by class."""
    images, truth = read_idx(IMAGES), read_idx(LABELS).astype(np.int64)
    rng = np.random.default_rng(settings.seed if seed is None else seed)
    n, n_tune = settings.labels, 10 if settings.tiny else 500
    first = max(n, STUDY_LABELS)
    n_pool = n_pool or (500 if settings.tiny else 0)
    parts: list[list[IntArray]] = [[], [], []]
    for k in range(10):
        rows = rng.permutation(np.flatnonzero(truth == k))
        rest = rows[first + n_tune :]
        rest = rest[: -(-n_pool // 10)] if n_pool else rest
        for part, some in zip(parts, (rows[:n], rows[first : first + n_tune], rest), strict=True):
            part.append(some)
    chosen = [np.concatenate(part) for part in parts]
    kept = np.sort(np.concatenate(chosen))
    return Digits(images[kept], truth[kept], *(np.searchsorted(kept, part) for part in chosen))
