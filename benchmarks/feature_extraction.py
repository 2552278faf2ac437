"""Feature extraction from stored pixels and from files, relative to a bare loop on tensors."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from clock import best_times
from made_up_photos import SIDE, lite0_features, made_up, skipped_without_weights, with_noise
from settings import Settings
from surelabel.dataset.build import unlabeled_catalog
from surelabel.dataset.decode import Decoding
from surelabel.types import JsonObject

_BATCH = 16
_PHOTO = (1280, 960)


def main(settings: Settings) -> JsonObject:
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
            from_photos = unlabeled_catalog(
                photos, decoding=Decoding(SIDE, 3, "bicubic"), cache=cache
            )
            lite0_features(from_photos, cache, cache).compute()

        ways = {"bare": bare, "ours": ours, "files": from_files}
        times = best_times(ways, repeats=1 if settings.tiny else 5)
    return {
        "images": n,
        "images_per_second": round(n / times["ours"], 1),
        "bare_images_per_second": round(n / times["bare"], 1),
        "ratio": round(times["bare"] / times["ours"], 2),
        "ratio_from_files": round(times["bare"] / times["files"], 2),
    }


def write_photos(folder: Path, n: int) -> None:
    """Different JPEG files of 1.2 megapixels, smooth like photographs."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for i in range(n):
        coarse = Image.fromarray(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8))
        coarse.resize(_PHOTO, Image.Resampling.BICUBIC).save(folder / f"{i:05d}.jpg", quality=90)
