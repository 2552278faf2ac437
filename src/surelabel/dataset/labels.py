"""Labels in any form that people have them in, matched to the images of a source."""

from __future__ import annotations

import contextlib
import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeAlias, Union, cast

import numpy as np

from surelabel.dataset.annotation_files import is_label_json, json_table, read_json, text_table
from surelabel.dataset.arrays import AnyArray, is_idx, label_names, read_idx, read_labels
from surelabel.dataset.items import LabelRow, Source, absolute, normalize_key
from surelabel.dataset.label_studio import attach_label_studio, is_label_studio_table
from surelabel.dataset.remote import is_remote, local_copy, local_path
from surelabel.dataset.tables import Table, TableRow, is_table, read_table, table_from_frame
from surelabel.errors import LabelsError
from surelabel.files.spreadsheet import is_guarded, unguard

if TYPE_CHECKING:
    import pandas as pd

_InFiles: TypeAlias = str | os.PathLike[str] | AnyArray | Sequence[str | int | float | None]
if TYPE_CHECKING:
    Labels: TypeAlias = _InFiles | pd.DataFrame | pd.Series[str] | pd.Series[int]
else:  # at run time pandas is not imported yet, and its Series takes no parameter
    Labels = Union[_InFiles, "pd.DataFrame", "pd.Series"]
"""A file (CSV, TSV, Parquet, IDX, NumPy), a table with the columns path,label, or one label per
image in the order of an array of images: class names or integers; -1, None or empty for none."""

_MAX_SHOWN = 3
"""How many rows that match no image are named in a message."""
_MAX_LENGTH = 200
"""Characters of a path in a message."""


def attach_labels(source: Source, labels: Labels) -> Source:
    """``source`` with the rows of ``labels``, and with images that only a label table names."""
    if isinstance(labels, str | os.PathLike):
        text = local_path(os.fspath(labels))
        if is_remote(text):
            return _attach_remote_file(source, text)
        return _attach_file(source, Path(text).expanduser())
    if hasattr(labels, "columns"):
        return _attach_label_table(source, table_from_frame(cast("pd.DataFrame", labels)))
    values = labels if isinstance(labels, np.ndarray) else np.array(list(labels), dtype=object)
    return attach_array(source, values, "labels")


def attach_table(source: Source, table: Table) -> Source:
    """``source`` with the rows of ``table``, with or without labels, and the images it adds."""
    resolver = _PathResolver(source, table.folder)
    find = resolver.find_guarded if table.may_be_guarded else resolver.find
    matched, unknown = [], []
    for row in table.rows:
        key = _key_at_index(source, row) if table.by_index else find(row.path)
        if key is None:
            unknown.append(row)
        else:
            stated = (row.label, row.split, row.group, row.source, row.drawn, row.annotator)
            matched.append(LabelRow(key, row.where, *stated))
    if unknown:
        raise LabelsError(_unknown_sentence(source, table, unknown))
    return replace(
        source,
        keys=(*source.keys, *resolver.added),
        files=(*source.files, *resolver.added.values()),
        label_rows=(*source.label_rows, *matched),
    )


def attach_array(source: Source, labels: AnyArray, name: str) -> Source:
    """``source`` with ``labels`` (N,) in the order of its images."""
    if any(source.files):
        raise LabelsError(
            f"{name} is a list without paths, and the images are files, whose order means "
            "nothing. Give a table with the columns path,label."
        )
    names = label_names(labels, len(source.keys), name)
    rows = [
        LabelRow(key, f"{name}[{i}]", label)
        for i, (key, label) in enumerate(zip(source.keys, names, strict=True))
        if label
    ]
    return replace(source, label_rows=(*source.label_rows, *rows))


def _attach_remote_file(source: Source, address: str) -> Source:
    """Labels in a remote file; messages name its address, not that of the copy that is read."""
    with local_copy(address) as copy:
        try:
            labeled = _attach_file(source, copy)
        except LabelsError as error:
            raise type(error)(str(error).replace(str(copy), address)) from None
    new = [file for file in labeled.files[len(source.files) :] if not is_remote(file)]
    if new:
        raise LabelsError(
            f"{address} names {new[0]}, a file of this machine that is not among the images. A "
            "table from elsewhere may not do that: download it first if you trust it."
        )
    rows = (replace(r, where=r.where.replace(str(copy), address)) for r in labeled.label_rows)
    return replace(labeled, label_rows=tuple(rows))


