"""A small dataset on disk, and the real command line in a process of its own."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

FAST = [
    "--steps",
    "60",
    "--consistency",
    "0",
    "--batch-size",
    "32",
    "--members",
    "1",
    "--mc-samples",
    "3",
]
FAST += ["--width", "0.25", "--threads", "1", "--max-rounds", "2"]
CLASSES = ("bars", "dots", "rings")


def surelabel(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would, outside of a terminal."""
    environment = {**os.environ, "SURELABEL_CACHE": str(cwd / "cache"), "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "surelabel", *map(str, arguments)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def draw_image(kind: str, rng: np.random.Generator) -> Image.Image:
    """A noisy 16x16 picture of its class."""
    y, x = np.mgrid[:16, :16]
    dx, dy = rng.integers(-2, 3, 2)
    distance = np.hypot(x - 8 - dx, y - 8 - dy)
    shape = {"bars": (x - dx) % 6 < 2, "dots": distance < 3, "rings": abs(distance - 5) < 1.2}
    pixels = 200 * shape[kind] + rng.integers(0, 40, (16, 16))
    return Image.fromarray(pixels.astype(np.uint8))


def write_dataset(folder: Path, n: int, seed: int = 0, start: int = 0) -> dict[str, str]:
    """``n`` images of each class in ``folder``; returns the class of each path below it.

    Their names count from ``start``: an image's name is what a run knows it by.
    """
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    truth = {}
    for number in range(start, start + n):
        for kind in CLASSES:
            name = f"{number:03d}{CLASSES.index(kind)}.png"
            draw_image(kind, rng).save(folder / name)
            truth[name] = kind
    return truth


def write_labels(path: Path, labels: dict[str, str]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label"])
        writer.writerows(labels.items())


def some(truth: dict[str, str], each: int) -> dict[str, str]:
    """The first ``each`` paths of every class."""
    chosen = {}
    for kind in CLASSES:
        names = sorted(name for name, label in truth.items() if label == kind)
        chosen.update(dict.fromkeys(names[:each], kind))
    return chosen
