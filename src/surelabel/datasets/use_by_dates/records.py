"""The label table of a synthetic set: what ``surelabel label`` reads, and the truth beside it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from surelabel.datasets.use_by_dates.faults import Fault
from surelabel.datasets.use_by_dates.printing import Box
from surelabel.datasets.use_by_dates.scene import Record

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
