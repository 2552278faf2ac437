"""JSON and Parquet files: written atomically, read with a clear error if they are unusable."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surelabel.errors import RunDamagedError
from surelabel.files.atomic import atomic_write_bytes, atomic_write_with

if TYPE_CHECKING:
    import pandas as pd


def write_json(path: Path, value: object) -> None:
    """Write ``value`` as JSON; numpy scalars and arrays are allowed, NaN is not."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False, default=_plain)
    atomic_write_bytes(path, f"{text}\n".encode())


def read_json(path: Path) -> Any:
    """The value in ``path``; callers know its shape, so give the variable a type there."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise RunDamagedError(f"{path} is missing.") from None
    except ValueError as error:
        raise RunDamagedError(f"{path} is not valid JSON: {error}.") from None


def write_table(path: Path, table: pd.DataFrame) -> None:
    """Write ``table`` as Parquet, without its index."""
    atomic_write_with(path, lambda temporary: table.to_parquet(temporary, index=False))


def read_table(path: Path) -> pd.DataFrame:
    """The table in the Parquet file ``path``."""
    import pandas as pd
    from pyarrow.lib import ArrowException

    try:
        return pd.read_parquet(path)
    except FileNotFoundError:
        raise RunDamagedError(f"{path} is missing.") from None
    except (ArrowException, OSError) as error:
        raise RunDamagedError(f"{path} is not a Parquet table: {error}.") from None


def _plain(value: object) -> object:
    """A NumPy scalar or array as plain numbers and lists."""
    to_list = getattr(value, "tolist", None)
    if callable(to_list):
        plain: object = to_list()
        return plain
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
