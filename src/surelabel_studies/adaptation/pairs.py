"""The pairs of datasets of the adaptation study, as features of a frozen net."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from surelabel.config.settings import Config
from surelabel.dataset.array_store import Pixels, cache_folder
from surelabel.dataset.build import unlabeled_catalog
from surelabel.dataset.pixels import open_pixels, restore_pixels
from surelabel.errors import InputError, OptionError
from surelabel.types import FloatArray, IntArray, OnProgress, derive_seed, no_progress
from surelabel.workflows.model_inputs import decoding_of, open_inputs
from surelabel_studies.datasets.mnist import Digits, load_mnist
from surelabel_studies.datasets.usps import load_usps
from surelabel_studies.use_by_dates.locations import LOCATIONS
from surelabel_studies.use_by_dates.records import Settings
from surelabel_studies.use_by_dates.sets import Category, Like
from surelabel_studies.use_by_dates.writer import write_use_by_dates

OLD_LOCATIONS = ("bakery", "butcher", "drinks", "meals")
NEW_LOCATIONS = tuple(name for name in LOCATIONS if name not in OLD_LOCATIONS)
_RENDERED_SIDE = 299
_PHOTO_SIDE = 224
_DIGIT_SIDE = 96
_CHUNK = 1000


class Pair(StrEnum):
    """The old dataset, which has labels, and the new one, which is to be labeled."""

    LEAVES = "leaves"
    """From the laboratory to the field."""
    MNIST_USPS = "mnist-usps"
    USPS_MNIST = "usps-mnist"
    PACKAGING = "packaging"
    """Synthetic: two groups of locations."""


TITLES = {
    Pair.LEAVES: "leaves, laboratory to field",
    Pair.MNIST_USPS: "MNIST to USPS",
    Pair.USPS_MNIST: "USPS to MNIST",
    Pair.PACKAGING: "packaging, other locations (synthetic)",
}


@dataclass(frozen=True)
class Side:
    """One dataset of a pair."""

    features: FloatArray
    """(N, D)."""
    labels: IntArray
    """(N,) of all images; the study decides which of them are shown."""


@dataclass(frozen=True)
class PairData:
    """Both datasets of a pair."""

    old: Side
    new: Side
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Places:
    """Where the datasets are, and how much of them is used."""

    mnist: Path | None = None
    usps: Path | None = None
    leaves: Path | None = None
    packaging: Path = Path("packaging-images")
    packaging_scale: float = 2.0
    net: str = "lite0"
    most: int = 4000
    """Images of each dataset."""


def pairs_named(names: Sequence[str] | None, places: Places) -> tuple[Pair, ...]:
    """The named pairs; without names all, the leaves only if their folder is given."""
    if not names:
        return tuple(p for p in Pair if p is not Pair.LEAVES or places.leaves is not None)
    try:
        return tuple(map(Pair, names))
    except ValueError as error:
        raise OptionError(f"{error}: --pair can be {', '.join(Pair)}.") from None


def source_of(places: Places, on_progress: OnProgress = no_progress) -> Callable[[Pair], PairData]:
    """A function that reads a pair; features are computed once and kept in the cache."""

    def read(pair: Pair) -> PairData:
        if pair is Pair.LEAVES:
            return _leaves(places, on_progress)
        if pair is Pair.PACKAGING:
            return _packaging(places, on_progress)
        digits = (load_mnist(places.mnist), load_usps(places.usps))
        old, new = (_digits(each, places, on_progress) for each in digits)
        names = tuple(map(str, range(10)))
        return PairData(old, new, names) if pair is Pair.MNIST_USPS else PairData(new, old, names)

    return read


def _leaves(places: Places, on_progress: OnProgress) -> PairData:
    """Leaves in the laboratory and in the field, by the classes that both have."""
    folder = places.leaves
    if folder is None or not (folder / "field-to-lab.csv").is_file():
        raise InputError(
            "--pair leaves needs --leaves FOLDER, with leaves-lab/ and leaves-field/ (images/ and "
            "truth.csv with path,label) and field-to-lab.csv (field,lab)."
        )
    lab_name = {row["field"]: row["lab"] for row in _rows(folder / "field-to-lab.csv")}
    classes = tuple(sorted(set(lab_name.values())))
    number = {name: k for k, name in enumerate(classes)}
    sides = []
    for name in ("leaves-lab", "leaves-field"):
        truth = {row["path"]: row["label"] for row in _rows(folder / name / "truth.csv")}
        known = {path: lab_name.get(label, label) for path, label in truth.items()}
        used = {path: number[label] for path, label in known.items() if label in number}
        sides.append(
            _photographs(folder / name / "images", used, _PHOTO_SIDE, places.net, on_progress)
        )
    return PairData(sides[0], sides[1], classes)


def _rows(table: Path) -> list[dict[str, str]]:
    with table.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _photographs(
    folder: Path, labels: dict[str, int], side: int, net: str, on_progress: OnProgress
) -> Side:
    paths, features = features_of(folder, net, side, on_progress)
    names = [Path(path).name for path in paths]
    rows = [row for row, name in enumerate(names) if name in labels]
    return Side(features[rows], np.array([labels[names[row]] for row in rows], dtype=np.int64))


def _digits(digits: Digits, places: Places, on_progress: OnProgress) -> Side:
    """A random part of the train images, enlarged."""
    rng = np.random.default_rng(derive_seed(0, "adaptation study"))
    rows = np.sort(rng.permutation(len(digits.train_labels))[: places.most])
    _, features = features_of(digits.train_images[rows], places.net, _DIGIT_SIDE, on_progress)
    return Side(features, digits.train_labels[rows])


def _packaging(places: Places, on_progress: OnProgress) -> PairData:
    """Synthetic photographs of complete and incomplete dates, by group of locations."""
    folder = places.packaging
    settings = Settings(Like.SET1, 0, places.packaging_scale, _RENDERED_SIDE)
    write_use_by_dates(folder, settings, on_progress=on_progress)
    rows = [r for r in _rows(folder / "labels.csv") if r["category"] != Category.UNREADABLE]
    sides = []
    for group in (OLD_LOCATIONS, NEW_LOCATIONS):
        some = [row for row in rows if row["location"] in group][: places.most]
        labels = {Path(row["path"]).name: int(row["category"] == Category.COMPLETE) for row in some}
        sides.append(_photographs(folder, labels, _RENDERED_SIDE, places.net, on_progress))
    return PairData(sides[0], sides[1], ("date incomplete", "date complete"))


def features_of(
    images: Path | Pixels, net: str, side: int, on_progress: OnProgress
) -> tuple[npt.NDArray[np.str_], FloatArray]:
    """Paths (N,) and features (N, D) of the net's last layer, in the order of the images."""
    config = Config.from_mapping({"net": net, "image_size": side})
    cache = cache_folder(config.cache)
    catalog = unlabeled_catalog(images, decoding=decoding_of(config), cache=cache)
    store = (
        open_pixels(catalog, cache)
        if isinstance(images, Path)
        else restore_pixels(catalog, cache=cache, images=images)
    )
    inputs: Any = open_inputs(config, catalog, store, on_progress)
    rows, last = inputs.rows(catalog.ids), inputs.backbone.layers.up_to(0)[0]
    parts = [
        inputs.pixels(rows[start : start + _CHUNK])[:, last].float().numpy()
        for start in range(0, len(rows), _CHUNK)
    ]
    return catalog.paths, np.concatenate(parts)
