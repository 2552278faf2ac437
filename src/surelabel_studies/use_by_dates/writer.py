"""A synthetic set as a folder: images, the label table, and a page that says what it is."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import fcntl
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from surelabel.dataset.parallel import Ticker, n_workers
from surelabel.errors import OptionError
from surelabel.files.atomic import atomic_write_bytes, remove_leftovers
from surelabel.types import OnProgress, no_progress
from surelabel_studies.use_by_dates import worker
from surelabel_studies.use_by_dates.faults import Fault
from surelabel_studies.use_by_dates.printing import Box
from surelabel_studies.use_by_dates.scene import Record, check_size
from surelabel_studies.use_by_dates.sets import Category, Like, counts, label_of, plan
from surelabel_studies.use_by_dates.worker import PARTS, is_done, make_chunk, part_path

FILE = "settings.json"
VERSION = 1
"""Counts up whenever the same settings give other pixels."""
CHUNK = 32
"""Images that a worker makes before it notes them as done."""


@dataclass(frozen=True)
class Settings:
    """All that the bytes of a set depend on."""

    like: Like
    seed: int
    scale: float
    size: int
    version: int = VERSION

    def __post_init__(self) -> None:
        counts(self.like, self.scale)
        check_size(self.size)

    @property
    def n_images(self) -> int:
        """How many images the set has."""
        return len(plan(self.like, self.seed, self.scale))

    def chunk(self, number: int) -> range:
        """The indices of a chunk."""
        return range(number * CHUNK, min((number + 1) * CHUNK, self.n_images))

    @property
    def n_chunks(self) -> int:
        """How many chunks the set has."""
        return -(-self.n_images // CHUNK)

    def to_json(self) -> str:
        """One line that ``from_json`` reads."""
        return json.dumps({"synthetic": True, **dataclasses.asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """The settings in a line that ``to_json`` wrote."""
        values = json.loads(text)
        del values["synthetic"]
        return cls(**{**values, "like": Like(values["like"])})


def claim(out: Path, settings: Settings) -> None:
    """Make ``out`` the folder of these settings, or say why it cannot be."""
    if out.exists() and not out.is_dir():
        raise OptionError(f"{out} is a file: give the name of a folder to make.")
    file = out / FILE
    if file.exists():
        _compare(out, file, settings)
        return
    if out.exists() and any(out.iterdir()):
        raise OptionError(f"{out} holds something else: give a folder that is new or empty.")
    atomic_write_bytes(file, settings.to_json().encode())


def _compare(out: Path, file: Path, settings: Settings) -> None:
    try:
        found = Settings.from_json(file.read_text(encoding="utf-8"))
    except (ValueError, KeyError, TypeError, OptionError):
        raise OptionError(
            f"{file} is not of a set of synthetic use-by dates: give another folder."
        ) from None
    for option in dataclasses.fields(settings):
        there, asked = getattr(found, option.name), getattr(settings, option.name)
        if there != asked:
            raise OptionError(
                f"{out} was made with {option.name} {there}, not {asked}: give another folder, "
                "or the same settings to go on with it."
            )


COLUMNS = (
    "path",
    "label",
    "category",
    "location",
    "product",
    "print",
    "legend",
    "date",
    "day",
    "month",
    "day_box",
    "month_box",
    "difficulty",
    *(str(fault) for fault in Fault),
)


def image_path(index: int) -> str:
    """Where the image is below the set's folder."""
    return f"images/{index:05d}.jpg"


