"""Extraction of features, from stored pixels and from files, over a bare loop on ready tensors."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from clock import best_times
from made_up_photos import SIDE, lite0_features, made_up, skipped_without_weights, with_noise
from settings import Settings
from surelabel.dataset.build import unlabeled_catalog

_BATCH = 16
_PHOTO = (1280, 960)


def main(settings: Settings) -> dict[str, Any]:
    skipped = skipped_without_weights()
    if skipped:
        return skipped
    n = settings.size(settings.images, full=256, tiny=16)
    with tempfile.TemporaryDirectory() as folder:
        catalog = with_noise(made_up(n), Path(folder))
        net = lite0_features(catalog, Path(folder), None).backbone
        ready = torch.randn(_BATCH, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)
        turn = iter(range(1000))

        def bare() -> None:
            with torch.no_grad():
                for _ in range(n // _BATCH):
                    net(ready)

        def ours() -> None:
            cache = Path(folder) / f"features-{next(turn)}"
            lite0_features(catalog, Path(folder), cache).compute()

        photos = Path(folder) / "photos"
        write_photos(photos, n)

        def from_files() -> None:
            cache = Path(folder) / f"files-{next(turn)}"
            found = unlabeled_catalog(
                photos, image_size=SIDE, channels=3, resize="bicubic", cache=cache
            )
            lite0_features(found, cache, cache).compute()

        ways = {"bare": bare, "ours": ours, "files": from_files}
        times = best_times(ways, repeats=1 if settings.tiny else 5)
    return {
        "images": n,
        "images_a_second": round(n / times["ours"], 1),
        "bare_images_a_second": round(n / times["bare"], 1),
        "ratio": round(times["bare"] / times["ours"], 2),
        "ratio_from_files": round(times["bare"] / times["files"], 2),
    }


def write_photos(folder: Path, n: int) -> None:
    """JPEG files of 1.2 megapixels that differ, smooth as photographs are."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(n):
        coarse = Image.fromarray(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8))
        coarse.resize(_PHOTO, Image.Resampling.BICUBIC).save(folder / f"{i:05d}.jpg", quality=90)
