"""Copy the images into one folder per class."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surelabel.dataset.file_index import content_digest
from surelabel.export.names import UNLABELED, class_folders, file_names, safe_name
from surelabel.types import OnProgress, Progress, no_progress

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
    """Absolute path of the image file; empty for a row of an array."""
    digest: str
    target: str
    """Path below the exported folder."""


@dataclass(frozen=True)
class Missing:
    """An image that could not be written, and why."""

    path: str
    reason: str


def place(catalog: Catalog, ids: Sequence[str], labels: Sequence[str]) -> list[Placement]:
    """Where each image goes; images with an empty label go to ``unlabeled``."""
    folder_of = class_folders(label for label in labels if label)
    folders = [folder_of[label] if label else UNLABELED for label in labels]
    rows = catalog.rows(np.asarray(ids, dtype=np.str_))
    paths, files = catalog.paths[rows].tolist(), catalog.files[rows].tolist()
    digests = catalog.digests[rows].tolist()
    wanted = [p if f else _png_path(p) for p, f in zip(paths, files, strict=True)]
    names = file_names(folders, wanted, ids)
    targets = [f"{folder}/{name}" for folder, name in zip(folders, names, strict=True)]
    return [Placement(*each) for each in zip(paths, files, digests, targets, strict=True)]


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
    for done, batch in _batches(placements):
        missing += _copy_files(folder, [each for each in batch if each.file])
        missing += _write_pixels(folder, [each for each in batch if not each.file], store)
        on_progress(Progress("exporting images", done, len(placements)))
    if missing:
        _write_rows(folder / MISSING, ("path", "reason"), ((m.path, m.reason) for m in missing))
    return missing


def write_class_map(folder: Path, labels: Iterable[str]) -> None:
    """Write which class each folder is, if any class name had to be changed for its folder."""
    folder_of = class_folders(sorted({label for label in labels if label}))
    if any(label != name for label, name in folder_of.items()):
        rows = ((name, label) for label, name in folder_of.items())
        _write_rows(folder / CLASSES, ("folder", "label"), rows)


def _write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _batches(placements: Sequence[Placement]) -> Iterator[tuple[int, Sequence[Placement]]]:
    for start in range(0, len(placements), _BATCH):
        batch = placements[start : start + _BATCH]
        yield start + len(batch), batch


def _copy_files(folder: Path, batch: Sequence[Placement]) -> Iterator[Missing]:
    for each in batch:
        try:
            content = Path(each.file).read_bytes()
            if content_digest(content) != each.digest:
                yield Missing(each.path, "the file has changed since the run read it")
                continue
            with (folder / each.target).open("xb") as copy:
                copy.write(content)
        except OSError as error:
            if error.filename != each.file:
                raise
            gone = isinstance(error, FileNotFoundError)
            reason = "is not there any more" if gone else f"cannot be read: {error.strerror}"
            yield Missing(each.path, f"the file {reason}")


def _write_pixels(folder: Path, batch: Sequence[Placement], store: PixelStore) -> Iterator[Missing]:
    from PIL import Image

    digests = np.array([each.digest for each in batch], dtype=np.str_)
    lost = set(store.missing(digests).tolist()) if len(batch) else set()
    kept = [each for each in batch if each.digest not in lost]
    pixels = store.gather(np.array([each.digest for each in kept], dtype=np.str_))
    for each, image in zip(kept, pixels, strict=True):
        gray = image.shape[-1] == 1
        Image.fromarray(image[..., 0] if gray else image).save(folder / each.target)
    for each in batch:
        if each.digest in lost:
            yield Missing(each.path, "its pixels are not in the cache any more")


def _png_path(path: str) -> str:
    head, slash, name = path.rpartition("/")
    return f"{head}{slash}{safe_name(name)}.png"
