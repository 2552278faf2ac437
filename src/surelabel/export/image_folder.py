"""Copy the images into one folder per class."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np

from surelabel.dataset.file_index import content_digest
from surelabel.dataset.locations import read_content, suffix_of
from surelabel.export.names import UNLABELED, class_folders, file_names, safe_name
from surelabel.files.mapped_arrays import slices
from surelabel.files.spreadsheet import csv_bytes
from surelabel.types import Ids, OnProgress, Progress, no_progress

if TYPE_CHECKING:
    from surelabel.dataset.array_store import PixelStore
    from surelabel.dataset.catalog import Catalog

CLASSES = "classes.csv"
"""Which class each folder is; written where a class name cannot be a folder name."""
MISSING = "missing.csv"
"""Images that could not be written, and why."""
_BATCH = 256


@dataclass(frozen=True)
class Placement:
    """One image and where it goes."""

    path: str
    file: str
    """Where the bytes of the image are; empty for a row of an array."""
    digest: str
    target: str
    """Path below the exported folder."""


@dataclass(frozen=True)
class Missing:
    """An image that could not be written, and why."""

    path: str
    reason: str


def place(
    catalog: Catalog, ids: Sequence[str], labels: Sequence[str], unlabeled: str = UNLABELED
) -> list[Placement]:
    """Where each image goes: to the folder of its class; with an empty label to ``unlabeled``."""
    folder_of = class_folders(label for label in labels if label)
    folders = [folder_of[label] if label else unlabeled for label in labels]
    wanted = [
        path if file else _png_path(path)
        for path, file in zip(*_located(catalog, ids)[:2], strict=True)
    ]
    names = file_names(folders, wanted, ids)
    targets = [f"{folder}/{name}" for folder, name in zip(folders, names, strict=True)]
    return [Placement(*each) for each in zip(*_located(catalog, ids), targets, strict=True)]


class PlacedById(Sequence[Placement]):
    """All images in one folder, each named by its id: no name can be mistaken for a split.

    A placement is made when somebody asks for it, because there may be a million.
    """

    def __init__(self, catalog: Catalog, ids: Ids, folder: str) -> None:
        self._catalog, self._ids, self._folder = catalog, ids, folder

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, at: int) -> Placement: ...
    @overload
    def __getitem__(self, at: slice) -> list[Placement]: ...
    def __getitem__(self, at: int | slice) -> Placement | list[Placement]:
        if not isinstance(at, slice):
            return self[at : at + 1 or None][0]
        ids = self._ids[at].tolist()
        paths, files, digests = _located(self._catalog, ids)
        targets = [
            f"{self._folder}/{item_id}{suffix_of(file) if file else '.png'}"
            for item_id, file in zip(ids, files, strict=True)
        ]
        return [Placement(*each) for each in zip(paths, files, digests, targets, strict=True)]

    def __iter__(self) -> Iterator[Placement]:
        return itertools.chain.from_iterable(self[part] for part in slices(len(self)))


def _located(catalog: Catalog, ids: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Paths, files and digests of the images ``ids``."""
    rows = catalog.rows(np.asarray(ids, dtype=np.str_))
    columns = (catalog.paths, catalog.files, catalog.digests)
    paths, files, digests = (column[rows].tolist() for column in columns)
    return paths, files, digests


def write_image_folder(
    folder: Path,
    placements: Sequence[Placement],
    store: PixelStore,
    on_progress: OnProgress = no_progress,
) -> list[Missing]:
    """Write the images into ``folder``; those that cannot be read are listed and returned."""
    for name in {placement.target.partition("/")[0] for placement in placements}:
        (folder / name).mkdir(exist_ok=True)
    missing: list[Missing] = []
    for each, content in image_contents(placements, store, on_progress):
        if isinstance(content, Missing):
            missing.append(content)
            continue
        with (folder / each.target).open("xb") as copy:
            copy.write(content)
    write_missing(folder, missing)
    return missing


def image_contents(
    placements: Sequence[Placement], store: PixelStore, on_progress: OnProgress = no_progress
) -> Iterator[tuple[Placement, bytes | Missing]]:
    """Each image as the bytes of its file, or of a PNG if it is a row of an array."""
    for done, batch in _batches(placements):
        pixels = _encoded_pixels([each for each in batch if not each.file], store)
        for each in batch:
            yield each, _file_content(each) if each.file else pixels[each.path]
        on_progress(Progress("exporting images", done, len(placements)))


def write_missing(folder: Path, missing: Sequence[Missing]) -> None:
    """List the images that could not be written, if there are any."""
    if missing:
        _write_rows(folder / MISSING, ("path", "reason"), ((m.path, m.reason) for m in missing))


def write_class_map(folder: Path, labels: Iterable[str]) -> None:
    """Write which class each folder is, if any class name had to be changed for its folder."""
    folder_of = class_folders(sorted({label for label in labels if label}))
    if any(label != name for label, name in folder_of.items()):
        rows = ((name, label) for label, name in folder_of.items())
        _write_rows(folder / CLASSES, ("folder", "label"), rows)


def _write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    path.write_bytes(csv_bytes(header, rows))


def _batches(placements: Sequence[Placement]) -> Iterator[tuple[int, Sequence[Placement]]]:
    for start in range(0, len(placements), _BATCH):
        batch = placements[start : start + _BATCH]
        yield start + len(batch), batch


def _file_content(placement: Placement) -> bytes | Missing:
    try:
        content = read_content(placement.file)
    except FileNotFoundError:
        return Missing(placement.path, "the file is not there any more")
    except OSError as error:
        return Missing(placement.path, f"the file cannot be read: {error.strerror}")
    if content_digest(content) != placement.digest:
        return Missing(placement.path, "the file has changed since the run read it")
    return content


def _encoded_pixels(batch: Sequence[Placement], store: PixelStore) -> dict[str, bytes | Missing]:
    """PNG files of rows of an array, by path."""
    from PIL import Image

    digests = np.array([each.digest for each in batch], dtype=np.str_)
    lost = set(store.missing(digests).tolist()) if len(batch) else set()
    kept = [each for each in batch if each.digest not in lost]
    pixels = store.gather(np.array([each.digest for each in kept], dtype=np.str_))
    encoded: dict[str, bytes | Missing] = {
        each.path: Missing(each.path, "its pixels are not in the cache any more")
        for each in batch
        if each.digest in lost
    }
    for each, image in zip(kept, pixels, strict=True):
        content = io.BytesIO()
        gray = image.shape[-1] == 1
        Image.fromarray(image[..., 0] if gray else image).save(content, format="PNG")
        encoded[each.path] = content.getvalue()
    return encoded


def _png_path(path: str) -> str:
    head, slash, name = path.rpartition("/")
    return f"{head}{slash}{safe_name(name)}.png"
