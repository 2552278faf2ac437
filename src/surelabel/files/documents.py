"""JSON and Parquet files: written atomically, read with a clear error if they are unusable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surelabel.errors import RunDamagedError
from surelabel.files.atomic import atomic_write_bytes, atomic_write_with
from surelabel.files.large_tables import LARGE, read_columns, write_in_parts

if TYPE_CHECKING:
    import pandas as pd

_REMEDY = "Put back a copy of the file, or see what surelabel doctor says about the run."


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as JSON; numpy scalars and arrays are allowed, NaN is not."""
    atomic_write_bytes(path, to_json(value), parents=False)


def to_json(value: object) -> bytes:
    """The bytes that ``write_json`` writes."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
    return f"{text}\n".encode()


def read_json(path: Path) -> Any:
    """The value in ``path``; callers know its shape, so give the variable a type there."""
    if path.exists() and not path.is_file():  # to read a pipe would wait forever
        raise RunDamagedError(f"{path} is not a file. {_REMEDY}")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunDamagedError(f"{path} is missing. {_REMEDY}") from None
    except (ValueError, RecursionError) as error:
        raise RunDamagedError(f"{path} is not valid JSON: {error}. {_REMEDY}") from None


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write ``table`` as Parquet, without its index."""
    atomic_write_with(path, lambda temporary: write_parquet(temporary, table), parents=False)


def write_parquet(path: Path, table: pd.DataFrame) -> None:
    """What ``write_table`` writes, into a file that the caller puts in its place."""
    if len(table) <= LARGE:
        table.to_parquet(path, index=False)
    else:
        write_in_parts(path, table)


def read_table(path: Path) -> pd.DataFrame:
    """The table in the Parquet file ``path``."""
    try:
        return read_columns(path)
    except FileNotFoundError:
        raise RunDamagedError(f"{path} is missing. {_REMEDY}") from None
    except MemoryError:
        raise
    except Exception as error:
        # Damaged bytes reach Arrow, pandas and Python's codecs, which raise what they like.
        raise RunDamagedError(f"{path} is not a Parquet table: {error}. {_REMEDY}") from None


def _plain(value: object) -> object:
    """A NumPy scalar or array as plain numbers and lists."""
    to_list = getattr(value, "tolist", None)
    if callable(to_list):
        plain: object = to_list()
        return plain
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
