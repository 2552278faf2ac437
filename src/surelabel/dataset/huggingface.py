"""Read datasets of the Hugging Face ``datasets`` library, without that library.

It stores images in three ways: as files beside ``metadata.csv``, ``.jsonl`` or ``.parquet``
(ImageFolder); inside Parquet files; inside the Arrow files of ``save_to_disk``. Parquet and Arrow
files are compressed in groups of rows, so a single image cannot be read from them: the images of
each are copied into one file in the cache, once, and are read from there by offset.
"""

from __future__ import annotations

import contextlib
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from surelabel.dataset.decode import UnreadableImageError, open_image, readable_suffixes
from surelabel.dataset.items import LabelRow, Skipped, Source, absolute, normalize_key
from surelabel.dataset.labels import attach_table
from surelabel.dataset.locations import Location, open_stream
from surelabel.dataset.parallel import ProgressCounter, map_batches
from surelabel.dataset.remote import is_remote, parent
from surelabel.dataset.shards import (
    BrokenShardError,
    Shard,
    broken,
    index_path,
    read_index,
    shard_of,
    write_index,
)
from surelabel.dataset.tables import Cells, cell_text, read_cells, table_of_cells
from surelabel.errors import InputError, LabelsError
from surelabel.files.atomic import atomic_path
from surelabel.types import JsonObject, OnProgress, no_progress

if TYPE_CHECKING:
    import pyarrow as pa

_METADATA = ("metadata.jsonl", "metadata.csv", "metadata.parquet")
_FILE_NAME = "file_name"
"""The column of ``metadata.*`` that names the image, relative to that file."""
PARQUET = frozenset({".parquet", ".pq"})
_INFO, _STATE, _DICT = "dataset_info.json", "state.json", "dataset_dict.json"
"""The files that ``save_to_disk`` writes beside the Arrow files."""
_UNPACKED = "unpacked"
"""The folder in the cache with the images of Parquet and Arrow files."""
_BATCH = 64
_TEXTS = ("path", _FILE_NAME, "group", "source", "annotator")
"""Columns that are read as text, where a dataset has them."""


@dataclass(frozen=True)
class _Columns:
    """Which columns of a dataset are used, and the names of its classes."""

    image: str
    label: str
    names: tuple[str, ...] | None
    """Class names, by number; None where labels are no numbers of classes."""
    texts: tuple[str, ...]


@dataclass
class _Rows:
    """What is in one file."""

    images: list[tuple[str, str, str]]
    """Location, path and problem of each image; a problem instead of a location."""
    texts: list[dict[str, str]]
    """The label and the columns of text of each row."""
    problem: str = ""
    """Why the file could not be read to its end."""


def is_saved_dataset(folder: Path) -> bool:
    """Whether ``folder`` was written by ``save_to_disk``."""
    return (folder / _DICT).is_file() or (folder / _STATE).is_file()


def has_image_column(shard: Shard, *, damaged: bool = False) -> bool:
    """Whether ``shard`` is a Parquet file with images; ``damaged`` is said of one that is broken.

    Whoever reads a broken file as a table says what is wrong.
    """
    if Path(shard.file).suffix.lower() not in PARQUET:
        return False
    try:
        return bool(_image_columns(_schema(shard)))
    except BrokenShardError:
        return damaged


def read_parquet(
    shards: Sequence[Shard], name: str, cache: Path, on_progress: OnProgress = no_progress
) -> Source:
    """The images in Parquet files, with their labels; what is in broken ones is listed."""
    return _read([(shard, "") for shard in shards], name, cache, on_progress)


def read_saved(folder: Path, cache: Path, on_progress: OnProgress = no_progress) -> Source:
    """The images of a dataset that ``save_to_disk`` wrote, of all its splits, with their labels."""
    if (folder / _DICT).is_file():
        splits = _json(folder / _DICT).get("splits", [])
        shards = [s for split in splits for s in _saved_shards(folder / split, f"{split}/")]
    else:
        shards = _saved_shards(folder, "")
    if not shards:
        raise InputError(f"{folder} is a saved dataset without Arrow files: save it again.")
    return _read(shards, str(folder), cache, on_progress)


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


