"""Add images, labels or classes to a catalog that exists."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from surelabel.dataset.build import label_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.items import Source, merge_label_rows
from surelabel.dataset.labels import Labels, attach_labels
from surelabel.dataset.locations import Location
from surelabel.dataset.pixels import read_catalog
from surelabel.dataset.sources import Images, array_source, class_folders, find_images
from surelabel.errors import InputError
from surelabel.types import LabelSource, OnProgress, no_progress

_IN_MEMORY = "array"
"""How keys of images that came as an array begin."""


@dataclass(frozen=True)
class Added:
    """What was added to a catalog, as counts and names."""

    images: int
    labels: int
    """Images that had no human label before."""
    changed: int
    """Human labels that were overwritten by others."""
    classes: tuple[str, ...]
    """New classes, which follow the old ones."""
    voids_audit: bool = False
    """Whether labels that people had checked in an audit changed, so that it no longer counts."""


def extend_catalog(
    catalog: Catalog,
    images: Images | Source | None = None,
    labels: Labels | None = None,
    *,
    seed: int,
    tune_share: float = 0.2,
    cache: Path,
    overwrite: bool = False,
    random_sample: bool = True,
    on_progress: OnProgress = no_progress,
) -> tuple[Catalog, Added]:
    """``catalog`` with more in it; ids, splits, class numbers and image size stay as they are.

    Images that are known already change nothing. An array in memory is always new; its rows are
    numbered on from the last one. Class folders count if ``unlabeled`` is beside them or if all
    are known classes. New labels that are no ``random_sample`` are trained on, not tuned on.
    """
    source = Source("the images to add", _root(catalog), (), ())
    if images is not None:
        source = _recognize(catalog, _find(catalog, images, cache))
        if labels is None and not source.label_rows:
            source = class_folders(source, catalog.classes)
    if labels is not None:
        source = _attach(catalog, source, labels)
    merged = catalog
    if source.keys:
        read = read_catalog(source, cache, on_progress, catalog.decoding)
        merged = _append(catalog, read)
        source = _without_unread(catalog, source, read)
    grown = label_catalog(
        merged,
        merge_label_rows(source.label_rows),
        seed=seed,
        tune_share=tune_share,
        overwrite=overwrite,
        random_sample=random_sample,
    )
    return grown, _count(merged, grown, len(merged) - len(catalog))


def _find(catalog: Catalog, images: Images | Source, cache: Path) -> Source:
    if not isinstance(images, np.ndarray):
        return find_images(images, cache)
    used = [p.split(":")[1] for p in catalog.paths.tolist() if p.startswith(f"{_IN_MEMORY}:")]
    first = max((int(number) for number in used if number.isdigit()), default=-1) + 1
    return array_source(images, _IN_MEMORY, "the array of images", first)


def _root(catalog: Catalog) -> Path | None:
    """The folder that the paths of ``catalog`` are relative to; None if no file shows it."""
    for path, file in zip(catalog.paths.tolist(), catalog.files.tolist(), strict=True):
        if file.endswith(f"/{path}") and Location.parse(file).is_plain:
            return Path(file[: -len(path)])
    return None


def _recognize(catalog: Catalog, source: Source) -> Source:
    """``source`` with the keys that ``catalog`` uses for the same files, also through links."""
    pairs = list(zip(catalog.files.tolist(), catalog.paths.tolist(), strict=True))
    known = {file: path for file, path in pairs if file}
    listed = list(zip(source.keys, source.files, strict=True))
    renamed = {key: known[file] for key, file in listed if file in known}
    linked = {_real(file): path for file, path in pairs if file}
    taken = {renamed.get(key, key) for key in source.keys}
    for key, file in listed:
        path = linked.get(_real(file))
        if key not in renamed and path is not None and path not in taken:
            renamed[key] = path
            taken.add(path)
    return replace(
        source,
        keys=tuple(renamed.get(key, key) for key in source.keys),
        label_rows=tuple(replace(r, key=renamed.get(r.key, r.key)) for r in source.label_rows),
    )


def _real(file: str) -> str:
    folder, name = os.path.split(file)
    return f"{_real_folder(folder)}/{name}"


@lru_cache(maxsize=1000)
def _real_folder(folder: str) -> str:
    return os.path.realpath(folder)


def _without_unread(catalog: Catalog, source: Source, read: Catalog) -> Source:
    """``source`` without rows on new images that cannot be read: old images may have their keys."""
    known = {_real(file) for file in catalog.files.tolist() if file}
    pairs = zip(source.keys, source.files, strict=False)
    new = {key for key, file in pairs if file and _real(file) not in known}
    lost = new - set(read.paths.tolist())
    kept = tuple(row for row in source.label_rows if row.key not in lost)
    return replace(source, label_rows=kept)


def _attach(catalog: Catalog, source: Source, labels: Labels) -> Source:
    """``source`` with ``labels``, which may be labels of images in ``catalog`` too."""
    if source.array is not None:
        return attach_labels(source, labels)
    present = set(source.keys)
    old = [
        (path, file)
        for path, file in zip(catalog.paths.tolist(), catalog.files.tolist(), strict=True)
        if path not in present
    ]
    both = replace(
        source,
        keys=(*(path for path, _ in old), *source.keys),
        files=(*(file for _, file in old), *source.files),
    )
    labeled = attach_labels(both, labels)
    return replace(labeled, keys=labeled.keys[len(old) :], files=labeled.files[len(old) :])


def _append(catalog: Catalog, read: Catalog) -> Catalog:
    """``catalog`` with the new rows of ``read``; an ``InputError`` if a known image has changed."""
    known = np.isin(read.ids, catalog.ids)
    rows = catalog.rows(read.ids[known])
    changed = np.flatnonzero(catalog.digests[rows] != read.digests[known])
    if len(changed):
        path = catalog.paths[rows[changed[0]]]
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        raise InputError(
            f"'{path}'{more} is in the run already, with other content. Give a new image a new "
            "name, or put the new images in a folder of their own and add the folder above it."
        )
    new = ~known
    return replace(
        catalog,
        ids=np.concatenate([catalog.ids, read.ids[new]]),
        paths=np.concatenate([catalog.paths, read.paths[new]]),
        labels=np.concatenate([catalog.labels, read.labels[new]]),
        sources=np.concatenate([catalog.sources, read.sources[new]]),
        splits=np.concatenate([catalog.splits, read.splits[new]]),
        groups=np.concatenate([catalog.groups, read.groups[new]]),
        digests=np.concatenate([catalog.digests, read.digests[new]]),
        files=np.concatenate([catalog.files, read.files[new]]),
        skipped=tuple(dict.fromkeys(catalog.skipped + read.skipped)),
    )


def _count(before: Catalog, after: Catalog, n_images: int) -> Added:
    was, now = before.sources == LabelSource.GIVEN, after.sources == LabelSource.GIVEN
    return Added(
        images=n_images,
        labels=int((now & ~was).sum()),
        changed=int((was & (before.labels != after.labels)).sum()),
        classes=after.classes[len(before.classes) :],
    )