def table(records: Iterable[Record], *, header: bool) -> bytes:
    """Rows of CSV; the order of the columns is ``COLUMNS``."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(COLUMNS)
    writer.writerows(map(_row, records))
    return text.getvalue().encode()


def _row(record: Record) -> list[object]:
    return [
        image_path(record.index),
        record.label,
        record.category,
        record.location,
        record.product,
        record.print_kind,
        record.legend,
        record.text,
        record.day or "",
        record.month or "",
        _box(record.day_box),
        _box(record.month_box),
        f"{record.difficulty:.4f}",
        *(f"{record.difficulties[fault]:.4f}" for fault in Fault),
    ]


def _box(box: Box | None) -> str:
    return "" if box is None else " ".join(f"{side:.1f}" for side in box)


@dataclass(frozen=True)
class Written:
    """A finished set."""

    out: Path
    n_images: int
    n_made: int
    """How many were rendered now; the others were there already."""
    n_of_label: dict[str, int]


def write_use_by_dates(
    out: Path,
    settings: Settings,
    *,
    workers: int | None = None,
    on_progress: OnProgress = no_progress,
) -> Written:
    """Render a set into ``out``; what an interrupted call left there is continued.

    The bytes depend on ``settings`` only, not on how many ``workers`` there are.
    """
    if workers is not None and workers < 1:
        raise OptionError(f"{workers} workers cannot do anything: give 1 or more.")
    claim(out, settings)
    with _alone(out):
        (out / "images").mkdir(exist_ok=True)
        remove_leftovers(out / "images")
        todo = [n for n in range(settings.n_chunks) if not is_done(out, settings, n)]
        n_todo = sum(len(settings.chunk(n)) for n in todo)
        ticker = Ticker(on_progress, "rendering", max(1, n_todo))
        _make(out, settings, todo, workers or n_workers(), ticker)
        _finish(out, settings)
    of_label = {label_of(settings.like, c): n for c, n in _counts(settings).items()}
    return Written(out, settings.n_images, n_todo, of_label)


def _counts(settings: Settings) -> dict[Category, int]:
    return counts(settings.like, settings.scale)


@contextlib.contextmanager
def _alone(out: Path) -> Iterator[None]:
    """Let only one process write the folder; the system frees it when that process dies."""
    with (out / FILE).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OptionError(f"Another process is writing {out}: wait until it ends.") from None
        yield


def _make(out: Path, settings: Settings, todo: list[int], workers: int, ticker: Ticker) -> None:
    workers = min(workers, len(todo))
    if workers <= 1:
        for number in todo:
            make_chunk(out, settings, number, ticker.advance)
        return
    with _started(out, settings, [todo[k::workers] for k in range(workers)]) as lines:
        for line in lines:
            if not line.strip().isdigit():
                raise OptionError(f"{line.strip()}. The same command goes on from here.")
            ticker.advance(int(line))


@contextlib.contextmanager
def _started(out: Path, settings: Settings, shares: list[list[int]]) -> Iterator[Iterator[str]]:
    """One process for each share of the chunks; yields the lines of all as they come."""
    ours, theirs = os.pipe()
    with os.fdopen(ours) as lines:
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
        raise RuntimeError("a process that renders ended early; what it said is above")


def _start(
    out: Path, settings: Settings, numbers: list[int], answers: int
) -> subprocess.Popen[bytes]:
    program = f"from {worker.__name__} import main; main()"
    command = [sys.executable, "-c", program]
    command += [str(out.resolve()), settings.to_json(), *map(str, numbers)]
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return subprocess.Popen(command, stdout=answers, env={**os.environ, "PYTHONPATH": path})


def _finish(out: Path, settings: Settings) -> None:
    """Put the rows together once every chunk is there."""
    if not (out / "labels.csv").exists():
        parts = [part_path(out, n).read_bytes() for n in range(settings.n_chunks)]
        atomic_write_bytes(out / "README.md", _page(settings).encode())
        atomic_write_bytes(out / "labels.csv", b"".join([table([], header=True), *parts]))
    shutil.rmtree(out / PARTS, ignore_errors=True)


def _page(settings: Settings) -> str:
    rows = [f"| {label_of(settings.like, c)} | {n:,} |" for c, n in _counts(settings).items()]
    return "\n".join(
        [
            "# Synthetic photographs of use-by dates",
            "",
            "Every image in this folder is **synthetic**: drawn by a program, not photographed. "
            "Say so wherever results on it are shown.",
            "",
            f"Modelled on {settings.like} of the food-packaging study; seed {settings.seed}, "
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
