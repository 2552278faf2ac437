"""The first catalog of a run, from images and labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from surelabel.catalog.certify import draw_certify
from surelabel.catalog.drawn import note_draw
from surelabel.catalog.ids import item_ids, strings
from surelabel.catalog.items import Catalog, Skipped
from surelabel.catalog.labelling import Labels, attach_labels
from surelabel.catalog.marks import merge_marks
from surelabel.catalog.pixels import PixelStore
from surelabel.catalog.reading import measure, store_images
from surelabel.catalog.relabel import label_catalog
from surelabel.catalog.source import Source
from surelabel.catalog.sources import Images, class_folders, find_images
from surelabel.errors import InputError
from surelabel.types import UNLABELLED, OnProgress, Split, no_progress


def build_catalog(
    images: Images,
    labels: Labels | None = None,
    *,
    seed: int,
    tune_share: float = 0.2,
    certify_share: float = 0.0,
    image_size: int = 0,
    channels: int = 0,
    resize: str = "",
    cache: Path,
    on_progress: OnProgress = no_progress,
) -> Catalog:
    """Find, label, split and decode ``images``; the pixels are in ``PixelStore(cache, ...)``.

    Without ``labels`` they are read from class folders, or from the table or file of the images.
    ``image_size`` and ``channels`` 0 are chosen from the images; ``resize`` is as in ``decode``.
    ``certify_share`` above 0 says that the labels are a uniform random sample, of which so large
    a part is hidden to certify.
    """
    source = find_images(images)
    if labels is not None:
        source = attach_labels(source, labels)
    elif not source.marks:
        source = class_folders(source)
    marks = merge_marks(source.marks)
    if certify_share:
        marks = draw_certify(marks, seed=seed, share=certify_share)
    catalog = read_catalog(
        source, cache, on_progress, size=image_size, channels=channels, resize=resize
    )
    if not len(catalog):
        raise InputError(f"{source.name} has no image that can be read: {_first(catalog)}.")
    return note_draw(label_catalog(catalog, marks, seed=seed, tune_share=tune_share))


def typical_side(images: Images, *, cache: Path, on_progress: OnProgress = no_progress) -> int:
    """Median of the shorter sides of ``images`` in pixels; 0 where none can be read.

    What is found out about the files is remembered, so reading them afterwards is not slower.
    """
    source = find_images(images)
    if source.array is not None:
        return int(min(source.array.shape[1:3]))
    return measure(source, cache, on_progress).typical_side


def unlabelled_catalog(
    images: Images,
    *,
    image_size: int = 0,
    channels: int = 0,
    resize: str = "",
    cache: Path,
    on_progress: OnProgress = no_progress,
) -> Catalog:
    """``images`` before anybody has said anything about them: no classes, all in the pool."""
    source = find_images(images)
    catalog = read_catalog(
        source, cache, on_progress, size=image_size, channels=channels, resize=resize
    )
    if not len(catalog):
        raise InputError(f"{source.name} has no image that can be read: {_first(catalog)}.")
    return note_draw(catalog)


def catalog_like(
    catalog: Catalog, images: Images, *, cache: Path, on_progress: OnProgress = no_progress
) -> Catalog:
    """Other ``images`` read as those of ``catalog`` were, all in the pool: something to predict."""
    read = read_catalog(
        find_images(images),
        cache,
        on_progress,
        size=catalog.size,
        channels=catalog.channels,
        resize=catalog.resize,
    )
    return replace(read, classes=catalog.classes)


def read_catalog(
    source: Source,
    cache: Path,
    on_progress: OnProgress,
    *,
    size: int = 0,
    channels: int = 0,
    resize: str = "",
) -> Catalog:
    """The images of ``source`` that can be read, decoded and without labels."""
    measured = measure(source, cache, on_progress)
    store = PixelStore(cache, size or measured.size, channels or measured.channels, resize)
    problems = store_images(store, source, measured, on_progress)
    skipped = list(source.skipped + measured.skipped)
    usable = []
    for row, digest in zip(measured.rows, measured.digests.tolist(), strict=True):
        if digest in problems:
            skipped.append(Skipped(source.keys[row], problems[digest]))
        else:
            usable.append((row, digest))
    keys = [source.keys[row] for row, _ in usable]
    n = len(usable)
    nothing = np.zeros(n, dtype="<U8")
    return Catalog(
        ids=item_ids(keys),
        paths=strings(keys),
        labels=np.full(n, UNLABELLED, dtype=np.int64),
        sources=nothing,
        splits=np.full(n, str(Split.POOL), dtype="<U8"),
        groups=nothing,
        digests=strings(digest for _, digest in usable),
        files=strings(source.files[row] for row, _ in usable),
        classes=(),
        size=store.size,
        channels=store.channels,
        cross_fit=False,
        skipped=tuple(skipped),
        resize=resize,
    )


def _first(catalog: Catalog) -> str:
    if not catalog.skipped:
        return "it is empty"
    first = catalog.skipped[0]
    return f"{len(catalog.skipped)} were skipped, the first, {first.path}, because {first.reason}"
