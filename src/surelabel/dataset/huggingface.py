"""Read datasets of the Hugging Face ``datasets`` library, without that library.

It stores images in three ways: as files beside ``metadata.csv``, ``.jsonl`` or ``.parquet``
(ImageFolder); inside Parquet files; inside the Arrow files of ``save_to_disk``. Of Parquet and
Arrow files the images are unpacked into the cache, once, and are files like any others from there.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from surelabel.dataset.decode import UnreadableImageError, open_image, readable_suffixes
from surelabel.dataset.items import LabelRow, Skipped, Source, absolute, normalize_key
from surelabel.dataset.labels import attach_table
from surelabel.dataset.tables import Cells, cell_text, read_cells, table_of_cells
from surelabel.errors import InputError, LabelsError
from surelabel.files.atomic import atomic_folder
from surelabel.types import JsonObject

if TYPE_CHECKING:
    import pyarrow as pa

_METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")
_FILE_NAME = "file_name"
"""The column of ``metadata.*`` that names the image, relative to that file."""
_PARQUET = frozenset({".parquet", ".pq"})
_INFO, _STATE, _DICT = "dataset_info.json", "state.json", "dataset_dict.json"
"""The files that ``save_to_disk`` writes beside the Arrow files."""
_INDEX = "index.json"
"""In an unpacked folder: the file, the path and the problem of each image."""
_BATCH = 64
_TEXTS = ("path", _FILE_NAME, "group", "source", "annotator")
"""Columns that are read as text, where a dataset has them."""


@dataclass(frozen=True)
class _Shard:
    """One Parquet or Arrow file."""

    file: Path
    prefix: str
    """In front of the keys of its images: the split of a saved dataset, with '/'."""

    @property
    def is_parquet(self) -> bool:
        return self.file.suffix.lower() in _PARQUET


@dataclass(frozen=True)
class _Columns:
    """Which columns of a dataset are used, and the names of its classes."""

    image: str
    label: str
    names: tuple[str, ...] | None
    """Class names, by number; None where labels are no numbers of classes."""
    texts: tuple[str, ...]


def is_saved_dataset(folder: Path) -> bool:
    """Whether ``folder`` was written by ``save_to_disk``."""
    return (folder / _DICT).is_file() or (folder / _STATE).is_file()


def has_image_column(path: Path) -> bool:
    """Whether ``path`` is a Parquet file with images in it."""
    if path.suffix.lower() not in _PARQUET:
        return False
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return bool(_image_columns(pq.read_schema(path)))
    except (OSError, pa.ArrowException):
        return False  # whoever reads it as a table says what is wrong


def parquet_shards(folder: Path) -> list[Path]:
    """The Parquet files below ``folder`` that hold images, in order."""
    found = sorted(p for p in folder.rglob("*") if p.suffix.lower() in _PARQUET and p.is_file())
    return [path for path in found if has_image_column(path)]


def read_parquet(paths: Sequence[Path], name: str, cache: Path) -> Source:
    """The images in Parquet files, with their labels."""
    return _read([_Shard(path, "") for path in paths], name, cache)


def read_saved(folder: Path, cache: Path) -> Source:
    """The images of a dataset that ``save_to_disk`` wrote, of all its splits, with their labels."""
    if (folder / _DICT).is_file():
        splits = _json(folder / _DICT).get("splits", [])
        shards = [s for split in splits for s in _saved_shards(folder / split, f"{split}/")]
    else:
        shards = _saved_shards(folder, "")
    if not shards:
        raise InputError(f"{folder} is a saved dataset without Arrow files: save it again.")
    return _read(shards, str(folder), cache)


def attach_metadata(source: Source) -> Source:
    """``source``, a folder of images, with the labels in its ``metadata.*`` files, if any."""
    if source.root is None:
        return source
    folders = {str(PurePosixPath(key).parent) for key in source.keys}
    folders |= {str(up) for each in folders for up in PurePosixPath(each).parents} | {"."}
    for folder in sorted(folders):
        found = [name for name in _METADATA if (source.root / folder / name).is_file()]
        if found:
            source = _attach_file(source, folder, source.root / folder / found[0])
    return source


def _attach_file(source: Source, folder: str, path: Path) -> Source:
    header, records = _json_lines(path) if path.suffix == ".jsonl" else read_cells(path)
    if _FILE_NAME not in header:
        return source  # a file of somebody else that happens to have this name
    at = header.index(_FILE_NAME)
    # "path" and "split" mean other things here: the path before export, train or test.
    titles = ["" if title in ("path", "split", "index") else title for title in header]
    titles[at] = "path"
    prefix = "" if folder == "." else f"{folder}/"

    def rows() -> Iterator[tuple[str, list[str]]]:
        for where, cells in records:
            named = cells[at].strip() if at < len(cells) else ""
            if not named:
                raise LabelsError(f"{where} has no {_FILE_NAME}: it has to name an image.")
            yield where, [*cells[:at], prefix + named, *cells[at + 1 :]]

    return attach_table(source, table_of_cells(str(path), path.parent, titles, rows()))


def _json_lines(path: Path) -> Cells:
    """Header and records of a file with one JSON object per line."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LabelsError(f"{path} cannot be read as UTF-8 text: {error}.") from None
    objects: list[tuple[str, JsonObject]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError as error:
            raise LabelsError(f"{path}:{number} is not JSON ({error}): correct it.") from None
        if not isinstance(value, dict):
            raise LabelsError(f"{path}:{number} is not a JSON object such as {{...}}: correct it.")
        objects.append((f"{path}:{number}", value))
    header = list(dict.fromkeys(key for _, each in objects for key in each))
    return header, [(where, [cell_text(o.get(key)) for key in header]) for where, o in objects]


def _saved_shards(folder: Path, prefix: str) -> list[_Shard]:
    state = _json(folder / _STATE)
    if state.get("_indices_data_files"):
        raise InputError(
            f"{folder} holds a selection of rows beside its data, as old versions of datasets "
            "wrote: load and save it again."
        )
    names = [str(each["filename"]) for each in state.get("_data_files", [])]
    return [_Shard(folder / name, prefix) for name in names]


def _json(path: Path) -> JsonObject:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): save the dataset again.") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a JSON object: save the dataset again.")
    return value


