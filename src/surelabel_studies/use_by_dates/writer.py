"""Write a synthetic set to a folder: images, the label table, and a README."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from surelabel.dataset.parallel import ProgressCounter, n_workers
from surelabel.errors import OptionError
from surelabel.files.atomic import atomic_write_bytes, remove_leftovers
from surelabel.files.locks import LockHeldError, acquire, release
from surelabel.types import OnProgress, no_progress
from surelabel_studies.use_by_dates import worker
from surelabel_studies.use_by_dates.records import FILE, Settings, claim, table
from surelabel_studies.use_by_dates.sets import Category, counts, label_of
from surelabel_studies.use_by_dates.worker import PARTS, is_done, make_chunk, part_path


@dataclass(frozen=True)
class Written:
    """A finished set."""

    out: Path
    n_images: int
    n_made: int
    """How many were rendered by this call; the others were there already."""
    n_of_label: dict[str, int]


def write_use_by_dates(
    out: Path,
    settings: Settings,
    *,
    workers: int | None = None,
    on_progress: OnProgress = no_progress,
) -> Written:
    """Render a set into ``out``, or continue one that was interrupted.

    The bytes depend only on ``settings``, not on the number of ``workers``.
    """
    if workers is not None and workers < 1:
        raise OptionError(f"The number of workers is {workers}: give 1 or more.")
    claim(out, settings)
    with _locked(out):
        (out / "images").mkdir(exist_ok=True)
        remove_leftovers(out / "images")
        todo = [n for n in range(settings.n_chunks) if not is_done(out, settings, n)]
        n_todo = sum(len(settings.chunk(n)) for n in todo)
        counter = ProgressCounter(on_progress, "rendering", max(1, n_todo))
        _make(out, settings, todo, workers or n_workers(), counter)
        _finish(out, settings)
    of_label = {label_of(settings.like, c): n for c, n in _counts(settings).items()}
    return Written(out, settings.n_images, n_todo, of_label)


def _counts(settings: Settings) -> dict[Category, int]:
    return counts(settings.like, settings.scale)


@contextlib.contextmanager
def _locked(out: Path) -> Iterator[None]:
    """Lock the folder for this process; the system releases the lock when the process dies."""
    try:
        lock = acquire(out / f"{FILE}.lock", wait=0.0)
    except LockHeldError:
        raise OptionError(f"Another process is writing {out}: wait until it ends.") from None
    try:
        yield
    finally:
        release(lock, keep=False)


def _make(
    out: Path, settings: Settings, todo: list[int], workers: int, counter: ProgressCounter
) -> None:
    workers = min(workers, len(todo))
    if workers <= 1:
        for number in todo:
            make_chunk(out, settings, number, counter.advance)
        return
    with _started(out, settings, [todo[k::workers] for k in range(workers)]) as lines:
        for line in lines:
            if not line.strip().isdigit():
                raise OptionError(f"{line.strip()}. The same command continues from here.")
            counter.advance(int(line))


@contextlib.contextmanager
def _started(out: Path, settings: Settings, shares: list[list[int]]) -> Iterator[Iterator[str]]:
    """Start one process for each share of the chunks; yields the lines that they print."""
    ours, theirs = os.pipe()
    with os.fdopen(ours, encoding="utf-8") as lines:
        try:
            processes = [_start(out, settings, numbers, theirs) for numbers in shares]
        finally:
            os.close(theirs)
        try:
            yield lines
        except BaseException:
            for process in processes:
                process.terminate()
            raise
        finally:
            codes = [process.wait() for process in processes]
    if any(codes):
        raise RuntimeError("a rendering process ended early; its output is above")


def _start(
    out: Path, settings: Settings, numbers: list[int], answers: int
) -> subprocess.Popen[bytes]:
    program = f"from {worker.__name__} import main; main()"
    command = [sys.executable, "-c", program]
    command += [str(out.resolve()), settings.to_json(), *map(str, numbers)]
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return subprocess.Popen(command, stdout=answers, env={**os.environ, "PYTHONPATH": path})


def _finish(out: Path, settings: Settings) -> None:
    """Join the rows of all chunks into the label table."""
    if not (out / "labels.csv").exists():
        parts = [part_path(out, n).read_bytes() for n in range(settings.n_chunks)]
        atomic_write_bytes(out / "README.md", _readme(settings).encode())
        atomic_write_bytes(out / "labels.csv", b"".join([table([], header=True), *parts]))
    shutil.rmtree(out / PARTS, ignore_errors=True)


def _readme(settings: Settings) -> str:
    rows = [f"| {label_of(settings.like, c)} | {n:,} |" for c, n in _counts(settings).items()]
    return "\n".join(
        [
            "# Synthetic photographs of use-by dates",
            "",
            "Every image in this folder is **synthetic**: drawn by a program, not photographed. "
            "Say so wherever results on it are shown.",
            "",
            f"Modeled on {settings.like} of the food-packaging study; seed {settings.seed}, "
            f"scale {settings.scale:g}, {settings.size} x {settings.size} pixels.",
            "",
            "| Label | Images |",
            "|---|---|",
            *rows,
            "",
            "`labels.csv` has the label of every image and the truth about it: what was printed, "
            "where, by which machine, and the difficulty of each fault from 0 to 1. The column "
            "`difficulty` takes them together: below .5 a date is readable.",
            "",
        ]
    )
