"""What the user named as labels: a table, an IDX or NumPy file, or an array."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union, cast

import numpy as np
import numpy.typing as npt

from surelabel.catalog.arrays import read_labels
from surelabel.catalog.idx import is_idx, read_idx
from surelabel.catalog.resolve import mark_array, mark_table
from surelabel.catalog.source import Source
from surelabel.catalog.tables import Table, is_table, read_table, table_of
from surelabel.errors import LabelsError

if TYPE_CHECKING:
    import pandas as pd

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
