"""The demo: label scikit-learn's handwritten digits and compare with the true labels."""

from __future__ import annotations

import csv
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surelabel import api
from surelabel.api import Run
from surelabel.config.choices import Effort
from surelabel.config.settings import Config
from surelabel.errors import OptionError
from surelabel.types import JsonObject, LabelSource, derive_seed
from surelabel.workflows.label import Listeners

_LABELS_PER_CLASS = 10
_SEED = 0
_MARKER = ".surelabel-demo"
"""Marks a folder as a demo, which another demo may replace."""


@dataclass(frozen=True)
class DemoResult:
    """The finished run, and how many of its labels are wrong."""

    run: Run
    n_checked: int
    """Images that the run labeled."""
    n_wrong: int
    n_left: int
    """Images left unlabeled."""
    n_left_wrong: int
    """How many guesses for those are wrong."""

    def truth(self) -> JsonObject:
        """The comparison with the true labels, in plain values."""
        names = ("n_checked", "n_wrong", "n_left", "n_left_wrong")
        return {f"truth_{name}": getattr(self, name) for name in names}


def run_demo(out: Path, listeners: Listeners) -> DemoResult:
    """Write images and labels below ``out``, run surelabel on them, and compare.

    An earlier demo at ``out`` is replaced; a folder that holds anything else is refused.
    """
    if out.exists() and not (out / _MARKER).exists() and (out.is_file() or any(out.iterdir())):
        raise OptionError(f"{out} holds something other than a demo: give another --out.")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    (out / _MARKER).touch()
    images, run = out / "images", out / "run"
    truth = write_images(images)
    labels = out / "labels.csv"
    write_labels(labels, truth)
    config = Config(effort=Effort.LOW, seed=_SEED)
    finished = api.label(images, labels, run, config=config, listeners=listeners)
    return compare(finished, truth)


def write_images(folder: Path) -> dict[str, str]:
    """Write the 1,797 digits as PNG files of 8x8 pixels; returns the class of each file."""
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    folder.mkdir(parents=True, exist_ok=True)
    pixels = np.round(digits.images * (255 / 16)).astype(np.uint8)
    truth = {}
    for number, (image, label) in enumerate(zip(pixels, digits.target, strict=True)):
        name = f"digit-{number:04d}.png"
        Image.fromarray(image).save(folder / name)
        truth[name] = str(label)
    return truth


def write_labels(path: Path, truth: dict[str, str]) -> None:
    """Write a table with ten labels per class, as a person would have made it."""
    rng = np.random.default_rng(derive_seed(_SEED, "demo"))
    names = np.array(sorted(truth))
    classes = np.array([truth[name] for name in names])
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label"])
        for label in np.unique(classes):
            for name in rng.permutation(names[classes == label])[:_LABELS_PER_CLASS]:
                writer.writerow([name, label])


def compare(run: Run, truth: dict[str, str]) -> DemoResult:
    """Count wrong labels, and wrong guesses among the images left unlabeled."""
    table = run.annotations
    right = table["path"].map(truth) == table["guess"]
    labeled = table["source"] == str(LabelSource.PSEUDO)
    left = table["source"] == str(LabelSource.NONE)
    return DemoResult(
        run=run,
        n_checked=int(labeled.sum()),
        n_wrong=int((labeled & ~right).sum()),
        n_left=int(left.sum()),
        n_left_wrong=int((left & ~right).sum()),
    )
