"""Small color images, and a little backbone in place of a large one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from surelabel.config.choices import Tail
from surelabel.config.settings import Config
from surelabel.dataset.build import build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.decode import Decoding
from surelabel.dataset.pixels import open_pixels
from surelabel.engines.inputs import Features, Images
from surelabel.models.backbones import Backbone, InputSpec

N_PHOTOS = 60
SIDE = 32
LOOK = InputSpec(SIDE, "bicubic", (0.5,) * 3, (0.25,) * 3)


def photos(seed: int = 0) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], np.ndarray[Any, Any]]:
    """Reddish and bluish noise, (60, 32, 32, 3), with labels 0 and 1."""
    rng = np.random.default_rng(seed)
    labels = np.arange(N_PHOTOS) % 2
    pixels = rng.integers(0, 120, (N_PHOTOS, SIDE, SIDE, 3))
    pixels[labels == 0, ..., 0] += 60
    pixels[labels == 1, ..., 2] += 60
    return pixels.astype(np.uint8), labels


def photo_catalog(cache: Path, n_labeled: int = 24) -> Catalog:
    pixels, labels = photos()
    known = np.where(np.arange(N_PHOTOS) < n_labeled, labels, -1)
    return build_catalog(pixels, known, seed=0, decoding=Decoding(SIDE), cache=cache)


def backbone(seed: int = 0, scale: float = 1.0) -> Backbone:
    """Two convolutions and a mean: 12 features."""
    torch.manual_seed(seed)
    last = nn.Conv2d(8, 12, 3, stride=2)
    stem = nn.Sequential(
        nn.Conv2d(3, 8, 5, stride=2),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        last,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    with torch.no_grad():
        last.weight *= scale
    return Backbone("toy", stem, LOOK, ())


def features_of(
    catalog: Catalog, pixels: Path, cache: Path | None, net: Backbone | None = None
) -> Features:
    images = Images(catalog, open_pixels(catalog, pixels), in_memory=False)
    return Features(images, net or backbone(), cache)


def settings(**changes: Any) -> Config:
    plain: dict[str, Any] = {
        "net": "toy",
        "tail": Tail.SMALL,
        "steps": 40,
        "batch_size": 16,
        "members": 2,
        "mc_samples": 3,
        "views": 2,
        "device": "cpu",
    }
    return Config(**{**plain, **changes}).in_effect(pretrained=True)
