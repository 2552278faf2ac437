"""The pairs of datasets of the adaptation study: a net knows the old one, the new one is moved."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from surelabel.dataset.array_store import Pixels
from surelabel.errors import OptionError
from surelabel.types import IntArray, OnProgress, derive_seed, no_progress
from surelabel_studies.datasets.mnist import Digits, load_mnist
from surelabel_studies.datasets.usps import load_usps
from surelabel_studies.use_by_dates.locations import LOCATIONS
from surelabel_studies.use_by_dates.records import Settings
from surelabel_studies.use_by_dates.sets import Category, Like
from surelabel_studies.use_by_dates.writer import write_use_by_dates


class Pair(StrEnum):
    """Which dataset the net knows, and which it is adapted to."""

    MNIST_USPS = "mnist-usps"
    USPS_MNIST = "usps-mnist"
    PACKAGING = "packaging"
    """Synthetic: two groups of locations."""


def pairs_named(names: Sequence[str] | None) -> tuple[Pair, ...]:
    """The pairs that were asked for, all without a name."""
    try:
        return tuple(map(Pair, names)) if names else tuple(Pair)
    except ValueError as error:
        raise OptionError(f"{error}: --pair can be {', '.join(Pair)}.") from None


OLD_LOCATIONS = ("bakery", "butcher", "drinks", "meals")
NEW_LOCATIONS = tuple(name for name in LOCATIONS if name not in OLD_LOCATIONS)
_TEST_SHARE = 0.35
_RENDERED = 299


@dataclass(frozen=True)
class Sizes:
    """How many images of each kind, at most."""

    old_labels: int = 2000
    old_pool: int = 1000
    new_labels: int = 400
    new_pool: int = 3000
    test: int = 2000


@dataclass(frozen=True)
class Side:
    """One dataset of a pair: what a run is given, and test images that no run has seen."""

    images: Pixels
    labels: pd.DataFrame
    """Of the first images, by index."""
    truth: IntArray
    test_images: Pixels
    test_truth: IntArray


def draw_side(digits: Digits, n_labels: int, n_pool: int, n_test: int, seed: int) -> Side:
    """A random part: labels first, then the pool. A third stays in the pool at least."""
    rng = np.random.default_rng(derive_seed(seed, "adaptation study"))
    n_all = len(digits.train_labels)
    n_labels = min(n_labels, n_all - n_all // 3)
    rows = rng.permutation(n_all)[: n_labels + n_pool]
    shown = rng.permutation(len(digits.test_labels))[:n_test]
    truth = digits.train_labels[rows]
    index = np.arange(n_labels).astype(str)
    return Side(
        digits.train_images[rows],
        pd.DataFrame({"index": index, "label": truth[:n_labels].astype(str)}),
        truth,
        digits.test_images[shown],
        digits.test_labels[shown],
    )


def sides(old: Digits, new: Digits, sizes: Sizes, seed: int) -> tuple[Side, Side]:
    """The old and the new side of one seed."""
    return (
        draw_side(old, sizes.old_labels, sizes.old_pool, sizes.test, seed),
        draw_side(new, sizes.new_labels, sizes.new_pool, sizes.test, seed),
    )


def packaging(
    folder: Path, scale: float, side: int, on_progress: OnProgress
) -> tuple[Digits, Digits]:
    """Complete date (1) or one with day or month missing (0), by group of locations. Synthetic."""
    write_use_by_dates(folder, Settings(Like.SET1, 0, scale, _RENDERED), on_progress=on_progress)
    with (folder / "labels.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["category"] != Category.UNREADABLE]
    groups = [[r for r in rows if r["location"] in g] for g in (OLD_LOCATIONS, NEW_LOCATIONS)]
    old, new = (_digits(folder, group, side) for group in groups)
    return old, new


def _digits(folder: Path, rows: list[dict[str, str]], side: int) -> Digits:
    order = np.random.default_rng(derive_seed(0, "packaging")).permutation(len(rows))
    rows = [rows[i] for i in order]
    images = np.stack([_picture(folder / row["path"], side) for row in rows])
    labels = np.array([row["category"] == Category.COMPLETE for row in rows], dtype=np.int64)
    n = round(len(rows) * (1 - _TEST_SHARE))
    return Digits(images[:n], labels[:n], images[n:], labels[n:])


def _picture(path: Path, side: int) -> Pixels:
    with Image.open(path) as image:
        small = image.convert("RGB").resize((side, side), Image.Resampling.BOX)
    return np.asarray(small)


def source_of(
    mnist: Path | None, usps: Path | None, folder: Path, scale: float, side: int
) -> Callable[[Pair], tuple[Digits, Digits]]:
    """Reads the old and the new dataset of a pair when it is asked for."""

    def read(pair: Pair) -> tuple[Digits, Digits]:
        if pair is Pair.PACKAGING:
            return packaging(folder, scale, side, no_progress)
        digits = (load_mnist(mnist), load_usps(usps))
        return digits if pair is Pair.MNIST_USPS else digits[::-1]

    return read
