"""Made-up photographs and features: their cost does not depend on what they show."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.items import item_ids, string_array
from surelabel.dataset.pixels import open_pixels
from surelabel.engines.inputs import Features, Images
from surelabel.models.backbones import load_backbone, photos_installed
from surelabel.selftraining.round_inputs import RoundInputs
from surelabel.types import JsonObject, LabelSource, Split
from surelabel.workflows.problem import build_problem

SIDE = 224
_SLICE = 500


def made_up(n: int) -> Catalog:
    """A catalog of ``n`` photographs without files, up to 500 of them labeled."""
    number = np.arange(n)
    labeled = number < min(500, n // 2)
    held_out = np.where(number % 5 == 0, str(Split.TUNE), str(Split.TRAIN))
    keys = [f"{i}.jpg" for i in range(n)]
    return Catalog(
        ids=item_ids(keys),
        paths=string_array(keys),
        labels=np.where(labeled, number % 2, -1).astype(np.int64),
        sources=np.where(labeled, str(LabelSource.GIVEN), ""),
        splits=np.where(labeled, held_out, str(Split.POOL)),
        groups=np.zeros(n, dtype="<U1"),
        digests=string_array(f"{i:032x}" for i in range(n)),
        files=string_array(keys),
        classes=("a", "b"),
        size=SIDE,
        channels=3,
        cross_fit=False,
        resize="bicubic",
    )


def with_noise(catalog: Catalog, cache: Path) -> Catalog:
    """``catalog``, with random pixels for its images in the cache."""
    rng, store = np.random.default_rng(0), open_pixels(catalog, cache)
    for start in range(0, len(catalog), _SLICE):
        digests = catalog.digests[start : start + _SLICE]
        store.add(digests, rng.integers(0, 256, (len(digests), SIDE, SIDE, 3), dtype=np.uint8))
    return catalog


def lite0_features(catalog: Catalog, pixels: Path, cache: Path | None) -> Features:
    """The features of EfficientNet-Lite0, not computed yet."""
    images = Images(catalog, open_pixels(catalog, pixels), in_memory=False)
    backbone = load_backbone(Config(net="efficientnet-lite0", tail=Tail.SMALL))
    return Features(images, backbone, cache)


def first_inputs(catalog: Catalog) -> RoundInputs:
    problem = build_problem(catalog, {}, 0)
    return RoundInputs(1, problem, problem.pool_ids[:0], np.empty(0, dtype=np.int64), np.empty(0))


def skipped_without_weights() -> JsonObject | None:
    return None if photos_installed() else {"skipped": "surelabel[photos] is not installed"}