def _saved_shards(folder: Path, prefix: str) -> list[tuple[Shard, str]]:
    """The Arrow files of a saved dataset; ``prefix`` goes in front of the keys of its images."""
    state = _json(folder / _STATE)
    if state.get("_indices_data_files"):
        raise InputError(
            f"{folder} holds a selection of rows beside its data, as old versions of datasets "
            "wrote: load and save it again."
        )
    names = [str(each["filename"]) for each in state.get("_data_files", [])]
    return [(shard_of(folder / name, prefix + name), prefix) for name in names]


def _json(path: Path) -> JsonObject:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}): save the dataset again.") from None
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a JSON object: save the dataset again.")
    return value


def _read(
    shards: Sequence[tuple[Shard, str]], name: str, cache: Path, on_progress: OnProgress
) -> Source:
    """``shards`` with the prefix of their keys -> their images and labels."""
    columns = _choose_columns([shard for shard, _ in shards])
    ticker = ProgressCounter(on_progress, "reading shards", len(shards))
    found: list[_Rows] = []
    unpack_all = partial(_unpack_all, columns=columns, cache=cache)
    for _, (rows,) in map_batches(unpack_all, [shard for shard, _ in shards], 1):
        found.append(rows)
        ticker.advance(1)
    skipped = [
        broken(shard, rows.problem)
        for (shard, _), rows in zip(shards, found, strict=True)
        if rows.problem
    ]
    files: dict[str, str] = {}
    labels: list[LabelRow] = []
    images = [image for rows in found for image in rows.images]
    texts = [text for rows in found for text in rows.texts]
    for key, (file, _, problem), row in zip(_keys(shards, found), images, texts, strict=True):
        if problem:
            skipped.append(Skipped(key, problem))
            continue
        files[key] = file
        label = row.get("label", "")
        if label or row.get("group"):
            where = f"{name}: '{key}'"
            group, made_by, who = (row.get(name, "") for name in ("group", "source", "annotator"))
            labels.append(LabelRow(key, where, label, group=group, source=made_by, annotator=who))
    if not files:
        why = f" {skipped[0].path}: {skipped[0].reason}." if skipped else ""
        raise InputError(f"{name} holds no images.{why}")
    return Source(
        name,
        None,
        tuple(files),
        tuple(files.values()),
        label_rows=tuple(labels),
        skipped=tuple(skipped),
    )


def _keys(shards: Sequence[tuple[Shard, str]], found: Sequence[_Rows]) -> list[str]:
    """A key for each image: its path, if no two are the same; else file and number of the row."""
    prefixes = [p for (_, p), rows in zip(shards, found, strict=True) for _ in rows.images]
    texts = [text for rows in found for text in rows.texts]
    for named in (
        [t.get("path", "") for t in texts],
        [t.get(_FILE_NAME, "") for t in texts],
        [path for rows in found for _, path, _ in rows.images],
    ):
        keys = [normalize_key(p + name) for p, name in zip(prefixes, named, strict=True)]
        if all(named) and max(Counter(keys).values(), default=0) == 1:
            return keys
    stems = Counter(prefix + shard.stem for shard, prefix in shards)
    return [
        f"{stem if stems[stem] == 1 else f'{number}/{stem}'}:{i:05d}"
        for number, ((shard, prefix), rows) in enumerate(zip(shards, found, strict=True))
        for stem in [prefix + shard.stem]
        for i in range(len(rows.images))
    ]


def _choose_columns(shards: Sequence[Shard]) -> _Columns:
    """The columns of the first file that is not broken."""
    problem = ""
    for shard in shards:
        try:
            return _columns(shard, _schema(shard))
        except BrokenShardError as error:
            problem = problem or f"{shard.file} {error}"
    raise InputError(f"{problem}: copy or save it again.")


def _columns(shard: Shard, schema: pa.Schema) -> _Columns:
    features = _features(schema)
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


def _schema(shard: Shard) -> pa.Schema:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _broken(shard):
        if not _is_parquet(shard):
            with pa.memory_map(shard.file) as data:
                return pa.ipc.open_stream(data).schema
        with open_stream(shard.file) as stream:
            return pq.read_schema(stream)


def _is_parquet(shard: Shard) -> bool:
    return Path(shard.file).suffix.lower() in PARQUET


@contextlib.contextmanager
def _broken(shard: Shard) -> Iterator[None]:
    """What goes wrong while a file is read, as one error."""
    kind = "Parquet" if _is_parquet(shard) else "Arrow"
    try:
        yield
    except (BrokenShardError, InputError, GeneratorExit):
        raise
    except OSError as error:
        reason = (error.strerror or str(error)) if error.errno else str(error)
        raise BrokenShardError(f"cannot be read as {kind} ({reason})") from None
    except Exception as error:  # Arrow and drivers raise nearly anything
        raise BrokenShardError(f"cannot be read as {kind} ({error})") from None


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


