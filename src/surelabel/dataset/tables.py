"""Read label tables: CSV, TSV, Parquet, Excel or a data frame, with every cell as a string."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from surelabel.dataset.items import normalize_key
from surelabel.errors import LabelsError
from surelabel.files.spreadsheet import unguard
from surelabel.types import NONE_TEXT

if TYPE_CHECKING:
    import pandas as pd

Cells: TypeAlias = tuple[list[str], Iterable[tuple[str, list[str]]]]
"""The titles of the columns; and for each record its place, as file and line, and its cells."""

_EXCEL = ".xlsx"
TABLE_SUFFIXES = frozenset({".csv", ".tsv", ".parquet", ".pq", ".xlsx"})
COLUMNS = ("path", "index", "label", "split", "group")
_SOURCE = "source"
"""In tables that surelabel wrote: where each label comes from."""
_ANNOTATOR = "annotator"
"""Who gave the label, where several people label."""
_DRAWN = "drawn"
"""In tables that ``draw`` wrote: by which strategy the image was chosen."""
_PARQUET = frozenset({".parquet", ".pq"})
_NO_LABEL = "-1"
"""In a table whose labels are integers, as in arrays."""


@dataclass(frozen=True)
class TableRow:
    """One row of a table; columns that the table lacks are empty."""

    where: str
    """File and line, for messages."""
    path: str
    label: str = ""
    split: str = ""
    group: str = ""
    source: str = ""
    """Where the label comes from, in a table that surelabel wrote."""
    drawn: str = ""
    """By which strategy the image was drawn, in a table that surelabel wrote."""
    annotator: str = ""
    """Who gave the label."""


@dataclass(frozen=True)
class Table:
    """The rows of a table, which name images by path or by position in an array."""

    name: str
    folder: Path | None
    """The folder of the file, for paths relative to it."""
    has_labels: bool
    by_index: bool
    rows: tuple[TableRow, ...]
    may_be_guarded: bool = False
    """Whether paths may have an apostrophe that keeps spreadsheets from running them."""


def is_table(path: Path) -> bool:
    """Whether ``path`` is named like a table."""
    return path.suffix.lower() in TABLE_SUFFIXES


def read_table(path: Path) -> Table:
    """The table in the file ``path``, or a ``LabelsError`` that explains what is wrong."""
    header, records = read_cells(path)
    table = table_of_cells(str(path), path.parent, header, records)
    is_text = path.suffix.lower() not in {*_PARQUET, _EXCEL}
    return replace(table, may_be_guarded=is_text and not _is_own(header))


def read_cells(path: Path) -> Cells:
    """All cells of the CSV, TSV, Parquet or Excel file ``path`` as text, with any columns."""
    if not path.exists():
        raise LabelsError(f"{path}: there is no such file.")
    if path.suffix.lower() in _PARQUET:
        return _read_parquet(path)
    if path.suffix.lower() == _EXCEL:
        return _read_excel(path)
    header, records = _read_text(path)
    if _is_own(header):
        return header, ((where, [unguard(cell) for cell in cells]) for where, cells in records)
    return header, records


def _is_own(header: Iterable[str]) -> bool:
    """Whether surelabel wrote the table: then guarded text is text again."""
    return any(title.strip().lower() in (_SOURCE, _DRAWN) for title in header)


def table_from_frame(frame: pd.DataFrame) -> Table:
    """The table in a data frame, whose rows are named by their position."""
    header = [str(name) for name in frame.columns]
    columns = [
        [cell_text(value) for value in frame.iloc[:, i].tolist()] for i in range(len(header))
    ]
    cells = zip(*columns, strict=True)
    rows = ((f"row {i} of the table", list(row)) for i, row in enumerate(cells))
    return table_of_cells("the table", None, header, rows)


def _read_parquet(path: Path) -> Cells:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read()
    except (OSError, pa.ArrowException) as error:
        raise LabelsError(f"{path} cannot be read as Parquet: {error}.") from None
    columns = [[cell_text(value) for value in column.to_pylist()] for column in table.columns]
    cells = zip(*columns, strict=True)
    rows = ((f"{path}:row {i}", list(row)) for i, row in enumerate(cells, start=1))
    return list(table.column_names), rows


def _read_excel(path: Path) -> Cells:
    """The first sheet of a workbook; rows without any value are passed over."""
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise LabelsError(
            f"{path}: Excel files need the extra xlsx (pip install 'surelabel[xlsx]'); or save the "
            "table as CSV."
        ) from None
    try:
        sheet = load_workbook(path, read_only=True, data_only=True).worksheets[0]
        values = [[cell_text(value) for value in row] for row in sheet.iter_rows(values_only=True)]
    except Exception as error:  # a damaged file raises nearly anything
        raise LabelsError(f"{path} cannot be read as an Excel file: {error}.") from None
    filled = [(f"{path}:{i}", row) for i, row in enumerate(values, start=1) if any(row)]
    if not filled:
        raise LabelsError(f"{path} is empty: its first row has to name the columns path,label.")
    header = filled[0][1]
    while header and not header[-1]:
        header.pop()
    return header, filled[1:]


def is_null(value: object) -> bool:
    """Whether a cell is empty: None, NaN, or pandas' own kinds of null."""
    is_pandas_null = type(value).__name__ in ("NAType", "NaTType")
    return value is None or is_pandas_null or (isinstance(value, float) and value != value)


