"""What the user named as images: a folder, a table, an IDX or NumPy file, or an array."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from surelabel.catalog.arrays import check_images, read_images
from surelabel.catalog.ids import tidy_key
from surelabel.catalog.idx import is_idx, key_name, read_idx
from surelabel.catalog.items import Skipped
from surelabel.catalog.marks import Mark
from surelabel.catalog.resolve import mark_array, mark_table
from surelabel.catalog.source import Source, absolute
from surelabel.catalog.tables import is_table, read_table
from surelabel.catalog.walk import walk_images
from surelabel.errors import InputError

Images: TypeAlias = str | os.PathLike[str] | npt.NDArray[Any]

#: Names of the folder beside class folders that holds what has no label.
UNLABELED_FOLDERS = frozenset({"unlabeled", "unlabelled"})


def find_images(images: Images) -> Source:
    """What is at ``images``; labels are taken from a table or ``.npz``, not from folder names."""
    if isinstance(images, np.ndarray):
        return array_source(images, "array", "the array of images")
    if not isinstance(images, str | os.PathLike):
        raise InputError(
            f"The images are of the type {type(images).__name__}: give a folder, a file with a "
            "table of path,label, an IDX or NumPy file, or a NumPy array."
        )
    path = Path(images).expanduser()
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise InputError(f"{path}: there is no such folder or file of images.")
    if is_table(path):
        return _table(path)
    if path.suffix.lower() in {".npy", ".npz"}:
        array, labels = read_images(path)
        source = array_source(array, path.name, str(path))
        return source if labels is None else mark_array(source, labels, f"labels in {path}")
    if is_idx(path):
        return array_source(read_idx(path), key_name(path), str(path))
    raise InputError(
        f"{path} is neither a folder of images, nor a table (CSV, TSV, Parquet), nor an IDX or "
        "NumPy file. To label one image, give the folder that it is in."
    )


def array_source(array: npt.NDArray[Any], stem: str, name: str, first: int = 0) -> Source:
    """The rows of ``array``, with keys ``stem:00000`` and on, counted from ``first``."""
    pixels = check_images(array, name)
    keys = tuple(f"{stem}:{i:05d}" for i in range(first, first + len(pixels)))
    return Source(name, None, keys, ("",) * len(keys), array=pixels)


def file_source(name: str, root: Path, keys: list[str], skipped: list[Skipped]) -> Source:
    """Files under ``root``; of two names that differ only in Unicode form the second is skipped."""
    files: dict[str, str] = {}
    for key in keys:
        tidy = tidy_key(key)
        if tidy in files:
            skipped.append(Skipped(key, "another file has the same name in another Unicode form"))
        else:
            files[tidy] = absolute(root / key)
    return Source(name, root, tuple(files), tuple(files.values()), skipped=tuple(skipped))


def class_folders(source: Source, known: tuple[str, ...] = ()) -> Source:
    """``source`` with the name of the first folder of each path as its label, where that fits.

    It fits when a folder ``unlabeled`` lies beside others, or when images lie in two or more
    folders; for a run that already has classes (``known``) only when all folders are among them.
    """
    tops = {key.split("/")[0] for key in source.keys if "/" in key}
    named = {top for top in tops if top.lower() not in UNLABELED_FOLDERS}
    fits = named < tops or (named <= set(known) if known else len(named) >= 2)
    if source.root is None or not named or not fits:
        return source
    marks = [
        Mark(key, where=f"the folder {source.root / top}", label=top)
        for key in source.keys
        if (top := key.split("/")[0]) in named and "/" in key
    ]
    return replace(source, marks=tuple(marks))


def _folder(path: Path) -> Source:
    keys, skipped = walk_images(path)
    source = file_source(str(path), path, keys, skipped)
    if not source.keys:
        why = f" {skipped[0].path}: {skipped[0].reason}." if skipped else ""
        raise InputError(f"{path} holds no images.{why or ' Is it the right folder?'}")
    return source


def _table(path: Path) -> Source:
    """The images that a table lists, with its labels; paths are relative to the table."""
    table = read_table(path)
    if table.by_index:
        raise InputError(f"{path} has no column 'path', so it does not say where images are.")
    source = mark_table(Source(str(path), path.parent, (), ()), table)
    if not source.keys:
        raise InputError(f"{path} lists no images.")
    return source
