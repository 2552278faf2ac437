"""The list of images that were left out of a run, and why."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from surelabel.files.atomic import atomic_write_bytes

_HEADER = ("path", "reason")


def read_skipped(path: Path) -> list[tuple[str, str]]:
    """The (path, reason) pairs in the CSV file ``path``; none if it is not there."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = [(row[0], row[1]) for row in csv.reader(file) if len(row) == len(_HEADER)]
    return rows[1:]


def add_skipped(path: Path, rows: Iterable[tuple[str, str]]) -> None:
    """Add to the list the pairs that are not in it yet."""
    merged = dict.fromkeys([*read_skipped(path), *rows])
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_HEADER)
    writer.writerows(merged)
    atomic_write_bytes(path, text.getvalue().encode())
