"""Find the images that the user named: a folder, a table, an IDX or NumPy file, or an array."""

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
    attach_metadata,
    has_image_column,
    is_saved_dataset,
    parquet_shards,
    read_parquet,
    read_saved,
)
from surelabel.dataset.items import LabelRow, Skipped, Source, absolute, normalize_key
from surelabel.dataset.labels import attach_array, attach_labels, attach_table
from surelabel.dataset.tables import is_table, read_table
from surelabel.errors import InputError

Images: TypeAlias = str | os.PathLike[str] | AnyArray
"""A folder, a file (table, Parquet, IDX, NumPy), or an array (N, H, W) or (N, H, W, C)."""

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


def find_images(images: Images | Source, cache: Path | None = None) -> Source:
    """The images at ``images``, with the labels of a table or ``.npz``; folder names are not read.

    A ``Source`` comes back as it is, so that images are found once and passed on. Images inside
    Parquet or Arrow files are unpacked to ``cache``, or to the default one.
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
    path = Path(images).expanduser()
    if path.is_dir():
        return _folder_source(path, cache or default_cache())
    if not path.exists():
        raise InputError(f"{path}: there is no such folder or file of images.")
    if has_image_column(path):
        return read_parquet([path], str(path), cache or default_cache())
    if is_table(path):
        return _table_source(path)
    if path.suffix.lower() in {".npy", ".npz"}:
        array, labels = read_images(path)
        source = array_source(array, path.name, str(path))
        return source if labels is None else attach_array(source, labels, f"labels in {path}")
    if is_idx(path):
        return array_source(read_idx(path), key_name(path), str(path))
    raise InputError(
        f"{path} is neither a folder of images, nor a table (CSV, TSV, Parquet, Excel), nor an "
        "IDX or NumPy file. To label one image, give the folder that it is in."
    )


def class_folders(source: Source, known: tuple[str, ...] = ()) -> Source:
    """``source`` with the first folder of each path as its label, if the folders are classes.

    They are when a folder ``unlabeled`` lies beside others, or when images lie in two or more
    folders. In a run that has classes already (``known``) they are only if all are among those.
    """
    tops = {key.split("/")[0] for key in source.keys if "/" in key}
    named = {top for top in tops if top.lower() not in UNLABELED_FOLDERS}
    are_classes = named < tops or (named <= set(known) if known else len(named) >= 2)
    if source.root is None or not named or not are_classes:
        return source
    rows = [
        LabelRow(key, where=f"the folder {source.root / top}", label=top)
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
    if source.root is None or any(top.lower() in UNLABELED_FOLDERS for top in tops) or not tops:
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
    """Files under ``root``; of two names that differ only in Unicode form the second is skipped."""
    files: dict[str, str] = {}
    for key in keys:
        normal = normalize_key(key)
        if normal in files:
            skipped.append(Skipped(key, "another file has the same name in another Unicode form"))
        else:
            files[normal] = absolute(root / key)
    return Source(name, root, tuple(files), tuple(files.values()), skipped=tuple(skipped))


def _folder_source(path: Path, cache: Path) -> Source:
    if is_saved_dataset(path):
        return read_saved(path, cache)
    keys, skipped = walk_images(path)
    source = attach_metadata(file_source(str(path), path, keys, skipped))
    labels = path / FIFTYONE_LABELS
    if labels.is_file() and (path / FIFTYONE_DATA).is_dir() and is_label_json(read_json(labels)):
        source = attach_labels(source, labels)
    if not source.keys:
        shards = parquet_shards(path)
        if shards:
            return read_parquet(shards, str(path), cache)
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
        suffix = Path(entry.name).suffix.lower()
        if suffix in readable_suffixes():
            yield prefix + entry.name
        elif suffix in _CAMERA_SUFFIXES:
            reason = f"{suffix[1:].upper()} files cannot be decoded: save it as JPEG or PNG"
            if suffix in _HEIC_SUFFIXES:
                reason += ", or install the reader: pip install 'surelabel[heic]'"
            skipped.append(Skipped(_printable(prefix + entry.name), reason))
        elif suffix not in _OTHER_SUFFIXES:
            reason = "its name does not end like that of an image that can be read"
            skipped.append(Skipped(_printable(prefix + entry.name), reason))


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
