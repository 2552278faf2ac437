"""What gathering decoded images from the memory-mapped store costs over copying an array."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from clock import best_times
from settings import Settings
from surelabel.dataset.array_store import PixelStore


def main(settings: Settings) -> dict[str, Any]:
    n = 2_000 if settings.tiny else 60_000
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (n, 28, 28, 1), dtype=np.uint8)
    digests = np.array([f"{i:032x}" for i in range(n)])
    order = rng.permutation(n)
    with tempfile.TemporaryDirectory() as folder:
        store = PixelStore(Path(folder), 28, 1)
        store.add(digests, pixels)
        times = best_times(
            {"store": lambda: store.gather(digests[order]), "array": lambda: pixels[order]},
            repeats=2 if settings.tiny else 7,
        )
    return {
        "images": n,
        "gather_seconds": round(times["store"], 4),
        "array_seconds": round(times["array"], 4),
        "ratio": round(times["store"] / times["array"], 2),
    }
