"""The annotations as one file, CSV or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.atomic import atomic_write_with
from surelabel.errors import OptionError
from surelabel.export.formats import ExportFormat

if TYPE_CHECKING:
    import pandas as pd


def export_table(annotations: pd.DataFrame, path: Path | str, to: ExportFormat) -> None:
    """Write ``annotations`` to the file ``path``; the bytes depend on nothing but the table.

    CSV is UTF-8 with a line feed at the end of each line; what is missing is empty, and every
    number reads back to the same number.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    match to:
        case ExportFormat.CSV:
            atomic_write_with(path, lambda temporary: _write_csv(annotations, temporary))
        case ExportFormat.PARQUET:
            atomic_write_with(
                path, lambda temporary: annotations.to_parquet(temporary, index=False)
            )
        case ExportFormat.FOLDER:
            raise OptionError(f"{path}: a table can be written as csv or parquet, not as folder.")


def _write_csv(annotations: pd.DataFrame, path: Path) -> None:
    """Floats get the fewest digits from which their own type reads back the same number."""
    annotations.to_csv(path, index=False, encoding="utf-8", lineterminator="\n")
