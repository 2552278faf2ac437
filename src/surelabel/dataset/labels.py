"""Label tables and arrays: which image each row speaks of, and what people said about it."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union, cast

import numpy as np
import numpy.typing as npt

from surelabel.dataset.arrays import is_idx, label_names, read_idx, read_labels
from surelabel.dataset.items import Mark, Source, absolute, tidy_key
from surelabel.dataset.tables import Row, Table, is_table, read_table, table_of
from surelabel.errors import LabelsError

if TYPE_CHECKING:
    import pandas as pd


_SHOWN = 3


def mark_table(source: Source, table: Table) -> Source:
    """``source`` with the marks of ``table`` and the images that only the table names."""
    finder = _Finder(source, table.folder)
    marks, unknown = [], []
    for row in table.rows:
        key = _at_index(source, row) if table.by_index else finder.find(row.path)
        if key is None:
            unknown.append(row)
        else:
            marks.append(Mark(key, row.where, row.label, row.split, row.group, row.source))
    if unknown:
        raise LabelsError(_unknown(source, table, unknown))
    return replace(
        source,
        keys=(*source.keys, *finder.added),
        files=(*source.files, *finder.added.values()),
        marks=(*source.marks, *marks),
    )


def mark_array(source: Source, labels: npt.NDArray[Any], name: str) -> Source:
    """``source`` with ``labels`` (N,) in the order of its images."""
    if any(source.files):
        raise LabelsError(
            f"{name} is a list without paths, and the images are files, whose order means "
            "nothing. Give a table with the columns path,label."
        )
    given = label_names(labels, len(source.keys), name)
    marks = [
        Mark(key, f"{name}[{i}]", label)
        for i, (key, label) in enumerate(zip(source.keys, given, strict=True))
        if label
    ]
    return replace(source, marks=(*source.marks, *marks))


class _Finder:
    """Finds images by the ways people write paths, and collects files that are new."""

    def __init__(self, source: Source, folder: Path | None) -> None:
        self.added: dict[str, str] = {}
        self._root = None if source.root is None else absolute(source.root)
        self._bases = [base for base in (self._root, folder) if base is not None]
        self._keys = set(source.keys)
        self._by_file = {f: k for f, k in zip(source.files, source.keys, strict=True) if f}

    def find(self, text: str) -> str | None:
        """The key that ``text`` means, or none."""
        for path in dict.fromkeys([text, text.strip(), text.strip().replace("\\", "/")]):
            key = tidy_key(posixpath.normpath(path))
            if key in self._keys:
                return key
            for file in self._candidates(path):
                found = self._by_file.get(file) or self._add(file, keep=Path(path).is_absolute())
                if found is not None:
                    return found
        return None

    def _candidates(self, path: str) -> Iterator[str]:
        if "\0" in path:
            return
        if Path(path).is_absolute():
            yield absolute(path)
        else:
            yield from (absolute(Path(base) / path) for base in self._bases)

    def _add(self, file: str, *, keep: bool) -> str | None:
        if self._root is None or not Path(file).is_file():
            return None
        inside = _relative(file, self._root)
        if inside is None:
            real = Path(os.path.realpath(Path(file).parent)) / Path(file).name
            inside = _relative(str(real), os.path.realpath(self._root))
        outside = file if keep else os.path.relpath(file, self._root)
        key = tidy_key((inside or outside).replace(os.sep, "/"))
        if key not in self._keys:
            self.added[key] = file
            self._keys.add(key)
            self._by_file[file] = key
        return key


def _relative(file: str, folder: str) -> str | None:
    start = folder.rstrip(os.sep) + os.sep
    return file[len(start) :] if file.startswith(start) else None


def _at_index(source: Source, row: Row) -> str | None:
    if source.array is None and any(source.files):
        raise LabelsError(
            f"{row.where}: the column 'index' is for images in an array or IDX file; "
            "for image files give a column 'path'."
        )
    return source.keys[int(row.path)] if _is_index(row.path, len(source.keys)) else None


def _is_index(text: str, n: int) -> bool:
    return text.isascii() and text.isdigit() and int(text) < n


def _unknown(source: Source, table: Table, rows: list[Row]) -> str:
    """The sentence on rows that name no image."""
    shown = "; ".join(f"{row.where}: '{row.path}'" for row in rows[:_SHOWN])
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    if table.by_index:
        return f"No image has this index (they go from 0 to {len(source.keys) - 1}): {shown}{more}."
    beside = "" if table.folder is None else f" or to {table.folder}"
    return (
        f"There is no image of this path: {shown}{more}. Paths are absolute, or relative to "
        f"{source.root or source.name}{beside}."
    )


Labels: TypeAlias = Union[
    str, "os.PathLike[str]", npt.NDArray[Any], Sequence[Any], "pd.DataFrame", "pd.Series[Any]"
]


def attach_labels(source: Source, labels: Labels) -> Source:
    """``source`` with what ``labels`` says of its images, and the images only a table names."""
    if isinstance(labels, str | os.PathLike):
        return _from_file(source, Path(labels).expanduser())
    if hasattr(labels, "columns"):
        return _from_table(source, table_of(cast("pd.DataFrame", labels)))
    values = labels if isinstance(labels, np.ndarray) else np.array(list(labels), dtype=object)
    return mark_array(source, values, "labels")


def _from_file(source: Source, path: Path) -> Source:
    if not path.exists():
        raise LabelsError(f"{path}: there is no such file of labels.")
    if path.is_dir():
        raise LabelsError(f"{path} is a folder; labels are a table with the columns path,label.")
    if is_table(path):
        return _from_table(source, read_table(path))
    if path.suffix.lower() in {".npy", ".npz"}:
        return mark_array(source, read_labels(path), str(path))
    if is_idx(path):
        return mark_array(source, read_idx(path), str(path))
    raise LabelsError(
        f"{path} is not a file of labels; they are a CSV, TSV or Parquet table with the columns "
        "path,label, or an IDX or NumPy file for images in an array."
    )


def _from_table(source: Source, table: Table) -> Source:
    if not table.has_labels:
        raise LabelsError(f"{table.name} has no column 'label'. Its columns have to be path,label.")
    return mark_table(source, table)