def _batches(shard: Shard, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """A few rows at a time; ``BrokenShardError`` where the file cannot be read further."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with contextlib.ExitStack() as stack:
        with _broken(shard):
            if _is_parquet(shard):
                stream = stack.enter_context(open_stream(shard.file))
                file = stack.enter_context(pq.ParquetFile(stream))
                batches = file.iter_batches(batch_size=_BATCH, columns=list(columns))
            else:
                data = stack.enter_context(pa.memory_map(shard.file))
                batches = (batch.select(list(columns)) for batch in pa.ipc.open_stream(data))
        while True:
            with _broken(shard):
                batch = next(batches, None)
            if batch is None:
                return
            yield batch


def _label(value: object, names: tuple[str, ...] | None, file: str) -> str:
    if names is None or not isinstance(value, int):
        return "" if value == -1 else normalize_key(cell_text(value).strip())
    if value == -1:
        return ""
    if not 0 <= value < len(names):
        raise LabelsError(
            f"{file} has the label {value}, and its classes are 0 to {len(names) - 1}."
        )
    return normalize_key(names[value])


def _unpack_all(shards: Sequence[Shard], columns: _Columns, cache: Path) -> list[_Rows]:
    return [_unpack(shard, columns, cache) for shard in shards]


def _unpack(shard: Shard, columns: _Columns, cache: Path) -> _Rows:
    """The images of one file, copied into one file of the cache; of a broken one, none."""
    wanted = (columns.image, columns.label, *(columns.names or ()), "", *columns.texts)
    index = index_path(cache, shard, "rows", *wanted)
    copy = cache / _UNPACKED / f"{index.stem}.images"
    known = read_index(index) if shard.stamp else None
    if known is not None and copy.is_file() and copy.stat().st_size == known["bytes"]:
        return _Rows([(file, path, why) for file, path, why in known["images"]], known["texts"])
    rows = _Rows([], [])
    try:
        with atomic_path(copy) as scratch, scratch.open("wb") as target:
            for batch in _batches(shard, _read_columns(columns)):
                for values in batch.to_pylist():
                    rows.images.append(_copied(values[columns.image], shard, target, copy))
                    rows.texts.append(_texts(values, columns, shard))
            n_bytes = target.tell()
    except BrokenShardError as error:
        return _Rows([], [], str(error))
    except OSError as error:
        raise InputError(
            f"The images cannot be unpacked to {copy} ({error.strerror}): free some space, "
            "or name another folder with --cache."
        ) from error
    write_index(index, {"images": rows.images, "texts": rows.texts, "bytes": n_bytes})
    return rows


def _read_columns(columns: _Columns) -> list[str]:
    return [columns.image, *columns.texts, *([columns.label] if columns.label else [])]


def _copied(value: object, shard: Shard, target: IO[bytes], copy: Path) -> tuple[str, str, str]:
    """Append an image to ``target``; its location, its path and its problem."""
    content, path = _parts(value)
    if not content:
        file, problem = _linked(shard.file, path)
        return ("" if problem else file), (path if problem else file), problem
    start = target.tell()
    target.write(content)
    location = Location(absolute(copy), start, len(content), _suffix(path, content))
    return str(location), path, ""


def _texts(values: Mapping[str, object], columns: _Columns, shard: Shard) -> dict[str, str]:
    """The label and the columns of text of a row."""
    row = {name: cell_text(values[name]).strip() for name in columns.texts}
    if columns.label:
        row["label"] = _label(values[columns.label], columns.names, shard.file)
    return row


def _parts(value: object) -> tuple[bytes | None, str]:
    """Bytes and path of an image."""
    if isinstance(value, dict):
        return value.get("bytes"), str(value.get("path") or "")
    return (value, "") if isinstance(value, bytes) else (None, str(value or ""))


def _linked(shard: str, path: str) -> tuple[str, str]:
    """File and problem of an image that is stored as a path only."""
    if not path:
        return "", "the row has neither bytes nor the path of an image"
    if is_remote(path):
        return path, "it is an address, not a file: download it first"
    if is_remote(shard):
        return f"{parent(shard)}/{path}", ""
    file = absolute(Path(shard).parent / path)
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