def _read(shards: list[_Shard], name: str, cache: Path) -> Source:
    columns = _choose_columns(shards[0])
    unpacked = _unpack(shards, columns.image, cache)
    entries: list[tuple[str, str, str]] = []
    texts: list[dict[str, str]] = []
    for shard, index in zip(shards, _read_index(unpacked), strict=True):
        entries += index
        texts += _texts(shard, columns)
    keys = _keys(shards, _read_index(unpacked), texts)
    files, rows, skipped = {}, [], []
    for key, (file, path, problem), row in zip(keys, entries, texts, strict=True):
        found = absolute(unpacked / file) if file else path
        if problem:
            skipped.append(Skipped(key, problem))
            continue
        files[key] = found
        label = row.get("label", "")
        if label or row.get("group"):
            where = f"{name}: '{key}'"
            group, made_by, who = (row.get(name, "") for name in ("group", "source", "annotator"))
            rows.append(LabelRow(key, where, label, group=group, source=made_by, annotator=who))
    if not files:
        why = f" {skipped[0].path}: {skipped[0].reason}." if skipped else ""
        raise InputError(f"{name} holds no images.{why}")
    return Source(
        name,
        None,
        tuple(files),
        tuple(files.values()),
        label_rows=tuple(rows),
        skipped=tuple(skipped),
    )


