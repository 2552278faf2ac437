"""Find the images that the user named: a folder, local or remote, a table, shards, or an array."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import numpy as np

from surelabel.dataset.annotation_files import (
    FIFTYONE_DATA,
    FIFTYONE_LABELS,
    is_label_json,
    read_json,
)
from surelabel.dataset.array_store import default_cache
from surelabel.dataset.arrays import (
    AnyArray,
    check_images,
    is_idx,
    key_name,
    read_idx,
    read_images,
)
from surelabel.dataset.decode import readable_suffixes
from surelabel.dataset.huggingface import (
    PARQUET,
    attach_metadata,
    has_image_column,
    is_saved_dataset,
    read_parquet,
    read_saved,
)
from surelabel.dataset.items import LabelRow, Skipped, Source, absolute, normalize_key
from surelabel.dataset.labels import attach_array, attach_labels, attach_table
from surelabel.dataset.remote import is_remote, list_files, local_copy, local_path, parent
from surelabel.dataset.shards import Shard, is_hidden, remote_shards, shard_of, shards_below
from surelabel.dataset.tables import is_table, read_table
from surelabel.dataset.tar_shards import COMPRESSED_TAR, TAR, read_tars
from surelabel.errors import InputError
from surelabel.types import OnProgress, no_progress

Images: TypeAlias = str | os.PathLike[str] | AnyArray
"""A folder, a file (table, Parquet, tar, IDX, NumPy), the address of a remote one, or an array
(N, H, W) or (N, H, W, C)."""

UNLABELED_FOLDERS = frozenset({"unlabeled", "_unlabeled"})
"""Names of the folder beside class folders whose images have no label."""
_SHOWN_FOLDERS = 5
_HEIC_SUFFIXES = frozenset([".heic", ".heif"])
_CAMERA_SUFFIXES = frozenset(
    [".heic", ".heif", ".cr2", ".cr3", ".nef", ".arw", ".dng", ".raf", ".orf", ".rw2", ".pef"]
)
"""What phones and cameras write and Pillow alone does not decode."""
_OTHER_SUFFIXES = frozenset(
    [
        ".arrow",
        ".csv",
        ".db",
        ".gz",
        ".htm",
        ".html",
        ".ini",
        ".json",
        ".jsonl",
        ".log",
        ".md",
        ".npy",
        ".npz",
        ".parquet",
        ".pdf",
        ".pq",
        ".py",
        ".tar",
        ".toml",
        ".tsv",
        ".txt",
        ".xlsx",
        ".xml",
        ".yaml",
        ".yml",
        ".zip",
    ]
)
"""Files that often lie beside images and are none; they are passed over silently."""


def find_images(
    images: Images | Source, cache: Path | None = None, on_progress: OnProgress = no_progress
) -> Source:
    """The images at ``images``, with the labels of a table or ``.npz``; folder names are not read.

    A ``Source`` comes back as it is, so that images are found once and passed on. Images inside
    Parquet or Arrow files are copied to ``cache``, or to the default one.
    """
    if isinstance(images, Source):
        return images
    if isinstance(images, np.ndarray):
        return array_source(images, "array", "the array of images")
    if not isinstance(images, str | os.PathLike):
        raise InputError(
            f"The images are of the type {type(images).__name__}: give a folder, a file with a "
            "table of path,label, an IDX or NumPy file, or a NumPy array."
        )
    cache = cache or default_cache()
    text = local_path(os.fspath(images))
    if is_remote(text):
        return _remote_source(text, cache, on_progress)
    path = Path(text).expanduser()
    if path.is_dir():
        return _folder_source(path, cache, on_progress)
    if not path.exists():
        raise InputError(f"{path}: there is no such folder or file of images.")
    return _file_source(path, cache, on_progress)


def _file_source(path: Path, cache: Path, on_progress: OnProgress) -> Source:
    if path.suffix.lower() in TAR:
        return read_tars([shard_of(path)], str(path), cache, on_progress)
    if has_image_column(shard_of(path)):
        return read_parquet([shard_of(path)], str(path), cache, on_progress)
    if is_table(path):
        return _table_source(path)
    if path.suffix.lower() in {".npy", ".npz"}:
        array, labels = read_images(path)
        source = array_source(array, path.name, str(path))
        return source if labels is None else attach_array(source, labels, f"labels in {path}")
    if is_idx(path):
        return array_source(read_idx(path), key_name(path), str(path))
    _refuse_compressed_tar(str(path))
    raise InputError(
        f"{path} is neither a folder of images, nor a table (CSV, TSV, Parquet, Excel), nor a tar "
        "archive, nor an IDX or NumPy file. To label one image, give the folder that it is in."
    )


def _refuse_compressed_tar(name: str) -> None:
    if name.lower().endswith(COMPRESSED_TAR):
        raise InputError(
            f"{name} is a compressed archive, in which no image can be found without unpacking all "
            "before it: unpack it to a .tar. Images are compressed already."
        )


def _remote_source(address: str, cache: Path, on_progress: OnProgress) -> Source:
    """A remote folder of images or of shards, one shard, or a table of images."""
    address = address.rstrip("/")
    listed = {k: v for k, v in list_files(address).items() if not is_hidden(k)}
    if set(listed) == {""}:
        return _remote_file(address, remote_shards(listed.items(), TAR | PARQUET), cache)
    reasons = {name: _left_out(name) for name in listed}
    skipped = [Skipped(_printable(name), why) for name, why in reasons.items() if why]
    files = {normalize_key(name): listed[name] for name, why in reasons.items() if why is None}
    if files:
        return Source(
            address,
            None,
            tuple(files),
            tuple(each.address for each in files.values()),
            skipped=tuple(skipped),
            address=address,
            stamps={each.address: each.stamp for each in files.values()},
        )
    source = _shard_source(
        remote_shards(listed.items(), TAR | PARQUET), address, cache, on_progress
    )
    if source is None:
        raise InputError(f"{address} holds no images. Is it the right address?")
    return source


def _shard_source(
    shards: list[Shard], name: str, cache: Path, on_progress: OnProgress
) -> Source | None:
    """The images in tar or Parquet files; None where none holds images."""
    tars = [shard for shard in shards if Path(shard.file).suffix.lower() in TAR]
    if tars:
        return read_tars(tars, name, cache, on_progress)
    with_images = [shard for shard in shards if has_image_column(shard, damaged=True)]
    if any(has_image_column(shard) for shard in with_images):
        return read_parquet(with_images, name, cache, on_progress)
    return None


def _remote_file(address: str, shards: list[Shard], cache: Path) -> Source:
    source = _shard_source(shards, address, cache, no_progress)
    if source is not None:
        return source
    _refuse_compressed_tar(address)
    if not is_table(Path(address)):
        raise InputError(
            f"{address} is neither a remote folder of images, nor a tar or Parquet file of images, "
            "nor a table of them. Download an IDX or NumPy file first."
        )
    folder = parent(address)
    with local_copy(address) as copy:
        table = replace(read_table(copy), name=address, folder=None)
    return attach_table(Source(address, None, (), (), address=folder), table)


def class_folders(source: Source, known: tuple[str, ...] = ()) -> Source:
    """``source`` with the first folder of each path as its label, if the folders are classes.

    They are when a folder ``unlabeled`` lies beside others, or when images lie in two or more
    folders. In a run that has classes already (``known``) they are only if all are among those.
    """
    tops = {key.split("/")[0] for key in source.keys if "/" in key}
    named = {top for top in tops if top.lower() not in UNLABELED_FOLDERS}
    are_classes = named < tops or (named <= set(known) if known else len(named) >= 2)
    if not source.has_folders or not named or not are_classes:
        return source
    rows = [
        LabelRow(key, where=f"the folder {source.address or source.root}/{top}", label=top)
        for key in source.keys
        if (top := key.split("/")[0]) in named and "/" in key
    ]
    return replace(source, label_rows=tuple(rows))


def refuse_unclear_folders(source: Source) -> None:
    """Refuse images in sub-folders without labels: folders may be classes, or albums.

    With a folder ``unlabeled`` beside them it is clear that they are classes.
    """
    counts = Counter(key.split("/")[0] for key in source.keys if "/" in key)
    tops = list(counts)
    if not source.has_folders or any(top.lower() in UNLABELED_FOLDERS for top in tops) or not tops:
        return
    named = ", ".join(f"{name} ({n:,})" for name, n in counts.most_common(_SHOWN_FOLDERS))
    more = f" and {len(tops) - _SHOWN_FOLDERS:,} more" if len(tops) > _SHOWN_FOLDERS else ""
    raise InputError(
        f"No labels are given, and {counts.total():,} of the {len(source.keys):,} images in "
        f"{source.name} lie in sub-folders: {named}{more}. If these are classes, add "
        "--class-folders. If not, give a table with --labels: surelabel draw writes one to fill in."
    )


def array_source(array: AnyArray, stem: str, name: str, first: int = 0) -> Source:
    """The rows of ``array``, with keys ``stem:00000`` and on, counted from ``first``."""
    pixels = check_images(array, name)
    keys = tuple(f"{stem}:{i:05d}" for i in range(first, first + len(pixels)))
    return Source(name, None, keys, ("",) * len(keys), array=pixels)


def file_source(name: str, root: Path, keys: list[str], skipped: list[Skipped]) -> Source:
    """Files under ``root``; of two names that differ only in Unicode form one is skipped.

    The composed one is kept, because tables that name it mean it.
    """
    composed = {key for key in keys if key == normalize_key(key)}
    files: dict[str, str] = {}
    for key in keys:
        normal = normalize_key(key)
        if normal in files or (key != normal and normal in composed):
            skipped.append(Skipped(key, "another file has the same name in another Unicode form"))
        else:
            files[normal] = absolute(root / key)
    return Source(name, root, tuple(files), tuple(files.values()), skipped=tuple(skipped))


def _folder_source(path: Path, cache: Path, on_progress: OnProgress) -> Source:
    if is_saved_dataset(path):
        return read_saved(path, cache, on_progress)
    keys, skipped = walk_images(path)
    source = attach_metadata(file_source(str(path), path, keys, skipped))
    labels = path / FIFTYONE_LABELS
    if labels.is_file() and (path / FIFTYONE_DATA).is_dir() and is_label_json(read_json(labels)):
        source = attach_labels(source, labels)
    if not source.keys:
        shards = shards_below(path, TAR | PARQUET)
        found = _shard_source(shards, str(path), cache, on_progress)
        if found is not None:
            return found
        why = f" {skipped[0].path}: {skipped[0].reason}." if skipped else ""
        raise InputError(f"{path} holds no images.{why or ' Is it the right folder?'}")
    return source


def _table_source(path: Path) -> Source:
    """The images that a table lists, with its labels; paths are relative to the table."""
    table = read_table(path)
    if table.by_index:
        raise InputError(f"{path} has no column 'path', which would name the image files.")
    source = attach_table(Source(str(path), path.parent, (), ()), table)
    if not source.keys:
        raise InputError(f"{path} lists no images.")
    return source


def walk_images(root: Path) -> tuple[list[str], list[Skipped]]:
    """All images below ``root`` that can be decoded, and the files that were left out.

    Paths are relative to ``root``, with '/', in sorted order. Names that begin with a dot are
    passed over. A link to a folder is followed if it leads out of ``root`` and not to a folder
    above it, so no file comes twice and there is no endless loop.
    """
    if not _is_unicode(str(root)):
        raise InputError(f"{_printable(str(root))}: the name is not valid Unicode: rename it.")
    skipped: list[Skipped] = []
    names = sorted(_walk(str(root), "", {os.path.realpath(root)}, skipped))
    invalid = [name for name in names if not _is_unicode(name)]
    skipped += [Skipped(_printable(n), "its name is not valid Unicode: rename it") for n in invalid]
    return [name for name in names if _is_unicode(name)], skipped


def _walk(folder: str, prefix: str, seen: set[str], skipped: list[Skipped]) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        reason = f"the folder cannot be read ({error.strerror})"
        skipped.append(Skipped(_printable(prefix), reason))
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name == "__MACOSX":
            continue
        if _is_folder(entry):
            if not entry.is_symlink() or _leads_elsewhere(entry.path, seen):
                yield from _walk(entry.path, f"{prefix}{entry.name}/", seen, skipped)
            continue
        why = _left_out(entry.name)
        if why is None:
            yield prefix + entry.name
        elif why:
            skipped.append(Skipped(_printable(prefix + entry.name), why))


def _left_out(name: str) -> str | None:
    """Why a file of this name is no image; empty if nobody needs to be told, None for an image."""
    suffix = Path(name).suffix.lower()
    if suffix in readable_suffixes():
        return None
    if suffix in _CAMERA_SUFFIXES:
        reason = f"{suffix[1:].upper()} files cannot be decoded: save it as JPEG or PNG"
        if suffix in _HEIC_SUFFIXES:
            reason += ", or install the reader: pip install 'surelabel[heic]'"
        return reason
    if suffix in _OTHER_SUFFIXES:
        return ""
    return "its name does not end like that of an image that can be read"


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _leads_elsewhere(link: str, seen: set[str]) -> bool:
    """Whether the target of ``link`` shares no folder with those walked already."""
    target = os.path.realpath(link)
    if any(_contains(known, target) or _contains(target, known) for known in seen):
        return False
    seen.add(target)
    return True


def _contains(folder: str, path: str) -> bool:
    try:
        return os.path.commonpath([folder, path]) == folder
    except ValueError:  # on different drives
        return False


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(name: str) -> str:
    """``name`` with bytes that are not Unicode shown as escapes."""
    return name.encode("utf-8", "backslashreplace").decode()
