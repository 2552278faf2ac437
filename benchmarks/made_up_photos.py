"""Photographs and features that nobody took: what they show does not change what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from surelabel.catalog import Catalog, build_catalog, open_pixels
from surelabel.config import Config
from surelabel.engines import Features, Images
from surelabel.nets.backbones import load_backbone
from surelabel.problem import build_problem
from surelabel.selftrain import Lesson

SIDE = 224


def photo_catalog(folder: Path, n: int, n_labelled: int) -> Catalog:
    """``n`` images of noise in the pixel store, of two classes."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (n, SIDE, SIDE, 3), dtype=np.uint8)
    labels = np.where(np.arange(n) < n_labelled, np.arange(n) % 2, -1)
    return build_catalog(pixels, labels, seed=0, image_size=SIDE, resize="bicubic", cache=folder)


def lite0_features(catalog: Catalog, pixels: Path, cache: Path | None) -> Features:
    """Of EfficientNet-Lite0, not computed yet."""
    images = Images(catalog, open_pixels(catalog, pixels), in_memory=False)
    backbone = load_backbone(Config(net="efficientnet-lite0"))
    return Features(images, backbone, cache, device=torch.device("cpu"))


def first_lesson(catalog: Catalog) -> Lesson:
    problem = build_problem(catalog, {}, 0)
    return Lesson(1, problem, problem.pool_ids[:0], np.empty(0, dtype=np.int64), np.empty(0))


def skipped_without_weights() -> dict[str, Any] | None:
    from surelabel.nets.backbones import photos_installed

    return None if photos_installed() else {"skipped": "surelabel[photos] is not installed"}