def _keys(
    shards: Sequence[_Shard],
    index: Sequence[Sequence[tuple[str, str, str]]],
    texts: Sequence[Mapping[str, str]],
) -> list[str]:
    """A key for each image: its path, if no two are the same; else file and number of the row."""
    prefixes = [shard.prefix for shard, rows in zip(shards, index, strict=True) for _ in rows]
    paths = [path for rows in index for _, path, _ in rows]
    for named in (
        [t.get("path", "") for t in texts],
        [t.get(_FILE_NAME, "") for t in texts],
        paths,
    ):
        keys = [normalize_key(p + name) for p, name in zip(prefixes, named, strict=True)]
        if all(named) and max(Counter(keys).values(), default=0) == 1:
            return keys
    stems = Counter(shard.prefix + shard.file.stem for shard in shards)
    return [
        f"{stem if stems[stem] == 1 else f'{number}/{stem}'}:{i:05d}"
        for number, (shard, rows) in enumerate(zip(shards, index, strict=True))
        for stem in [shard.prefix + shard.file.stem]
        for i in range(len(rows))
    ]


def _choose_columns(shard: _Shard) -> _Columns:
    schema, features = _schema(shard)
    images = _image_columns(schema)
    if not images:
        raise InputError(f"{shard.file} has no column of images (a feature of the type Image).")
    if len(images) > 1 and "image" not in images:
        raise InputError(
            f"{shard.file} has several columns of images ({', '.join(images)}): rename the one to "
            "label to 'image'."
        )
    labels = [
        n for n, f in features.items() if isinstance(f, dict) and f.get("_type") == "ClassLabel"
    ]
    labels = [name for name in labels if name != "guess"]
    label = "label" if "label" in schema.names else labels[0] if len(labels) == 1 else ""
    if not label and labels:
        raise InputError(
            f"{shard.file} has several columns of classes ({', '.join(labels)}): rename the one "
            "that counts to 'label'."
        )
    feature = features.get(label)
    names = feature.get("names") if isinstance(feature, dict) else None
    return _Columns(
        "image" if "image" in images else images[0],
        label,
        None if names is None else tuple(map(str, names)),
        tuple(name for name in _TEXTS if name in schema.names),
    )


