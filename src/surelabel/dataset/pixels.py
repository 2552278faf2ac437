"""Read images into the pixel store, and read them again after the cache was emptied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from surelabel.dataset.array_store import Pixels, PixelStore
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.decode import (
    AUTO_DECODING,
    Decoding,
    UnreadableImageError,
    choose_size,
    decode_image,
    resize_array,
    strict_pillow,
)
from surelabel.dataset.file_index import content_digest, read_headers
from surelabel.dataset.items import Skipped, Source, item_ids, string_array
from surelabel.dataset.locations import Location, exists, read_contents
from surelabel.dataset.parallel import ProgressCounter, decoder, map_batches
from surelabel.dataset.remote import is_remote
from surelabel.dataset.sources import Images, find_images
from surelabel.errors import InputError
from surelabel.files.mapped_arrays import slices, zeros
from surelabel.types import UNLABELED, Ids, IntArray, OnProgress, Split, no_progress

_BATCH_BYTES = 2**20
_STORE_BYTES = 2**25
_CANNOT_READ = "the file cannot be read"
_MOST_AT_ONCE = 20_000
"""Images that are stored together: each takes Python objects, however small it is."""
_ARRAY_BATCH = 1000
"""Rows of an array that are hashed at a time."""


@dataclass(frozen=True)
class SourceContents:
    """The M images of a source whose headers could be read, and the size that suits them."""

    rows: IntArray
    """(M,) positions in the source."""
    digests: Ids
    """(M,) content keys."""
    size: int
    """The side in pixels that suits all of them."""
    channels: int
    skipped: tuple[Skipped, ...]


def with_headers(source: Source, cache: Path, on_progress: OnProgress = no_progress) -> Source:
    """``source`` with the header of every file; those that it has already are not read again."""
    if source.array is not None or len(source.headers) == len(source.files):
        return source
    rest = read_headers(source.files[len(source.headers) :], cache, on_progress, source.stamps)
    return replace(source, headers=(*source.headers, *rest))


def median_side(source: Source) -> int:
    """Median of the shorter sides of the images in pixels; 0 if none can be read.

    Image files need their headers for this; see ``with_headers``.
    """
    if source.array is not None:
        return int(min(source.array.shape[1:3]))
    sides = [min(h.width, h.height) for h in source.headers if not h.problem]
    return int(np.median(sides)) if sides else 0


def source_contents(source: Source, cache: Path, on_progress: OnProgress) -> SourceContents:
    """Digests of all images of ``source``, and the size and channels that suit them."""
    if source.array is not None:
        array = source.array
        tag = repr(array.shape[1:]).encode()
        digests = zeros((len(array),), "<U32")
        for part in slices(len(array), _ARRAY_BATCH):
            digests[part] = [content_digest(tag + row.tobytes()) for row in np.array(array[part])]
        size = choose_size([(array.shape[2], array.shape[1])])
        channels = 1 if array.ndim == 3 or array.shape[3] == 1 else 3
        return SourceContents(np.arange(len(array)), digests, size, channels, ())
    headers = with_headers(source, cache, on_progress).headers
    rows = np.flatnonzero([not header.problem for header in headers])
    return SourceContents(
        rows=rows,
        digests=string_array(headers[i].digest for i in rows),
        size=choose_size({(headers[i].width, headers[i].height) for i in rows}),
        channels=1 if all(headers[i].gray for i in rows) else 3,
        skipped=tuple(
            Skipped(key, header.problem, header.unread)
            for key, header in zip(source.keys, headers, strict=True)
            if header.problem
        ),
    )


def read_catalog(
    source: Source, cache: Path, on_progress: OnProgress, decoding: Decoding = AUTO_DECODING
) -> Catalog:
    """The images of ``source`` that can be read, decoded and without labels, all in the pool."""
    contents = source_contents(source, cache, on_progress)
    size, channels = decoding.size or contents.size, decoding.channels or contents.channels
    store = PixelStore(cache, size, channels, decoding.resize)
    problems = store_images(store, source, contents, on_progress)
    skipped = list(source.skipped + contents.skipped)
    rows, digests = contents.rows, contents.digests
    if problems:
        failed = np.isin(digests, sorted(problems))
        for row, digest in zip(rows[failed].tolist(), digests[failed].tolist(), strict=True):
            away = is_remote(Location.parse(source.files[row]).file)
            unread = away and problems[digest].startswith(_CANNOT_READ)
            skipped.append(Skipped(source.keys[row], problems[digest], unread))
        rows, digests = rows[~failed], digests[~failed]
    n = len(rows)
    empty = np.zeros(n, dtype="<U1")
    return Catalog(
        ids=item_ids(source.keys[row] for row in rows),
        paths=string_array(source.keys[row] for row in rows),
        labels=np.full(n, UNLABELED, dtype=np.int64),
        sources=empty,
        splits=np.full(n, str(Split.POOL), dtype="<U8"),
        groups=empty,
        digests=digests,
        files=string_array(source.files[row] for row in rows),
        classes=(),
        size=size,
        channels=channels,
        cross_fit=False,
        skipped=tuple(skipped),
        resize=decoding.resize,
    )


def store_images(
    store: PixelStore, source: Source, contents: SourceContents, on_progress: OnProgress
) -> dict[str, str]:
    """Decode what ``store`` lacks; return the reason for each digest that cannot be decoded."""
    missing = store.missing(contents.digests)
    rows = contents.rows[first_places(contents.digests, missing)]
    total = len(contents.digests)
    progress = ProgressCounter(on_progress, "reading images", total)
    progress.advance(total - len(missing))
    if source.array is not None:
        _store_array(store, source.array, rows, missing, progress)
        return {}
    files = [source.files[row] for row in rows]
    return _store_files(store, list(zip(missing.tolist(), files, strict=True)), progress)


def first_places(digests: Ids, wanted: Ids) -> IntArray:
    """(M,) where each of ``wanted``, which are distinct and in this order, comes first."""
    if not len(wanted):
        return np.empty(0, dtype=np.int64)
    if len(wanted) == len(digests):
        return np.arange(len(digests))
    order = np.argsort(wanted)
    at = np.minimum(np.searchsorted(wanted, digests, sorter=order), len(wanted) - 1)
    places = np.flatnonzero(wanted[order[at]] == digests)
    _, first = np.unique(order[at[places]], return_index=True)
    return places[first]


def open_pixels(catalog: Catalog, cache: Path) -> PixelStore:
    """The store for the pixels of ``catalog``; some may be missing, see ``restore_pixels``."""
    return PixelStore(cache, catalog.size, catalog.channels, catalog.resize)


def restore_pixels(
    catalog: Catalog,
    *,
    cache: Path,
    images: Images | None = None,
    on_progress: OnProgress = no_progress,
) -> PixelStore:
    """The store with all pixels of ``catalog``; what is missing is decoded again.

    Files are looked for where they were. ``images`` is where they are now; images that came as an
    array can only be restored from it.
    """
    store = open_pixels(catalog, cache)
    if images is not None and len(store.missing(catalog.digests)):
        source = find_images(images, cache)
        contents = source_contents(source, cache, on_progress)
        wanted = np.isin(contents.digests, catalog.digests)
        rows, digests = contents.rows[wanted], contents.digests[wanted]
        contents = replace(contents, rows=rows, digests=digests)
        store_images(store, source, contents, on_progress)
    missing = set(store.missing(catalog.digests).tolist())
    files: dict[str, str] = {}
    for digest, file in zip(catalog.digests.tolist(), catalog.files.tolist(), strict=True):
        # Of identical files, any one that still exists will do.
        if file and digest in missing and not _exists(files.get(digest)):
            files[digest] = file
    progress = ProgressCounter(on_progress, "reading images", len(files))
    problems = _store_files(store, list(files.items()), progress)
    lost = missing - (files.keys() - problems.keys())
    if lost:
        raise _lost_pixels(catalog, lost, files, problems)
    return store


def relocate_files(
    catalog: Catalog, images: Images | Source, cache: Path, on_progress: OnProgress
) -> Catalog:
    """``catalog`` with the paths of those files in ``images`` that have the content it knows."""
    source = find_images(images, cache)
    if source.array is not None:
        return catalog
    contents = source_contents(source, cache, on_progress)
    by_digest: dict[str, list[str]] = {}
    for digest, row in zip(contents.digests.tolist(), contents.rows, strict=True):
        by_digest.setdefault(digest, []).append(source.files[row])

    def new_file(path: str, digest: str, file: str) -> str:
        if not file or digest not in by_digest:
            return file
        identical = by_digest[digest]
        return next((each for each in identical if each.endswith(f"/{path}")), identical[0])

    columns = (catalog.paths.tolist(), catalog.digests.tolist(), catalog.files.tolist())
    files = string_array(new_file(*row) for row in zip(*columns, strict=True))
    return replace(catalog, files=files)


def _store_files(
    store: PixelStore, files: Sequence[tuple[str, str]], progress: ProgressCounter
) -> dict[str, str]:
    """Decode (digest, file) pairs into ``store``; return the reason for each that failed."""
    problems: dict[str, str] = {}
    digests: list[str] = []
    pixels: list[Pixels] = []
    limit = min(_MOST_AT_ONCE, max(1, _STORE_BYTES // (store.size**2 * store.channels)))

    decode_all = partial(_decode_all, decoding=Decoding(store.size, store.channels, store.resize))
    with strict_pillow():
        for batch, decoded in decoder()(decode_all, files, _files_per_batch(store)):
            for (digest, _), image in zip(batch, decoded, strict=True):
                if isinstance(image, str):
                    problems[digest] = image
                else:
                    digests.append(digest)
                    pixels.append(image)
            progress.advance(len(batch))
            if len(digests) >= limit:
                store.add(string_array(digests), np.stack(pixels))
                digests, pixels = [], []
    if digests:
        store.add(string_array(digests), np.stack(pixels))
    return problems


def _decode_all(batch: Sequence[tuple[str, str]], decoding: Decoding) -> list[Pixels | str]:
    """(digest, location) -> the pixels of each, or the reason why there are none."""
    contents = read_contents([file for _, file in batch])
    return [_decode(d, read, decoding) for (d, _), read in zip(batch, contents, strict=True)]


def _decode(digest: str, content: bytes | OSError, decoding: Decoding) -> Pixels | str:
    """The pixels, or the reason why there are none; never the pixels of other content."""
    if isinstance(content, OSError):
        return f"{_CANNOT_READ} ({content.strerror})"
    try:
        if content_digest(content) != digest:
            return "the file has changed since it was first read"
        return decode_image(content, decoding.size, decoding.channels, decoding.resize)
    except UnreadableImageError as error:
        return str(error)


def _store_array(
    store: PixelStore, array: Pixels, rows: IntArray, digests: Ids, progress: ProgressCounter
) -> None:
    shape = (store.size, store.size, store.channels)
    images = array if array.ndim == 4 else array[..., np.newaxis]

    def resize_all(batch: Sequence[int]) -> Pixels:
        if images.shape[1:] == shape:
            kept: Pixels = images[np.asarray(batch)]
            return kept
        decoding = (store.size, store.channels, store.resize)
        return np.stack([resize_array(images[i], *decoding) for i in batch])

    done = 0
    batch_size = min(_MOST_AT_ONCE, max(1, _STORE_BYTES // int(np.prod(shape))))
    for batch, pixels in map_batches(resize_all, cast(Sequence[int], rows), batch_size):
        store.add(digests[done : done + len(batch)], pixels)
        done += len(batch)
        progress.advance(len(batch))


def _files_per_batch(store: PixelStore) -> int:
    """Few large files or many small ones, so that progress keeps moving."""
    return int(np.clip(_BATCH_BYTES // (store.size**2 * store.channels * 4), 4, 64))


def _exists(file: str | None) -> bool:
    return file is not None and exists(file)


def _lost_pixels(
    catalog: Catalog, lost: set[str], files: dict[str, str], problems: dict[str, str]
) -> InputError:
    """The error about the digests in ``lost``, with the first as the example."""
    row = int(np.flatnonzero(np.isin(catalog.digests, sorted(lost)))[0])
    digest = str(catalog.digests[row])
    reason = problems.get(digest, "it came in an array")
    return InputError(
        f"The pixels of {len(lost)} images are no longer in the cache and cannot be read again. "
        f"The first is {files.get(digest) or catalog.paths[row]}: {reason}. Put the images back, "
        "or name the folder where they are now."
    )
