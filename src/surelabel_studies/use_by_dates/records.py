"""The files of a synthetic set besides its images: its settings and its label table."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from surelabel.errors import OptionError
from surelabel.files.atomic import atomic_write_bytes
from surelabel_studies.use_by_dates.faults import Fault
from surelabel_studies.use_by_dates.printing import Box
from surelabel_studies.use_by_dates.scene import Record, check_size
from surelabel_studies.use_by_dates.sets import Like, counts, plan

FILE = "settings.json"
VERSION = 1
"""Counts up whenever the same settings give other pixels."""
CHUNK = 32
"""Images that a worker renders before it marks them as done."""
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
"""Of labels.csv."""


@dataclass(frozen=True)
class Settings:
    """Everything that the bytes of a set depend on."""

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
        """One line of JSON for ``from_json``."""
        return json.dumps({"synthetic": True, **dataclasses.asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """The settings in a line from ``to_json``."""
        values = json.loads(text)
        del values["synthetic"]
        return cls(**{**values, "like": Like(values["like"])})


def claim(out: Path, settings: Settings) -> None:
    """Make ``out`` the folder of these settings; another set or other files are refused."""
    if out.exists() and not out.is_dir():
        raise OptionError(f"{out} is a file: give the name of a folder to make.")
    file = out / FILE
    if file.exists():
        _compare(out, file, settings)
        return
    if out.exists() and any(out.iterdir()):
        raise OptionError(f"{out} holds other files: give a folder that is new or empty.")
    atomic_write_bytes(file, settings.to_json().encode())


def _compare(out: Path, file: Path, settings: Settings) -> None:
    try:
        existing = Settings.from_json(file.read_text(encoding="utf-8"))
    except (ValueError, KeyError, TypeError, OptionError):
        raise OptionError(
            f"{file} does not belong to a set of synthetic use-by dates: give another folder."
        ) from None
    for option in dataclasses.fields(settings):
        there, here = getattr(existing, option.name), getattr(settings, option.name)
        if there != here:
            raise OptionError(
                f"{out} was made with {option.name} {there}, not {here}: give another folder, "
                "or the same settings to continue it."
            )


def image_path(index: int) -> str:
    """The path of an image below the set's folder."""
    return f"images/{index:05d}.jpg"


def table(records: Iterable[Record], *, header: bool) -> bytes:
    """Rows of CSV with the columns ``COLUMNS``."""
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
