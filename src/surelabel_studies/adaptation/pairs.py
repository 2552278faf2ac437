"""The pairs of datasets of the adaptation study: an old one with a net, and a new one."""

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

OLD_LOCATIONS = ("bakery", "butcher", "drinks", "meals")
NEW_LOCATIONS = tuple(name for name in LOCATIONS if name not in OLD_LOCATIONS)
_TEST_SHARE = 0.35
_RENDERED_SIDE = 299


class Pair(StrEnum):
    """Which dataset the net was trained on, and which it is adapted to."""

    MNIST_USPS = "mnist-usps"
    USPS_MNIST = "usps-mnist"
    PACKAGING = "packaging"
    """Synthetic: two groups of locations."""


def pairs_named(names: Sequence[str] | None) -> tuple[Pair, ...]:
    """The named pairs; all of them if none is named."""
    try:
        return tuple(map(Pair, names)) if names else tuple(Pair)
    except ValueError as error:
        raise OptionError(f"{error}: --pair can be {', '.join(Pair)}.") from None


@dataclass(frozen=True)
class Sizes:
    """The largest number of images of each kind."""

    old_labels: int = 2000
    old_pool: int = 1000
    new_labels: int = 400
    new_pool: int = 3000
    test: int = 2000


@dataclass(frozen=True)
class Side:
    """One dataset of a pair: the input of a run, and test images that no run sees."""

    images: Pixels
    labels: pd.DataFrame
    """Labels of the first images, by index."""
    truth: IntArray
    test_images: Pixels
    test_truth: IntArray


def draw_side(digits: Digits, n_labels: int, n_pool: int, n_test: int, seed: int) -> Side:
    """A random part: labeled images first, then the pool, which keeps at least a third of all."""
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
    """Synthetic photographs of complete (1) and incomplete dates (0), by group of locations."""
    settings = Settings(Like.SET1, 0, scale, _RENDERED_SIDE)
    write_use_by_dates(folder, settings, on_progress=on_progress)
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
    """A function that reads the old and the new dataset of a pair."""

    def read(pair: Pair) -> tuple[Digits, Digits]:
        if pair is Pair.PACKAGING:
            return packaging(folder, scale, side, no_progress)
        digits = (load_mnist(mnist), load_usps(usps))
        return digits if pair is Pair.MNIST_USPS else digits[::-1]

    return read
