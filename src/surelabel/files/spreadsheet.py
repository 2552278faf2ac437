"""CSV cells that a spreadsheet would run as a formula, and how they are made harmless.

A file or class may be named ``=HYPERLINK(...)``. In CSV files an apostrophe is put before each cell
that begins with ``=``, ``+``, ``-``, ``@``, a tab or a line break, and before each that begins with
apostrophes followed by one of these. So exactly one apostrophe can be taken away again, and every
text comes back as it was. Numbers are not touched: this is about text.

A file name may also hold a carriage return, which Python's csv module does not quote and readers
take for the end of a row. A table with one is quoted throughout.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from surelabel.files.mapped_arrays import slices

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 1 << 16
"""Of a table, which are converted at a time."""
_STARTS = r"[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]"
_FORMULA = re.compile(f"'*{_STARTS}")
_GUARDED = re.compile(f"'+{_STARTS}")


def guard(text: str) -> str:
    """``text`` as a cell that no spreadsheet takes for a formula."""
    return f"'{text}" if _FORMULA.match(text) else text


def unguard(text: str) -> str:
    """The reverse of ``guard``."""
    return text[1:] if is_guarded(text) else text


def is_guarded(text: str) -> bool:
    """Whether ``guard`` may have made this cell."""
    return _GUARDED.match(text) is not None


def guard_table(table: pd.DataFrame) -> pd.DataFrame:
    """``table`` with every text guarded, names of columns included; numbers stay."""
    guarded = table.copy(deep=False)
    for name in table.columns:
        column = table[name]
        if column.dtype.kind in "biufc":
            continue
        risky = column.map(lambda cell: isinstance(cell, str) and bool(_FORMULA.match(cell)))
        if risky.any():
            guarded[name] = column.map(lambda cell: guard(cell) if isinstance(cell, str) else cell)
    guarded.columns = table.columns.map(lambda name: guard(str(name)))
    return guarded


def write_csv(table: pd.DataFrame, path: Path, separator: str = ",") -> None:
    """Write ``table`` as UTF-8 with a line feed after each row."""
    _write_in_parts(table, path, separator, lambda part: part)


def write_guarded_csv(table: pd.DataFrame, path: Path, separator: str = ",") -> None:
    """The same with every text guarded."""
    _write_in_parts(table, path, separator, guard_table)


def _write_in_parts(
    table: pd.DataFrame,
    path: Path,
    separator: str,
    convert: Callable[[pd.DataFrame], pd.DataFrame],
) -> None:
    """Each part of the rows is converted and written before the next: they may be a million."""
    texts = [table[name] for name in table.columns if table[name].dtype.kind not in "biufc"]
    quoting = _quoting(str(cell) for column in texts for cell in column)
    with path.open("w", encoding="utf-8", newline="") as file:
        for part in slices(max(1, len(table)), _ROWS):
            convert(table.iloc[part]).to_csv(
                file,
                sep=separator,
                index=False,
                header=not part.start,
                lineterminator="\n",
                quoting=quoting,
            )


def csv_bytes(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    """A CSV file with these guarded cells."""
    guarded = [list(header), *([guard(cell) for cell in row] for row in rows)]
    text = io.StringIO()
    quoting = _quoting(cell for row in guarded for cell in row)
    csv.writer(text, lineterminator="\n", quoting=quoting).writerows(guarded)
    return text.getvalue().encode()


def _quoting(cells: Iterable[str]) -> Literal[0, 1]:
    return csv.QUOTE_ALL if any("\r" in cell for cell in cells) else csv.QUOTE_MINIMAL
