"""From named images to stored pixels, and the same again after the cache was emptied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from surelabel.dataset.array_store import Pixels, PixelStore
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.decode import (
    UnreadableImageError,
    choose_size,
    decode_image,
    resize_array,
    strict_pillow,
)
from surelabel.dataset.file_index import content_digest, read_headers
from surelabel.dataset.items import Skipped, Source, strings
from surelabel.dataset.parallel import Ticker, in_batches
from surelabel.dataset.sources import Images, find_images
from surelabel.errors import InputError
from surelabel.types import Ids, OnProgress, no_progress

_BATCH_BYTES = 2**20
_STORE_BYTES = 2**25


@dataclass(frozen=True)
class Measured:
    """The images of a source whose headers could be read; M of them."""

    rows: tuple[int, ...]
    """(M,) positions in the source."""
    digests: Ids
    """(M,) content keys."""
    size: int
    """The side that suits all of them."""
    channels: int
    typical_side: int
    """Median of the shorter sides, in pixels."""
    skipped: tuple[Skipped, ...]


def measure(source: Source, cache: Path, on_progress: OnProgress) -> Measured:
    """Digest and header of every image of ``source``."""
    if source.array is not None:
        array = source.array
        tag = repr(array.shape[1:]).encode()
        digests = strings(content_digest(tag + row.tobytes()) for row in array)
        size = choose_size([(array.shape[2], array.shape[1])])
        channels = 1 if array.ndim == 3 or array.shape[3] == 1 else 3
        shorter = min(array.shape[1:3])
        return Measured(tuple(range(len(array))), digests, size, channels, shorter, ())
    headers = read_headers(source.files, cache, on_progress)
    rows = tuple(i for i, header in enumerate(headers) if not header.problem)
    return Measured(
        rows=rows,
        digests=strings(headers[i].digest for i in rows),
        size=choose_size({(headers[i].width, headers[i].height) for i in rows}),
        channels=1 if all(headers[i].gray for i in rows) else 3,
        typical_side=_median([min(headers[i].width, headers[i].height) for i in rows]),
        skipped=tuple(
            Skipped(key, header.problem)
            for key, header in zip(source.keys, headers, strict=True)
            if header.problem
        ),
    )


def store_images(
    store: PixelStore, source: Source, measured: Measured, on_progress: OnProgress
) -> dict[str, str]:
    """Decode what ``store`` lacks; return the reason for each digest that cannot be decoded."""
    place: dict[str, int] = {}
    for row, digest in zip(measured.rows, measured.digests.tolist(), strict=True):
        place.setdefault(digest, row)
    missing = store.missing(measured.digests).tolist()
    total = len(measured.digests)
    ticker = Ticker(on_progress, "reading images", total)
    ticker.advance(total - len(missing))
    if source.array is not None:
        array, rows = source.array, [place[digest] for digest in missing]
        _store_rows(store, array, rows, missing, ticker)
        return {}
    return store_files(store, [(d, source.files[place[d]]) for d in missing], ticker)


def store_files(
    store: PixelStore, files: Sequence[tuple[str, str]], ticker: Ticker
) -> dict[str, str]:
    """Decode (digest, file) pairs into ``store``; return the reason for each that failed."""
    problems: dict[str, str] = {}
    digests: list[str] = []
    pixels: list[Pixels] = []
    limit = max(1, _STORE_BYTES // (store.size**2 * store.channels))

    def decode_all(batch: Sequence[tuple[str, str]]) -> list[Pixels | str]:
        return [_decode(digest, file, store) for digest, file in batch]

    with strict_pillow():
        for batch, decoded in in_batches(decode_all, files, _batch(store)):
            for (digest, _), image in zip(batch, decoded, strict=True):
                if isinstance(image, str):
                    problems[digest] = image
                else:
                    digests.append(digest)
                    pixels.append(image)
            ticker.advance(len(batch))
            if len(digests) >= limit:
                store.add(strings(digests), np.stack(pixels))
                digests, pixels = [], []
    if digests:
        store.add(strings(digests), np.stack(pixels))
    return problems


def _decode(digest: str, file: str, store: PixelStore) -> Pixels | str:
    """Pixels, or the reason why there are none; never pixels of another content."""
    try:
        content = Path(file).read_bytes()
        if content_digest(content) != digest:
            return "the file has changed since it was first read"
        return decode_image(content, store.size, store.channels, store.resize)
    except UnreadableImageError as error:
        return str(error)
    except OSError as error:
        return f"the file cannot be read ({error.strerror})"


def _store_rows(
    store: PixelStore, array: Pixels, rows: list[int], digests: list[str], ticker: Ticker
) -> None:
    shape = (store.size, store.size, store.channels)
    plain = array if array.ndim == 4 else array[..., np.newaxis]

    def fit_all(batch: Sequence[int]) -> Pixels:
        if plain.shape[1:] == shape:
            return plain[list(batch)]
        how = (store.size, store.channels, store.resize)
        return np.stack([resize_array(plain[i], *how) for i in batch])

    done = 0
    for batch, pixels in in_batches(fit_all, rows, max(1, _STORE_BYTES // int(np.prod(shape)))):
        store.add(strings(digests[done : done + len(batch)]), pixels)
        done += len(batch)
        ticker.advance(len(batch))


def _median(sides: list[int]) -> int:
    return int(np.median(sides)) if sides else 0


def _batch(store: PixelStore) -> int:
    """Files for one thread at a time: few large ones, so that progress moves, or many small."""
    return int(np.clip(_BATCH_BYTES // (store.size**2 * store.channels * 4), 4, 64))


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
