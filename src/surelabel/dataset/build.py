"""Build a catalog: find the images, attach the given labels, split them and decode the pixels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from surelabel.dataset.catalog import Catalog
from surelabel.dataset.decode import AUTO_DECODING, Decoding
from surelabel.dataset.duplicates import copied_labels
from surelabel.dataset.items import (
    LabelRow,
    Source,
    Vote,
    class_order,
    majority,
    merge_label_rows,
    merge_rows,
    one_spelling,
    string_array,
)
from surelabel.dataset.labels import Labels, attach_labels
from surelabel.dataset.pixels import read_catalog
from surelabel.dataset.sampling import record_draw
from surelabel.dataset.sources import Images, class_folders, find_images
from surelabel.dataset.splits import (
    LabeledItems,
    check_counts,
    divide,
    draw_certify,
    is_none_of_these,
    unanswered_certify,
)
from surelabel.errors import InputError, LabelsError
from surelabel.files.mapped_arrays import slices
from surelabel.types import (
    NONE_OF_THESE,
    NONE_TEXT,
    UNLABELED,
    Ids,
    LabelSource,
    OnProgress,
    Split,
    no_progress,
)

_SOURCES = np.array([str(LabelSource.GIVEN), str(LabelSource.COPIED), str(LabelSource.NONE)])


def build_catalog(
    images: Images | Source,
    labels: Labels | None = None,
    *,
    seed: int,
    tune_share: float = 0.2,
    certify_share: float = 0.0,
    merge_spellings: bool = False,
    decoding: Decoding = AUTO_DECODING,
    cache: Path,
    on_progress: OnProgress = no_progress,
) -> Catalog:
    """Find, label, split and decode ``images``; the pixels are in ``PixelStore(cache, ...)``.

    Without ``labels`` they are read from class folders, or from the table or file of the images.
    A ``certify_share`` above 0 means that the labels are a uniform random sample, and that this
    share of them is hidden to certify. With ``merge_spellings``, class names that differ only in
    case, spaces or hyphens are one class.
    """
    source, rows = labeled_source(
        find_images(images, cache), labels, seed=seed, certify_share=certify_share
    )
    rows = checked_rows(rows, merge_spellings=merge_spellings)
    catalog = read_catalog(source, cache, on_progress, decoding)
    _check_not_empty(catalog, source)
    return record_draw(label_catalog(catalog, rows, seed=seed, tune_share=tune_share))


def labeled_source(
    images: Images | Source, labels: Labels | None, *, seed: int, certify_share: float = 0.0
) -> tuple[Source, Mapping[str, LabelRow]]:
    """Images with their labels by key; ``certify_share`` of them get the split certify."""
    source = find_images(images)
    if labels is not None:
        source = attach_labels(source, labels)
    elif not source.label_rows:
        source = class_folders(source)
    rows = merge_label_rows(source.label_rows)
    return source, draw_certify(rows, seed=seed, share=certify_share) if certify_share else rows


def unlabeled_catalog(
    images: Images | Source,
    *,
    decoding: Decoding = AUTO_DECODING,
    cache: Path,
    on_progress: OnProgress = no_progress,
) -> Catalog:
    """``images`` without any label: no classes, all in the pool."""
    source = find_images(images, cache)
    catalog = read_catalog(source, cache, on_progress, decoding)
    _check_not_empty(catalog, source)
    return record_draw(catalog)


def catalog_like(
    catalog: Catalog, images: Images, *, cache: Path, on_progress: OnProgress = no_progress
) -> Catalog:
    """Other ``images``, to predict: decoded as those of ``catalog``, all in the pool."""
    read = read_catalog(find_images(images, cache), cache, on_progress, catalog.decoding)
    return replace(read, classes=catalog.classes)


def label_catalog(
    catalog: Catalog,
    rows: Mapping[str, LabelRow],
    *,
    seed: int,
    tune_share: float,
    overwrite: bool = False,
    random_sample: bool = True,
) -> Catalog:
    """``catalog`` with the human labels in ``rows`` (by path), their splits and copied labels.

    Images that had a label keep their split. The exception is cross-fitting that ends because
    there are enough labels for a tune split now: then the ``undivided`` images are divided. New
    classes are appended. A label is changed only with ``overwrite``. New labels that are no
    ``random_sample`` are trained on, unless their split is given.

    Certify labels add no class: one that no other label has counts as none of these.
    """
    rows = _with_known_votes(catalog, rows, overwrite=overwrite)
    hidden = set(catalog.paths[catalog.splits == Split.CERTIFY].tolist())
    hidden |= {key for key, row in rows.items() if row.split == Split.CERTIFY}
    names = class_order(
        row.label
        for key, row in rows.items()
        if row.label and key not in hidden and not is_none_of_these(row.label)
    )
    classes = catalog.classes + tuple(name for name in names if name not in catalog.classes)
    voted = _voted(catalog)
    columns = _LabelColumns(catalog, classes, unanswered_certify(rows))
    for position, row in _rows_by_position(catalog, rows):
        # People who contradict each other have been counted; nobody else is overruled.
        replaces = overwrite or (row.key in voted and any(v.annotator for v in row.all_votes))
        columns.update(position, row, overwrite=replaces, random_sample=random_sample)
    labeled = columns.to_catalog(seed=seed, tune_share=tune_share)
    return replace(labeled, votes=_votes(labeled, rows))


def _rows_by_position(
    catalog: Catalog, rows: Mapping[str, LabelRow]
) -> Iterator[tuple[int, LabelRow]]:
    """The rows about images of ``catalog``, in its order, with their positions."""
    for part in slices(len(catalog)):
        for position, path in enumerate(catalog.paths[part].tolist(), part.start):
            if path in rows:
                yield position, rows[path]


def add_given_labels(
    catalog: Catalog,
    labels: Mapping[str, str],
    *,
    seed: int,
    tune_share: float,
    split: str = "",
    drawn: Mapping[str, str] | None = None,
) -> Catalog:
    """``catalog`` with people's ``labels`` (by id) of a random sample of its images.

    They go to ``split``; without it they are divided into train and tune. ``drawn`` is the
    strategy, by id, of images that were not drawn at random.
    """
    ids = string_array(labels)
    paths = dict(zip(ids.tolist(), catalog.paths[catalog.rows(ids)].tolist(), strict=True))
    chosen = drawn or {}

    def row(item_id: str, label: str) -> LabelRow:
        path = paths[item_id]
        return LabelRow(path, f"'{path}'", label, split, drawn=chosen.get(item_id, ""))

    rows = {paths[item_id]: row(item_id, label) for item_id, label in labels.items()}
    return label_catalog(catalog, rows, seed=seed, tune_share=tune_share)


def _with_known_votes(
    catalog: Catalog, rows: Mapping[str, LabelRow], *, overwrite: bool
) -> Mapping[str, LabelRow]:
    """``rows`` with the labels that people gave to the same images before.

    With ``overwrite``, a person's new label replaces the old one of the same person.
    """
    known: dict[str, list[Vote]] = {}
    voted = string_array(dict.fromkeys(item_id for item_id, _, _ in catalog.votes))
    paths = dict(zip(voted.tolist(), catalog.paths[catalog.rows(voted)].tolist(), strict=True))
    for item_id, annotator, label in catalog.votes:
        known.setdefault(paths[item_id], []).append(Vote(annotator, label))
    merged = dict(rows)
    for key in known.keys() & rows.keys():
        again = {vote.annotator for vote in rows[key].all_votes}
        old = [v for v in known[key] if not (overwrite and v.annotator in again)]
        if again - {""} and old:
            before = LabelRow(key, "the run", majority(old), votes=tuple(old))
            merged[key] = merge_rows(before, rows[key])
    return merged


def _voted(catalog: Catalog) -> set[str]:
    """Paths of images whose label follows from the labels of named people."""
    ids = sorted({item_id for item_id, _, _ in catalog.votes})
    return set(catalog.paths[catalog.rows(string_array(ids))].tolist())


def _votes(catalog: Catalog, rows: Mapping[str, LabelRow]) -> tuple[tuple[str, str, str], ...]:
    """(id, annotator, label) of all labels by named people, old and new."""
    votes = {(item_id, who): label for item_id, who, label in catalog.votes}
    named = {k: r for k, r in rows.items() if any(vote.annotator for vote in r.all_votes)}
    for position, row in _rows_by_position(catalog, named) if named else ():
        for vote in row.all_votes:
            if vote.annotator:
                votes[str(catalog.ids[position]), vote.annotator] = vote.label
    return tuple((item_id, who, label) for (item_id, who), label in sorted(votes.items()))


class _LabelColumns:
    """The label columns of a catalog while given labels are merged into them."""

    def __init__(self, catalog: Catalog, classes: tuple[str, ...], unanswered: set[str]) -> None:
        self._catalog, self._classes = catalog, classes
        self._index = {name: k for k, name in enumerate(classes)}
        human = catalog.sources == LabelSource.GIVEN
        self._labels = np.where(human, catalog.labels, UNLABELED)
        undecided = ~human | np.isin(catalog.ids, catalog.undivided)
        undecided |= (catalog.labels == NONE_OF_THESE) & (catalog.splits == Split.POOL)
        self._splits = catalog.splits.astype("<U8")
        self._splits[undecided] = ""
        self._groups: dict[int, str] = {}
        """Those that rows give, by position."""
        self._where: dict[int, str] = {}
        """Where the label of a position was read."""
        unanswered_before = (catalog.splits == Split.CERTIFY) & ~human
        self._unanswered = unanswered_before | np.isin(catalog.paths, sorted(unanswered))
        self._tune_is_given = False
        self._is_random = np.ones(len(catalog), dtype=np.bool_)

    def update(self, position: int, row: LabelRow, *, overwrite: bool, random_sample: bool) -> None:
        """Merge one row, or raise a ``LabelsError`` that names what it contradicts."""
        group = str(self._catalog.groups[position])
        if row.group and group and row.group != group:
            raise LabelsError(
                f"{row.where}: '{row.key}' is in the group '{group}' and cannot change to "
                f"'{row.group}'."
            )
        if row.group:
            self._groups[position] = row.group
        if not row.label:
            return
        self._where[position] = row.where
        old, new = int(self._labels[position]), self._index.get(row.label, NONE_OF_THESE)
        if old not in (UNLABELED, new) and not overwrite:
            known = NONE_TEXT if old == NONE_OF_THESE else self._classes[old]
            raise LabelsError(
                f"{row.where}: '{row.key}' has the label '{row.label}' here and already "
                f"'{known}'. Correct one of them, or overwrite the old label."
            )
        sampled = random_sample and not row.is_chosen
        self._is_random[position] = sampled or old not in (UNLABELED, NONE_OF_THESE)
        self._labels[position] = new
        self._set_split(position, row)

    def _set_split(self, position: int, row: LabelRow) -> None:
        settled = str(self._splits[position])
        if row.split and settled and settled != row.split:
            raise LabelsError(
                f"{row.where}: '{row.key}' is in the split {settled} and cannot change to "
                f"{row.split}: an image keeps its split, so that held-out labels stay held out."
            )
        self._splits[position] = row.split or settled
        if row.split == Split.TUNE and not settled:
            self._tune_is_given = True

    def to_catalog(self, *, seed: int, tune_share: float) -> Catalog:
        """The catalog with every split decided and labels copied to identical images."""
        digests, labels = self._catalog.digests, self._labels
        human, known = labels != UNLABELED, labels >= 0
        groups, splits, is_random = self._all_groups(), self._splits, self._is_random
        places = [(i, f"'{self._catalog.paths[i]}'") for i in np.flatnonzero(known).tolist()]
        items = LabeledItems(
            ids=self._catalog.ids[known],
            labels=labels[known],
            splits=splits[known],
            groups=groups[known],
            digests=digests[known],
            is_random=is_random[known],
            where=string_array(self._where.get(i, path) for i, path in places),
        )
        divided, cross_fit = divide(
            items, seed=seed, tune_share=tune_share, keep_tune=self._tune_is_given
        )
        check_counts(items.labels, divided, self._classes)
        certify_none = (splits == Split.CERTIFY) & (labels == NONE_OF_THESE)
        undivided = known & (splits == "") & is_random
        splits[:] = str(Split.POOL)
        splits[known] = divided
        undivided &= splits == Split.TRAIN
        copies = copied_labels(digests, labels, known & (splits != Split.CERTIFY))
        copies[human] = UNLABELED
        copied = copies != UNLABELED
        splits[certify_none | (self._unanswered & ~human & ~copied)] = str(Split.CERTIFY)
        return replace(
            self._catalog,
            labels=np.where(copied, copies, labels),
            sources=_SOURCES[np.select([human, copied], [0, 1], default=2)],
            splits=splits,
            groups=groups,
            classes=self._classes,
            cross_fit=cross_fit,
            undivided=tuple(self._catalog.ids[undivided].tolist()) if cross_fit else (),
        )

    def _all_groups(self) -> Ids:
        """(N,) the groups of the catalog with those that rows give."""
        if not self._groups:
            return self._catalog.groups
        longest = max(map(len, self._groups.values()))
        groups: Ids = self._catalog.groups.astype(
            f"<U{max(longest, self._catalog.groups.dtype.itemsize // 4)}"
        )
        for position, group in self._groups.items():
            groups[position] = group
        return groups


def checked_rows(rows: Mapping[str, LabelRow], *, merge_spellings: bool) -> Mapping[str, LabelRow]:
    """``rows`` as they count; too few are refused before images are decoded."""
    rows = one_spelling(rows) if merge_spellings else rows
    used = [row for row in rows.values() if row.label and not is_none_of_these(row.label)]
    if not used:
        return rows  # perhaps there is no image either, and that is told first
    classes = class_order(row.label for row in used if row.split != Split.CERTIFY)
    number = {name: k for k, name in enumerate(classes)}
    known = [row for row in used if row.label in number]
    labels = np.array([number[row.label] for row in known], dtype=np.int64)
    splits = string_array([row.split or str(Split.TRAIN) for row in known])
    check_counts(labels, splits, tuple(classes))
    return rows


def _check_not_empty(catalog: Catalog, source: Source) -> None:
    if len(catalog):
        return
    reason = "it is empty"
    if catalog.skipped:
        first = catalog.skipped[0]
        reason = f"{len(catalog.skipped)} were skipped, the first, {first.path}, because "
        reason += first.reason
        if first.unread:
            reason += ". When that is mended, call the same again: what was read is kept"
    raise InputError(f"{source.name} has no image that can be read: {reason}.")