def _schema(shard: _Shard) -> tuple[pa.Schema, Mapping[str, Any]]:
    """The schema, and the features that ``datasets`` wrote into it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if shard.is_parquet:
            schema = pq.read_schema(shard.file)
        else:
            with pa.memory_map(str(shard.file)) as data:
                schema = pa.ipc.open_stream(data).schema
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(shard.file, error) from None
    return schema, _features(schema)


def _features(schema: pa.Schema) -> Mapping[str, Any]:
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
    except (KeyError, TypeError, ValueError):
        return {}
    return features if isinstance(features, dict) else {}


def _image_columns(schema: pa.Schema) -> list[str]:
    """Columns with the feature Image, or shaped like it: bytes and path."""
    import pyarrow as pa

    features = _features(schema)
    found = []
    for column in schema:
        feature, kind = features.get(column.name), column.type
        stated = isinstance(feature, dict) and feature.get("_type") == "Image"
        shaped = pa.types.is_struct(kind) and {f.name for f in kind} == {"bytes", "path"}
        binary = column.name == "image" and (
            pa.types.is_binary(kind) or pa.types.is_large_binary(kind)
        )
        if stated or shaped or binary:
            found.append(column.name)
    return found


def _batches(shard: _Shard, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        if shard.is_parquet:
            with pq.ParquetFile(shard.file) as file:
                yield from file.iter_batches(batch_size=_BATCH, columns=list(columns))
        else:
            with pa.memory_map(str(shard.file)) as data:
                for batch in pa.ipc.open_stream(data):
                    yield batch.select(list(columns))
    except (OSError, pa.ArrowException, KeyError) as error:
        raise _unreadable(shard.file, error) from None


def _unreadable(file: Path, error: Exception) -> InputError:
    kind = "Parquet" if file.suffix.lower() in _PARQUET else "Arrow"
    return InputError(f"{file} cannot be read as {kind} ({error}): copy or save it again.")


def _texts(shard: _Shard, columns: _Columns) -> list[dict[str, str]]:
    """The label and the columns of text of each row."""
    wanted = [*columns.texts, *([columns.label] if columns.label else [])]
    if not wanted:
        return [{} for batch in _batches(shard, [columns.image]) for _ in range(len(batch))]
    rows = []
    for batch in _batches(shard, wanted):
        for values in batch.to_pylist():
            row = {name: cell_text(values[name]).strip() for name in columns.texts}
            if columns.label:
                row["label"] = _label(values[columns.label], columns.names, shard.file)
            rows.append(row)
    return rows


def _label(value: object, names: tuple[str, ...] | None, file: Path) -> str:
    if names is None or not isinstance(value, int):
        return "" if value == -1 else normalize_key(cell_text(value).strip())
    if value == -1:
        return ""
    if not 0 <= value < len(names):
        raise LabelsError(
            f"{file} has the label {value}, and its classes are 0 to {len(names) - 1}."
        )
    return normalize_key(names[value])


def _unpack(shards: Sequence[_Shard], column: str, cache: Path) -> Path:
    """The folder in ``cache`` with the images of ``shards`` as files; written once."""
    facts = [
        (str(s.file.resolve()), s.file.stat().st_size, s.file.stat().st_mtime_ns) for s in shards
    ]
    name = hashlib.sha256(json.dumps([facts, column]).encode()).hexdigest()[:24]
    target = cache / "unpacked" / name
    if (target / _INDEX).is_file():
        return target
    try:
        with atomic_folder(target) as folder:
            index = [
                list(_unpack_shard(shard, column, folder, f"{number:04d}"))
                for number, shard in enumerate(shards)
            ]
            (folder / _INDEX).write_text(json.dumps(index), encoding="utf-8")
    except OSError as error:
        if not (target / _INDEX).is_file():  # else another process was faster
            raise InputError(
                f"The images cannot be unpacked to {target} ({error.strerror}): free some space, "
                "or name another folder with --cache."
            ) from error
    return target


def _read_index(unpacked: Path) -> list[list[tuple[str, str, str]]]:
    index = json.loads((unpacked / _INDEX).read_text(encoding="utf-8"))
    return [[(file, path, problem) for file, path, problem in rows] for rows in index]


def _unpack_shard(
    shard: _Shard, column: str, folder: Path, name: str
) -> Iterator[tuple[str, str, str]]:
    """Write the images of one file; yields the new file, the path and the problem of each row."""
    (folder / name).mkdir()
    number = 0
    for batch in _batches(shard, [column]):
        for value in batch.column(0).to_pylist():
            content, path = _parts(value)
            if content:
                file = f"{name}/{number:06d}{_suffix(path, content)}"
                (folder / file).write_bytes(content)
                yield file, path, ""
            else:
                yield "", *_linked(shard.file.parent, path)
            number += 1


def _parts(value: object) -> tuple[bytes | None, str]:
    """Bytes and path of an image."""
    if isinstance(value, dict):
        return value.get("bytes"), str(value.get("path") or "")
    return (value, "") if isinstance(value, bytes) else (None, str(value or ""))


def _linked(folder: Path, path: str) -> tuple[str, str]:
    """Path and problem of an image that is stored as a path only."""
    if not path:
        return "", "the row has neither bytes nor the path of an image"
    if "://" in path:
        return path, "it is an address, not a file: download it first"
    file = absolute(folder / path)
    return (file, "") if Path(file).is_file() else (path, "there is no such file")


def _suffix(path: str, content: bytes) -> str:
    suffix = PurePosixPath(path).suffix.lower()
    if suffix in readable_suffixes():
        return suffix
    try:
        with open_image(io.BytesIO(content)) as image:
            return f".{(image.format or 'bin').lower()}"
    except UnreadableImageError:
        return ".bin"
