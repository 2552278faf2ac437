"""Extraction of features from stored pixels over a bare loop of the net on ready tensors."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from clock import best_times
from made_up_photos import SIDE, lite0_features, made_up, skipped_without_weights, with_noise
from settings import Settings

_BATCH = 16


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

        times = best_times({"bare": bare, "ours": ours}, repeats=1 if settings.tiny else 5)
    return {
        "images": n,
        "images_a_second": round(n / times["ours"], 1),
        "bare_images_a_second": round(n / times["bare"], 1),
        "ratio": round(times["bare"] / times["ours"], 2),
    }