@contextlib.contextmanager
def _odd_exports_told(path: Path) -> Iterator[None]:
    """Other tools nest lists and objects in many ways; a text where a list belongs is told."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise LabelsError(
            f"{path} is not built like an export of labels ({error}): export it again."
        ) from error


def _attach_file(source: Source, path: Path) -> Source:
    if not path.exists():
        raise LabelsError(f"{path}: there is no such file of labels.")
    if path.is_dir():
        raise LabelsError(f"{path} is a folder; labels are a table with the columns path,label.")
    if path.suffix.lower() == ".json":
        with _odd_exports_told(path):
            content = read_json(path)
            if is_label_json(content):
                return attach_table(source, json_table(path, content, source))
            return attach_label_studio(source, path)
    if path.suffix.lower() in {".txt", ".zip"}:
        with _odd_exports_told(path):
            return attach_table(source, text_table(path))
    if is_label_studio_table(path):
        return attach_label_studio(source, path)
    if is_table(path):
        return _attach_label_table(source, read_table(path))
    if path.suffix.lower() in {".npy", ".npz"}:
        return attach_array(source, read_labels(path), str(path))
    if is_idx(path):
        return attach_array(source, read_idx(path), str(path))
    raise LabelsError(
        f"{path} is not a file of labels; they are a CSV, TSV, Parquet or Excel table with the "
        "columns path,label, an export of Label Studio (JSON, CSV), labels of FiftyOne or COCO "
        "(JSON) or CVAT (TXT, ZIP), or an IDX or NumPy file for images in an array."
    )


def _attach_label_table(source: Source, table: Table) -> Source:
    if not table.has_labels:
        raise LabelsError(f"{table.name} has no column 'label'. Its columns have to be path,label.")
    return attach_table(source, table)


class _PathResolver:
    """Finds the image that a path in a table means, and collects files that are new.

    A path may be a key, absolute, or relative to the images or to the table, with either slash.
    """

    def __init__(self, source: Source, folder: Path | None) -> None:
        self.added: dict[str, str] = {}
        """Files that the source lacks, by key."""
        self._root = None if source.root is None else absolute(source.root)
        self._bases = [base for base in (self._root, folder) if base is not None]
        self._address = source.address
        self._lists_images = not source.keys
        """Whether the table itself says which images there are."""
        self._keys = set(source.keys)
        self._by_file = {f: k for f, k in zip(source.files, source.keys, strict=True) if f}

    def find(self, text: str) -> str | None:
        """The key of the image that ``text`` means; None where there is no such image."""
        text = local_path(text)
        for path in dict.fromkeys([text, text.strip(), text.strip().replace("\\", "/")]):
            key = normalize_key(posixpath.normpath(path))
            if key in self._keys:
                return key
            for file in self._candidates(path):
                match = self._by_file.get(file) or self._add(file, keep=Path(path).is_absolute())
                if match is not None:
                    return match
        return None

    def find_guarded(self, text: str) -> str | None:
        """``find``, for a table whose paths a spreadsheet guard may have changed."""
        as_it_is = self.find(text)
        if not is_guarded(text.strip()):
            return as_it_is
        without = self.find(unguard(text.strip()))
        if as_it_is is not None and without is not None:
            raise LabelsError(
                f"'{text}' may mean two images, with the first apostrophe or without it: rename "
                "one of them."
            )
        return as_it_is or without

    def _candidates(self, path: str) -> Iterator[str]:
        if "\0" in path:
            return
        if is_remote(path):
            yield path
        elif self._address and not Path(path).is_absolute():
            yield f"{self._address}/{posixpath.normpath(path)}"
        elif Path(path).is_absolute():
            yield absolute(path)
        else:
            yield from (absolute(Path(base) / path) for base in self._bases)

    def _add(self, file: str, *, keep: bool) -> str | None:
        """The key of a new file: relative to the root, but absolute outside of it with ``keep``."""
        if is_remote(file):
            return self._add_remote(file)
        if self._root is None or not _is_file(file):
            return None
        inside = _relative(file, self._root)
        if inside is None:
            real = Path(os.path.realpath(Path(file).parent)) / Path(file).name
            inside = _relative(str(real), os.path.realpath(self._root))
        outside = file if keep else _relative_path(file, self._root)
        key = normalize_key((inside or outside).replace(os.sep, "/"))
        if key not in self._keys:
            self.added[key] = file
            self._keys.add(key)
            self._by_file[file] = key
        return key

    def _add_remote(self, address: str) -> str | None:
        """The key of a remote image that a table lists; whether it is there is seen on reading."""
        if not self._lists_images:
            return None
        inside = _relative(address, self._address) if self._address else None
        key = normalize_key(inside or address)
        self.added[key] = address
        self._keys.add(key)
        self._by_file[address] = key
        return key


def _is_file(file: str) -> bool:
    try:
        return Path(file).is_file()
    except OSError:  # for example a name that is too long
        return False


def _relative(file: str, folder: str) -> str | None:
    start = folder.rstrip(os.sep) + os.sep
    return file[len(start) :] if file.startswith(start) else None


def _relative_path(file: str, folder: str) -> str:
    """With ``..`` where needed; on another drive as it is."""
    try:
        return os.path.relpath(file, folder)
    except ValueError:
        return file


def _short(path: str) -> str:
    return path if len(path) <= _MAX_LENGTH else f"{path[:_MAX_LENGTH]}..."


def _key_at_index(source: Source, row: TableRow) -> str | None:
    if source.array is None and any(source.files):
        raise LabelsError(
            f"{row.where}: the column 'index' is for images in an array or IDX file; "
            "for image files give a column 'path'."
        )
    return source.keys[int(row.path)] if _is_index(row.path, len(source.keys)) else None


def _is_index(text: str, n: int) -> bool:
    return text.isascii() and text.isdigit() and int(text) < n


def _unknown_sentence(source: Source, table: Table, rows: list[TableRow]) -> str:
    """The message about rows that match no image."""
    shown = "; ".join(f"{row.where}: '{_short(row.path)}'" for row in rows[:_MAX_SHOWN])
    more = f" and {len(rows) - _MAX_SHOWN} more" if len(rows) > _MAX_SHOWN else ""
    if table.by_index:
        return f"No image has this index (they go from 0 to {len(source.keys) - 1}): {shown}{more}."
    folder = "this folder" if str(table.folder) == "." else table.folder
    beside = "" if table.folder is None else f" or to {folder}"
    return (
        f"There is no image at this path: {shown}{more}. Paths are absolute, or relative to "
        f"{source.root or source.name}{beside}.{_meant(source, rows[0].path)}"
    )


def _meant(source: Source, path: str) -> str:
    """Which image was meant, where one has this name in another folder, case or without ending."""
    given = PurePosixPath(path.strip().replace("\\", "/").lower())
    names = {given.name, given.stem}
    alike = [key for key in source.keys if PurePosixPath(key.lower()).name in names]
    alike = alike or [key for key in source.keys if PurePosixPath(key.lower()).stem in names]
    return f" Write '{_short(alike[0])}' for '{_short(path)}'." if len(alike) == 1 else ""
