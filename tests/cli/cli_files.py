"""A small dataset on disk, and the real command line in a process of its own."""

from __future__ import annotations

import csv
import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

FAST = [
    "--net",
    "compact",
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
FAST += ["--width", "0.25", "--threads", "1", "--max-rounds", "2", "--no-report"]
FAST += ["--accept", "tukey"]  # a few held-out labels cannot show an error of 2 %
CLASSES = ("bars", "dots", "rings")


_PROCESSES = multiprocessing.get_context("forkserver")
"""Each command has a process of its own, forked from one that has imported the libraries before:
importing them anew takes longer than most commands."""
_PROCESSES.set_forkserver_preload(
    ["pandas", "sklearn", "torch", "surelabel.cli.main", "surelabel.engines.local"]
)


def surelabel(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user would, outside of a terminal."""
    command = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as place:
        out, errors = Path(place) / "out", Path(place) / "errors"
        process = _PROCESSES.Process(target=_run, args=(command, cwd, out, errors))
        process.start()
        process.join()
        assert process.exitcode is not None
        return subprocess.CompletedProcess(
            command, process.exitcode, out.read_text("utf-8"), errors.read_text("utf-8")
        )


def _run(command: list[str], cwd: Path, out: Path, errors: Path) -> None:
    """In the new process: its folder, environment and output, then the command."""
    for number, path in ((1, out), (2, errors)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.environ |= {"SURELABEL_CACHE": str(cwd / "cache"), "COLUMNS": "100"}
    os.chdir(cwd)
    from surelabel.cli.main import run

    sys.exit(run(command))


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
