"""Tables with a row per image of a large collection, without a Python object per cell."""

from __future__ import annotations

import contextlib
import functools
import json
import mmap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from surelabel.files.mapped_arrays import slices, temporary_file, zeros
from surelabel.types import Ids

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

LARGE = 1 << 17
"""Rows from which on a table is read column by column, into mapped files."""


def read_columns(path: Path) -> pd.DataFrame:
    """The Parquet file ``path`` as ``pandas.read_parquet`` reads it, with mapped columns."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        n, schema = file.metadata.num_rows, file.schema_arrow
        if n < LARGE or not all(map(_is_plain, schema.types)):
            return pd.read_parquet(path)
        table: dict[str, Any] = {}
        for field in schema:
            if _is_text(field.type):
                table[field.name] = _strings(functools.partial(_texts_in, file, field.name), n)
                continue
            kind = np.bool_ if pa.types.is_boolean(field.type) else field.type.to_pandas_dtype()
            values, start = zeros((n,), kind), 0
            for batch in file.iter_batches(1 << 16, columns=[field.name]):
                column = batch.column(0).to_numpy(zero_copy_only=False)
                values[start : start + len(column)] = column
                start += len(column)
            table[field.name] = values
        frame = pd.DataFrame(table, copy=False)
        frame.attrs = json.loads(schema.metadata.get(b"PANDAS_ATTRS", b"{}"))
        return frame


def write_in_parts(path: Path, table: pd.DataFrame) -> None:
    """What ``DataFrame.to_parquet`` writes, converted and written ``LARGE`` rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.Table.from_pandas(table.iloc[:1], preserve_index=False).schema
    attributes = {"PANDAS_ATTRS": json.dumps(table.attrs)} if table.attrs else {}
    schema = schema.with_metadata({**(schema.metadata or {}), **attributes})
    with pq.ParquetWriter(path, schema) as writer:
        for part in slices(len(table), LARGE):
            rows = pa.Table.from_pandas(table.iloc[part], schema=schema, preserve_index=False)
            writer.write_table(rows.replace_schema_metadata(schema.metadata), LARGE)
    pa.default_memory_pool().release_unused()


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_plain(kind: pa.DataType) -> bool:
    import pyarrow as pa

    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    return bool(numeric or pa.types.is_boolean(kind) or _is_text(kind))


def text_column(values: Ids) -> pd.Series:
    """A column of strings, mapped if it is large."""
    import pyarrow as pa

    def parts() -> Iterator[pa.Array]:
        for part in slices(len(values)):
            yield pa.array(values[part].tolist(), pa.large_string())

    return _strings(parts, len(values))


def coded_column(codes: npt.NDArray[np.integer[Any]], names: Sequence[str]) -> pd.Series:
    """A column of ``names`` by their numbers (N,); a negative number is a missing value."""
    import pyarrow as pa

    texts = pa.array(list(names), pa.large_string())

    def parts() -> Iterator[pa.Array]:
        for part in slices(len(codes)):
            yield texts.take(pa.array(codes[part], pa.int64(), mask=codes[part] < 0))

    return _strings(parts, len(codes))


def ids_of(column: pd.Series) -> Ids:
    """A column of ids as an array, mapped if it is large."""
    ids = np.array([], dtype=np.str_)
    for part in slices(len(column)):
        some = np.array(column.iloc[part].tolist(), dtype=np.str_)
        if not len(ids):
            ids = zeros((len(column),), some.dtype)
        elif some.dtype.itemsize > ids.dtype.itemsize:
            ids = ids.astype(some.dtype)
        ids[part] = some
    return ids


def _texts_in(file: pq.ParquetFile, name: str) -> Iterator[pa.Array]:
    """Parts of a text column of ``file``."""
    import pyarrow as pa

    for batch in file.iter_batches(1 << 16, columns=[name]):
        yield batch.column(0).cast(pa.large_string())


def _strings(parts: Callable[[], Iterator[pa.Array]], n: int) -> pd.Series:
    """``n`` strings in parts as one column; in a mapped file if they are many."""
    import pandas as pd
    import pyarrow as pa

    values = None
    if n >= LARGE:
        with contextlib.suppress(OSError):  # no room on the disk: memory has to do
            values = _mapped_strings(parts())
    if values is None:
        values = pa.chunked_array(list(parts()), pa.large_string())
    return pd.Series(pd.array(values, dtype=pd.StringDtype(na_value=np.nan)))


def _mapped_strings(parts: Iterator[pa.Array]) -> pa.ChunkedArray:
    """The same strings, written to a file without a name and mapped."""
    import pyarrow as pa

    schema = pa.schema([("text", pa.large_string())])
    with temporary_file() as file:
        with pa.ipc.new_file(file, schema) as writer:
            for part in parts:
                writer.write_batch(pa.record_batch([part], schema=schema))
        file.flush()
        content = pa.py_buffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    return pa.ipc.open_file(content).read_all().column(0)
