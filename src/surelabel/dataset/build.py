"""The first catalog of a run, from images and what people said about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.duplicates import copied_labels
from surelabel.dataset.items import (
    Mark,
    Skipped,
    Source,
    class_order,
    item_ids,
    merge_marks,
    strings,
)
from surelabel.dataset.labels import Labels, attach_labels
from surelabel.dataset.pixels import measure, store_images
from surelabel.dataset.sampling import note_draw
from surelabel.dataset.sources import Images, class_folders, find_images
from surelabel.dataset.splits import (
    Labeled,
    check_counts,
    divide,
    draw_certify,
    is_none,
    unanswered,
)
from surelabel.errors import InputError, LabelsError
from surelabel.types import NONE_OF_THESE, UNLABELED, LabelSource, OnProgress, Split, no_progress


def label_catalog(
    catalog: Catalog,
    marks: Mapping[str, Mark],
    *,
    seed: int,
    tune_share: float,
    overwrite: bool = False,
    chosen: bool = False,
) -> Catalog:
    """``catalog`` with the human labels in ``marks`` (by path) added and what follows from them.

    Images that had a label keep their split, unless cross-fitting stood in for a tune split and
    there are enough labels for one now: then those that are ``undivided`` are divided. New classes
    go to the end. Only with ``overwrite`` may a mark change a label. ``chosen`` says that the new
    labels are no random sample: they are trained on, unless a split is given.

    Certify labels bring no class: one that has no other label counts as none of these.
    """
    hidden = set(catalog.paths[catalog.splits == Split.CERTIFY].tolist())
    hidden |= {key for key, mark in marks.items() if mark.split == Split.CERTIFY}
    named = class_order(
        mark.label
        for key, mark in marks.items()
        if mark.label and key not in hidden and not is_none(mark.label)
    )
    classes = catalog.classes + tuple(name for name in named if name not in catalog.classes)
    book = _LabelBook(catalog, classes, unanswered(marks))
    for row, path in enumerate(catalog.paths.tolist()):
        if path in marks:
            book.apply(row, marks[path], overwrite=overwrite, chosen=chosen)
    return book.finish(seed=seed, tune_share=tune_share)


def given_labels(
    catalog: Catalog, labels: Mapping[str, str], *, seed: int, tune_share: float, split: str = ""
) -> Catalog:
    """``catalog`` with people's ``labels`` (by id) of a random sample of its images.

    ``split`` says what they are for; without it they are divided into train and tune.
    """
    paths = dict(zip(catalog.ids.tolist(), catalog.paths.tolist(), strict=True))
    marks = {
        paths[item_id]: Mark(paths[item_id], f"'{paths[item_id]}'", label, split)
        for item_id, label in labels.items()
    }
    return label_catalog(catalog, marks, seed=seed, tune_share=tune_share)


class _LabelBook:
    """The columns of a catalog while marks are written into them."""

    def __init__(self, catalog: Catalog, classes: tuple[str, ...], passed_over: set[str]) -> None:
        self._catalog, self._classes = catalog, classes
        self._number = {name: k for k, name in enumerate(classes)}
        human = catalog.sources == LabelSource.GIVEN
        self._labels = np.where(human, catalog.labels, UNLABELED).tolist()
        undecided = ~human | np.isin(catalog.ids, catalog.undivided)
        undecided |= (catalog.labels == NONE_OF_THESE) & (catalog.splits == Split.POOL)
        self._splits = np.where(undecided, "", catalog.splits).tolist()
        self._groups = catalog.groups.tolist()
        self._places = [f"'{path}'" for path in catalog.paths.tolist()]
        skipped_before = (catalog.splits == Split.CERTIFY) & ~human
        self._passed_over = skipped_before | np.isin(catalog.paths, sorted(passed_over))
        self._tune_is_given = False
        self._chosen = [False] * len(self._labels)

    def apply(self, row: int, mark: Mark, *, overwrite: bool, chosen: bool) -> None:
        """Write one mark into its row, or say what it contradicts."""
        before = self._groups[row]
        if mark.group and before and mark.group != before:
            raise LabelsError(
                f"{mark.where}: '{mark.key}' is in the group '{before}' and cannot change to "
                f"'{mark.group}'."
            )
        self._groups[row] = mark.group or before
        if not mark.label:
            return
        self._places[row] = mark.where
        label, new = self._labels[row], self._number.get(mark.label, NONE_OF_THESE)
        if label not in (UNLABELED, new) and not overwrite:
            before = "none of these" if label == NONE_OF_THESE else self._classes[label]
            raise LabelsError(
                f"{mark.where}: '{mark.key}' has the label '{mark.label}' here and already "
                f"'{before}'. Correct the one, or overwrite the other."
            )
        self._chosen[row] = chosen and label in (UNLABELED, NONE_OF_THESE)
        self._labels[row] = new
        self._settle(row, mark)

    def _settle(self, row: int, mark: Mark) -> None:
        settled = self._splits[row]
        if mark.split and settled and settled != mark.split:
            raise LabelsError(
                f"{mark.where}: '{mark.key}' is in the split {settled} and cannot change to "
                f"{mark.split}: an image keeps its split, so that nothing learned leaks."
            )
        self._splits[row] = mark.split or settled
        if mark.split == Split.TUNE and not settled:
            self._tune_is_given = True

    def finish(self, *, seed: int, tune_share: float) -> Catalog:
        """The catalog with splits decided and copies found."""
        labels = np.array(self._labels, dtype=np.int64)
        human, known = labels != UNLABELED, labels >= 0
        groups, splits = strings(self._groups), np.array(self._splits, dtype="<U8")
        items = Labeled(
            ids=self._catalog.ids[known],
            labels=labels[known],
            splits=splits[known],
            groups=groups[known],
            digests=self._catalog.digests[known],
            chosen=np.array(self._chosen, dtype=bool)[known],
            places=strings(self._places)[known],
        )
        divided, cross_fit = divide(
            items, seed=seed, tune_share=tune_share, keep_tune=self._tune_is_given
        )
        check_counts(items.labels, divided, self._classes)
        hidden = (splits == Split.CERTIFY) & (labels == NONE_OF_THESE)
        free = known & (splits == "") & ~np.array(self._chosen, dtype=bool)
        splits[:] = str(Split.POOL)
        splits[known] = divided
        free &= splits == Split.TRAIN
        copies = copied_labels(self._catalog.digests, labels, known & (splits != Split.CERTIFY))
        copies[human] = UNLABELED
        copied = copies != UNLABELED
        splits[hidden | (self._passed_over & ~human & ~copied)] = str(Split.CERTIFY)
        return replace(
            self._catalog,
            labels=np.where(copied, copies, labels),
            sources=np.select(
                [human, copied],
                [np.full(len(human), str(LabelSource.GIVEN)), str(LabelSource.COPIED)],
                default="",
            ),
            splits=splits,
            groups=groups,
            classes=self._classes,
            cross_fit=cross_fit,
            undivided=tuple(self._catalog.ids[free].tolist()) if cross_fit else (),
        )


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


def unlabeled_catalog(
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
        labels=np.full(n, UNLABELED, dtype=np.int64),
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
