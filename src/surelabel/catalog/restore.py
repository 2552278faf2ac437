"""Pixels of a known catalog, read again after the cache was emptied or left behind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from surelabel.catalog.ids import strings
from surelabel.catalog.items import Catalog
from surelabel.catalog.parallel import Ticker
from surelabel.catalog.pixels import PixelStore
from surelabel.catalog.reading import measure, store_files, store_images
from surelabel.catalog.sources import Images, find_images
from surelabel.errors import InputError
from surelabel.types import OnProgress, no_progress


def open_pixels(catalog: Catalog, cache: Path) -> PixelStore:
    """The store that holds the pixels of ``catalog``, whether or not all are there."""
    return PixelStore(cache, catalog.size, catalog.channels, catalog.resize)


def restore_pixels(
    catalog: Catalog,
    *,
    cache: Path,
    images: Images | None = None,
    on_progress: OnProgress = no_progress,
) -> PixelStore:
    """The store with all pixels of ``catalog``, decoding again what it lacks.

    Files are looked for where they were; ``images`` names where they are now, and is the only way
    for images that came in an array.
    """
    store = open_pixels(catalog, cache)
    if images is not None and len(store.missing(catalog.digests)):
        source = find_images(images)
        found = measure(source, cache, on_progress)
        wanted = np.isin(found.digests, catalog.digests)
        rows = tuple(np.array(found.rows, dtype=np.int64)[wanted].tolist())
        found = replace(found, rows=rows, digests=found.digests[wanted])
        store_images(store, source, found, on_progress)
    missing = set(store.missing(catalog.digests).tolist())
    files: dict[str, str] = {}
    for digest, file in zip(catalog.digests.tolist(), catalog.files.tolist(), strict=True):
        # Of equal files one that is there will do.
        if file and digest in missing and not _is_there(files.get(digest)):
            files[digest] = file
    problems = store_files(
        store, list(files.items()), Ticker(on_progress, "reading images", len(files))
    )
    _complain(catalog, missing - (files.keys() - problems.keys()), files, problems)
    return store


def _is_there(file: str | None) -> bool:
    return file is not None and Path(file).is_file()


def moved_to(catalog: Catalog, images: Images, cache: Path, on_progress: OnProgress) -> Catalog:
    """``catalog`` with the files of ``images`` that have the content it knows as its own."""
    source = find_images(images)
    if source.array is not None:
        return catalog
    found = measure(source, cache, on_progress)
    there: dict[str, list[str]] = {}
    for digest, row in zip(found.digests.tolist(), found.rows, strict=True):
        there.setdefault(digest, []).append(source.files[row])

    def place(path: str, digest: str, file: str) -> str:
        if not file or digest not in there:
            return file
        equal = there[digest]
        return next((each for each in equal if each.endswith(f"/{path}")), equal[0])

    columns = (catalog.paths.tolist(), catalog.digests.tolist(), catalog.files.tolist())
    return replace(catalog, files=strings(place(*row) for row in zip(*columns, strict=True)))


def _complain(
    catalog: Catalog, lost: set[str], files: dict[str, str], problems: dict[str, str]
) -> None:
    """Raise for the digests in ``lost``, with the first as the example."""
    if not lost:
        return
    row = int(np.flatnonzero(np.isin(catalog.digests, sorted(lost)))[0])
    digest = str(catalog.digests[row])
    reason = problems.get(digest, "it came in an array")
    raise InputError(
        f"The pixels of {len(lost)} images are not in the cache any more and cannot be read "
        f"again. The first is {files.get(digest) or catalog.paths[row]}: {reason}. Put the images "
        "back, or say where they are now."
    )
