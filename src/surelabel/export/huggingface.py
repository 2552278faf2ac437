"""Write a result as a dataset that the Hugging Face ``datasets`` library loads.

Two forms: a folder of images with ``metadata.parquet`` (ImageFolder), and Parquet files with the
images inside, whose schema says which column is an ``Image`` and which a ``ClassLabel``. pyarrow
writes both; ``datasets`` itself is not needed. Metadata in JSON or CSV would not do: ``datasets``
guesses their types, block by block, and a class named 2026-05-01 becomes a time.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surelabel.dataset.locations import n_bytes
from surelabel.export.columns import CLASS_COLUMNS, classes_in
from surelabel.export.image_folder import (
    Missing,
    PlacedById,
    Placement,
    image_contents,
    write_image_folder,
    write_missing,
)
from surelabel.files.large_tables import ids_of
from surelabel.files.mapped_arrays import slices
from surelabel.types import JsonObject, OnProgress, no_progress

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from surelabel.dataset.array_store import PixelStore
    from surelabel.dataset.catalog import Catalog

SPLIT = "train"
"""The one split of the dataset, by the name that ``load_dataset`` expects."""
_ROWS_PER_GROUP = 100
"""Small row groups, so that a reader of a few rows does not load hundreds of images."""
_ROWS_OF_METADATA = 1 << 16
_SHARD_BYTES = 500_000_000


def write_metadata_folder(
    folder: Path,
    table: pd.DataFrame,
    catalog: Catalog,
    store: PixelStore,
    on_progress: OnProgress = no_progress,
) -> list[Missing]:
    """Write ``train/ID.jpg`` and ``train/metadata.parquet`` with a row per image."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    placements = PlacedById(catalog, ids_of(table["id"]), SPLIT)
    missing = write_image_folder(folder, placements, store, on_progress)
    lost = {each.path for each in missing}
    rows = (
        {"file_name": placement.target.partition("/")[2], **row}
        for placement, row in zip(placements, _rows(table), strict=True)
        if placement.path not in lost
    )
    kinds = {name: pa.type_for_alias(kind) for name, kind in _kinds(table).items()}
    schema = pa.schema({"file_name": pa.string(), **kinds})
    with pq.ParquetWriter(folder / SPLIT / "metadata.parquet", schema) as writer:
        while group := list(itertools.islice(rows, _ROWS_OF_METADATA)):
            writer.write_batch(pa.RecordBatch.from_pylist(group, schema=schema))
    return missing


def write_parquet_shards(
    folder: Path,
    table: pd.DataFrame,
    catalog: Catalog,
    store: PixelStore,
    on_progress: OnProgress = no_progress,
    shard_bytes: int = _SHARD_BYTES,
) -> list[Missing]:
    """Write ``data/train-00000-of-00001.parquet`` and on, with the images inside."""
    import pyarrow.parquet as pq

    placements = PlacedById(catalog, ids_of(table["id"]), SPLIT)
    schema = _schema(table, classes_in(table, catalog))
    n_shards = _n_shards(placements, shard_bytes)
    size = max(1, math.ceil(len(placements) / n_shards))
    rows = _rows_with_images(table, placements, store, on_progress)
    (folder / "data").mkdir()
    missing: list[Missing] = []
    for number in range(n_shards):
        path = folder / "data" / f"{SPLIT}-{number:05d}-of-{n_shards:05d}.parquet"
        with pq.ParquetWriter(path, schema) as writer:
            for group in _groups(rows, min(size, len(placements) - number * size), missing):
                writer.write_batch(_batch(group, schema))
    write_missing(folder, missing)
    return missing


def _rows(table: pd.DataFrame) -> Iterator[JsonObject]:
    """The rows as plain Python values; None for what is missing and for an empty label."""
    for part in slices(len(table)):
        some = table.iloc[part]
        columns = {name: _values(some[name], name) for name in table.columns}
        for i in range(len(some)):
            yield {str(name): values[i] for name, values in columns.items()}


def _values(column: pd.Series[Any], name: str) -> list[Any]:
    empty = (None, "") if name in CLASS_COLUMNS else (None,)
    return [
        None if value in empty or value != value else value
        for value in column.astype(object).where(column.notna(), None).tolist()
    ]


def _schema(table: pd.DataFrame, classes: Sequence[str]) -> pa.Schema:
    """The columns of ``table`` and the image, with the features in the form of ``datasets``."""
    import pyarrow as pa

    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    fields: list[tuple[str, Any]] = [("image", image)]
    features: JsonObject = {"image": {"_type": "Image"}}
    for name, kind in _kinds(table).items():
        if name in CLASS_COLUMNS:
            fields.append((name, pa.int64()))
            features[name] = {"names": list(classes), "_type": "ClassLabel"}
            continue
        fields.append((name, pa.type_for_alias(kind)))
        features[name] = {"dtype": kind, "_type": "Value"}
    info = json.dumps({"info": {"features": features}})
    return pa.schema(fields, metadata={"huggingface": info})


def _kinds(table: pd.DataFrame) -> dict[str, str]:
    """The type of each column, by the name that pyarrow and ``datasets`` share."""
    names = {"f": "float64", "i": "int64", "u": "int64", "b": "bool"}
    return {str(name): names.get(kind.kind, "string") for name, kind in table.dtypes.items()}


def _n_shards(placements: Sequence[Placement], shard_bytes: int) -> int:
    sizes = (n_bytes(placement.file) for placement in placements if placement.file)
    return max(1, min(len(placements), math.ceil(sum(sizes) / shard_bytes)))


def _rows_with_images(
    table: pd.DataFrame, placements: Sequence[Placement], store: PixelStore, on_progress: OnProgress
) -> Iterator[JsonObject | Missing]:
    contents = image_contents(placements, store, on_progress)
    for row, (placement, content) in zip(_rows(table), contents, strict=True):
        if isinstance(content, Missing):
            yield content
        else:
            name = placement.target.partition("/")[2]
            yield {"image": {"bytes": content, "path": name}, **row}


def _groups(
    rows: Iterator[JsonObject | Missing], n: int, missing: list[Missing]
) -> Iterator[list[JsonObject]]:
    """The next ``n`` rows in groups; images that cannot be read go to ``missing``."""
    group: list[JsonObject] = []
    for _ in range(n):
        row = next(rows)
        if isinstance(row, Missing):
            missing.append(row)
            continue
        group.append(row)
        if len(group) == _ROWS_PER_GROUP:
            yield group
            group = []
    if group:
        yield group


def _batch(rows: list[JsonObject], schema: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    features = json.loads(schema.metadata[b"huggingface"])["info"]["features"]
    number = {name: k for k, name in enumerate(features["label"]["names"])}
    for row in rows:
        for name in CLASS_COLUMNS:
            row[name] = None if row[name] is None else number[row[name]]
    return pa.RecordBatch.from_pylist(rows, schema=schema)
