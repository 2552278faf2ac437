"""Seeded train, tune and certify splits that never divide a group or identical images."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from surelabel.dataset.duplicates import contradictory, copied_labels
from surelabel.dataset.items import LabelRow
from surelabel.errors import LabelsError, TooFewLabelsError
from surelabel.files.mapped_arrays import take
from surelabel.types import NONE_TEXT, UNLABELED, BoolArray, Ids, IntArray, Split, derive_seed

if TYPE_CHECKING:
    from surelabel.dataset.catalog import Catalog

MIN_TUNE = 40
"""A smaller tune split is too small to set thresholds with."""
MIN_PER_CLASS = 2
"""Labels per class that a run needs on average. A rare class may have a single one."""
_MAX_SHOWN = 5
"""How many rare classes are named in a message."""


@dataclass(frozen=True)
class LabeledItems:
    """The L human-labeled images, with what decides their split."""

    ids: Ids
    labels: IntArray
    splits: Ids
    """(L,) the split that is settled already, or empty."""
    groups: Ids
    digests: Ids
    is_random: BoolArray
    """(L,) part of a random sample. Others, such as hard images that were reviewed, are never
    drawn for tune."""
    where: Ids
    """(L,) file and line of the label, for messages."""


def divide(
    items: LabeledItems, *, seed: int, tune_share: float, keep_tune: bool
) -> tuple[Ids, bool]:
    """(L,) a split for each item, and whether cross-fitting takes the place of ``tune``.

    Settled splits are kept, and spread to the rest of their group and to identical images. With
    ``keep_tune`` the tune split stays as settled. Otherwise about ``tune_share`` of each class is
    moved to it, or nothing if that would be too few labels to set thresholds with. The result
    does not depend on the order of the items.
    """
    splits = _spread(items)
    if keep_tune:
        return np.where(splits == "", str(Split.TRAIN), splits), False
    settled = bool((splits == Split.TUNE).any())
    moved = draw_tune(items, splits, seed=seed, tune_share=tune_share)
    divided = np.where(splits == "", str(Split.TRAIN), splits)
    divided[moved] = str(Split.TUNE)
    if settled or int((divided == Split.TUNE).sum()) >= MIN_TUNE:
        return divided, False
    divided[moved] = str(Split.TRAIN)
    return divided, True


def check_counts(labels: IntArray, splits: Ids, classes: tuple[str, ...]) -> None:
    """Raise ``TooFewLabelsError`` for fewer than two classes, or two labels per class on average.

    Certify labels do not count, because nothing is trained on them.
    """
    help_text = (
        "Label some more images, in the column label of your table; `surelabel draw` picks images "
        "at random and writes such a table."
    )
    if len(classes) < 2:
        named = f"labels of only the class '{classes[0]}'" if classes else "no labels yet"
        n_certify = int((splits == Split.CERTIFY).sum())
        beside = f" beside {n_certify} certify labels, not trained on" if n_certify else ""
        raise TooFewLabelsError(
            f"There are {named}{beside}, and at least two classes are needed. {help_text}"
        )
    usable = splits != Split.CERTIFY
    counts = np.bincount(labels[usable], minlength=len(classes))
    rare = [f"'{classes[k]}' has {counts[k]}" for k in np.flatnonzero(counts < MIN_PER_CLASS)]
    if counts.sum() < MIN_PER_CLASS * len(classes) or (counts == 0).any():
        more = f" and {len(rare) - _MAX_SHOWN} more classes" if len(rare) > _MAX_SHOWN else ""
        named = ", ".join(rare[:_MAX_SHOWN]) + more
        raise TooFewLabelsError(
            f"{counts.sum():,} labels are too few for {len(classes):,} classes, which need "
            f"{MIN_PER_CLASS} each on average and at least one: {named}. {help_text}"
        )
    trained = np.bincount(labels[splits == Split.TRAIN], minlength=len(classes))
    if (trained == 0).any():
        name = classes[int(trained.argmin())]
        raise TooFewLabelsError(
            f"Every label of the class '{name}' is in the tune split, and none is left to train "
            "on. Give some of them the split train."
        )


def connected_components(*keys: Ids) -> IntArray:
    """(L,) a number for each item; items that share a non-empty key share the number."""
    connecting = [column for column in keys if (column != "").any()]
    if len(connecting) == 1 and (connecting[0] != "").all():
        # The number of each is the place of the first one with its key.
        _, places, which = np.unique(
            connecting[0].astype(np.bytes_) if _is_ascii(connecting[0]) else connecting[0],
            return_index=True,
            return_inverse=True,
        )
        return places[which].astype(np.int64)
    parent = list(range(len(keys[0])))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for column in keys:
        first: dict[str, int] = {}
        for i, key in enumerate(column.tolist()):
            if key:
                parent[root(i)] = root(first.setdefault(key, i))
    return np.array([root(i) for i in range(len(parent))], dtype=np.int64)


def _is_ascii(texts: Ids) -> bool:
    return bool((np.ascontiguousarray(texts).view(np.uint32) < 128).all())


def _spread(items: LabeledItems) -> Ids:
    """(L,) settled splits, extended to groups and to identical images; empty where free.

    Identical images that people labeled differently are trained on, never tuned on. Certify images
    do not spread their split to identical images.
    """
    splits = _spread_groups(items)
    reserved = splits == Split.CERTIFY
    digests = np.where(reserved, "", items.digests)
    unit = connected_components(np.where(reserved, "", items.groups), digests)
    trained = unit[(splits == Split.TRAIN) | contradictory(digests, items.labels)]
    tuned = unit[splits == Split.TUNE]
    return np.select(
        [splits != "", np.isin(unit, trained), np.isin(unit, tuned)],
        [splits, np.full_like(splits, Split.TRAIN), np.full_like(splits, Split.TUNE)],
        default=np.full_like(splits, ""),
    )


def _spread_groups(items: LabeledItems) -> Ids:
    groups, splits = items.groups.tolist(), items.splits.tolist()
    settled: dict[str, tuple[str, str]] = {}
    for group, split, where in zip(groups, splits, items.where.tolist(), strict=True):
        if not group or not split:
            continue
        before, first = settled.setdefault(group, (split, where))
        if before != split:
            raise LabelsError(
                f"{where}: the group '{group}' is in the split {split} here and in {before} in "
                f"{first}, and a group is never divided. Give all its images the same split."
            )
    unsettled = ("", "")
    spread = [s or settled.get(g, unsettled)[0] for g, s in zip(groups, splits, strict=True)]
    return np.array(spread, dtype="<U8")


def draw_tune(items: LabeledItems, splits: Ids, *, seed: int, tune_share: float) -> IntArray:
    """Positions of free items to move to ``tune``, drawn as whole units in random order.

    A unit is moved if that brings the counts per class nearer to ``tune_share`` and leaves every
    class something to train on.
    """
    usable = items.labels[splits != Split.CERTIFY]
    n_classes = int(items.labels.max(initial=-1)) + 1
    total = np.bincount(usable, minlength=n_classes)
    tuned = np.bincount(items.labels[splits == Split.TUNE], minlength=n_classes)
    missing = np.minimum(np.floor(total * tune_share + 0.5), total - 1) - tuned
    spare = total - tuned - 1
    moved: list[int] = []
    for unit in _units(items, splits, seed):
        kinds, counts = np.unique(items.labels[unit], return_counts=True)
        want = missing[kinds]
        helps = (np.abs(want - counts) - np.abs(want)).sum() < 0
        if helps and items.is_random[unit].all() and (counts <= spare[kinds]).all():
            moved.extend(unit)
            missing[kinds] -= counts
            spare[kinds] -= counts
    return np.array(moved, dtype=np.int64)


def _units(items: LabeledItems, splits: Ids, seed: int) -> list[list[int]]:
    """Groups of free items that must stay together, in an order set by seed and ids only."""
    free = np.flatnonzero(splits == "")
    free = free[np.argsort(items.ids[free])]
    units: dict[int, list[int]] = {}
    unit = connected_components(items.groups[free], items.digests[free])
    for position, number in zip(free.tolist(), unit.tolist(), strict=True):
        units.setdefault(number, []).append(position)
    members = list(units.values())
    order = np.random.default_rng(derive_seed(seed, "split")).permutation(len(members))
    return [members[i] for i in order]


def is_none_of_these(label: str) -> bool:
    """Whether ``label`` states that the image belongs to none of the classes."""
    return label.strip().casefold() == NONE_TEXT


def draw_certify(rows: Mapping[str, LabelRow], *, seed: int, share: float) -> dict[str, LabelRow]:
    """``rows`` with a random ``share`` of the labeled units moved to ``certify``.

    This is for labels that the user declares to be a uniform random sample; images that ``draw``
    chose by another strategy stay out of it. The draw does not depend on the labels and takes
    whole groups. A certify split that is given stays as it is.
    """
    if any(row.split == Split.CERTIFY for row in rows.values()):
        return dict(rows)
    free = sorted(k for k, row in rows.items() if row.label and not row.split and not row.is_chosen)
    units: dict[str, list[str]] = {}
    for key in free:
        group = rows[key].group
        units.setdefault(f"group {group}" if group else f"image {key}", []).append(key)
    members = list(units.values())
    order = np.random.default_rng(derive_seed(seed, "certify")).permutation(len(members))
    chosen = {key for i in order[: round(share * len(members))] for key in members[i]}
    certify = str(Split.CERTIFY)
    return {k: replace(row, split=certify) if k in chosen else row for k, row in rows.items()}


def unanswered_certify(rows: Mapping[str, LabelRow]) -> set[str]:
    """Keys of certify images without a label although a later row has one.

    Rows are in the order of a random draw, so the labels are a random sample even if the person
    stopped early. But an image that was skipped on the way was skipped for a reason, and counts
    as wrong.
    """
    keys = list(rows)
    last = max((i for i, key in enumerate(keys) if rows[key].label), default=-1)
    return {k for k in keys[:last] if rows[k].split == Split.CERTIFY and not rows[k].label}


def certify_population(catalog: Catalog, pool_ids: Ids) -> tuple[Ids, Ids]:
    """The part of the pool that the certify images are a random sample of, and those images.

    Copies of train and tune images belong to neither: their label is known. Groups with train or
    tune images could not be drawn to certify, so their images do not belong to the population.
    """
    rows = catalog.rows(pool_ids)
    learned = (catalog.labels >= 0) & np.isin(catalog.splits, [Split.TRAIN, Split.TUNE])
    copies = copied_labels(catalog.digests, catalog.labels, learned)[rows] != UNLABELED
    groups = catalog.groups[rows]
    in_learned_group = (groups != "") & np.isin(groups, catalog.groups[learned])
    covered = ~copies & ~in_learned_group
    certify = covered & (catalog.splits[rows] == Split.CERTIFY)
    return take(pool_ids, covered), pool_ids[certify]
