"""Pictures of stripes on a real disk, and settings that label them in a blink."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from surelabel.config.choices import Measure, Mode, Optimizer
from surelabel.config.settings import Config
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.events import Event, RoundProgress

SIDE = 16


def stripes(name: str, number: int) -> Image.Image:
    """A noisy pattern of the class ``across``, ``down`` or ``plain``; no two are alike."""
    rng = np.random.default_rng([number, *name.encode()])
    pixels = rng.integers(0, 90, (SIDE, SIDE), dtype=np.uint8)
    place = np.arange(SIDE) + number
    lines = (place % 4 < 2).astype(np.uint8) * 150
    if name == "across":
        pixels += lines[:, None]
    elif name == "down":
        pixels += lines[None, :]
    return Image.fromarray(pixels)


def write_stripes(folder: Path, name: str, numbers: Iterable[int]) -> list[str]:
    """Write ``NAME-NUMBER.png``; returns the file names."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for number in numbers:
        written.append(f"{name}-{number:02d}.png")
        stripes(name, number).save(folder / written[-1])
    return written


def truth(path: str) -> str:
    return Path(path).name.split("-")[0]


def write_labels(path: Path, names: Iterable[str], columns: str = "path,label") -> Path:
    """Say the truth about some files, or the given lines about them."""
    lines = [n if "," in n else f"{n},{truth(n)}" for n in names]
    path.write_text("\n".join([columns, *lines]) + "\n", encoding="utf-8")
    return path


def photos_and_labels(place: Path, n: int = 20, n_labeled: int = 5) -> tuple[Path, Path]:
    """n images of each of two classes, a few of them labeled in ``labels.csv``."""
    photos = place / "photos"
    names = [write_stripes(photos, name, range(n)) for name in ("across", "down")]
    few = [file for files in names for file in files[:n_labeled]]
    return photos, write_labels(place / "labels.csv", few)


def tiny(cache: Path, **changes: Any) -> Config:
    """Every option that these tests rest on, said aloud."""
    plain: dict[str, Any] = {
        "net": "compact",
        "seed": 3,
        "steps": 20,
        "batch_size": 16,
        "members": 1,
        "mc_samples": 3,
        "width": 0.25,
        "max_rounds": 2,
        "accept": "q3",
        "mode": Mode.RELABEL,
        "score": Measure.LEAST_CONFIDENCE,
        "stop_below": 0,
        "stop_after_empty": 1000,
        "balance_rounds": 0,
        "augment": False,
        "consistency": 0.0,
        "optimizer": Optimizer.ADAM,
        "learning_rate": 0.01,
        "weight_average": 0.5,
        "threads": 1,
        "device": "cpu",
        "cache": str(cache),
    }
    return Config(**{**plain, **changes})


def id_of(folder: RunFolder, path: str) -> str:
    catalog = folder.catalog
    return str(catalog.ids[catalog.paths.tolist().index(path)])


class StopAt:
    """A listener that interrupts at the n-th report of progress in a round."""

    def __init__(self, number: int, call: int) -> None:
        self.number, self.left = number, call

    def __call__(self, event: Event) -> None:
        if isinstance(event, RoundProgress) and event.number == self.number:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