def cell_text(value: object) -> str:
    """A cell as text: empty for null, and without ".0" after a whole number."""
    if is_null(value):
        return ""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _read_text(path: Path) -> Cells:
    text = _decode(path)
    first = text.lstrip().split("\n", 1)[0]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else _delimiter(first)
    records = _records(path, text, delimiter)
    header = next(records, None)
    if header is None:
        raise LabelsError(f"{path} is empty: its first line has to name the columns path,label.")
    return header[1], records


def _decode(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LabelsError(f"{path} cannot be read: {error.strerror}.") from None
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise LabelsError(f"{path}:{line} is not UTF-8 text: save the table as UTF-8.") from None


def _delimiter(header: str) -> str:
    """The separator of the columns; in some countries spreadsheets write semicolons."""
    return max(",;\t", key=header.count)


def _records(path: Path, text: str, delimiter: str) -> Iterator[tuple[str, list[str]]]:
    """``file:line`` of the first line and the cells of each record that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise LabelsError(
                f"{path}:{line} cannot be read ({error}). Put a cell with a quote, a comma or a "
                'line break in "quotes", and write a quote in it twice.'
            ) from None
        if any(cell.strip() for cell in record):
            yield f"{path}:{line}", record
        line = reader.line_num + 1


def table_of_cells(
    name: str, folder: Path | None, header: list[str], records: Iterable[tuple[str, list[str]]]
) -> Table:
    """The table with these columns and records; columns that mean nothing here are ignored."""
    at = _columns(name, header)
    rows = []
    for where, cells in records:
        if any(cell.strip() for cell in cells[len(header) :]):
            raise LabelsError(
                f"{where} has {len(cells)} cells and the header names {len(header)} columns. "
                'Put a path with a comma in "quotes".'
            )
        cell = {key: cells[i] if i < len(cells) else "" for key, i in at.items()}
        path = cell["path"] if "path" in at else cell["index"].strip()
        if not path.strip():
            raise LabelsError(f"{where} names no {'path' if 'path' in at else 'index'}.")
        rest = (
            normalize_key(cell.get(key, "").strip())
            for key in ("label", "split", "group", _SOURCE, _DRAWN, _ANNOTATOR)
        )
        rows.append(TableRow(where, path, *rest))
    labels = {row.label for row in rows if row.label.casefold() not in ("", NONE_TEXT)}
    if _NO_LABEL in labels and all(label.isdecimal() for label in labels - {_NO_LABEL}):
        rows = [replace(row, label="") if row.label == _NO_LABEL else row for row in rows]
    return Table(name, folder, "label" in at, "path" not in at, tuple(rows))


def _columns(name: str, header: list[str]) -> dict[str, int]:
    """Position of each known column; other columns are ignored."""
    titles = [title.strip().lower() for title in header]
    twice = [key for key in COLUMNS if titles.count(key) > 1]
    if twice:
        raise LabelsError(f"{name} has the column '{twice[0]}' twice: remove one.")
    at = {
        key: titles.index(key) for key in (*COLUMNS, _SOURCE, _DRAWN, _ANNOTATOR) if key in titles
    }
    if "path" not in at and "index" not in at:
        named = ", ".join(title.strip() for title in header)
        raise LabelsError(
            f"{name} has no column 'path'. Its first line names the columns: {named}. "
            "It has to be path,label."
        )
    return at
