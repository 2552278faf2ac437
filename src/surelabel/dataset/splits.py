"""Who is trained on, who is held out, who certifies: seeded splits that divide no group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from surelabel.dataset.duplicates import copied_labels, torn
from surelabel.dataset.items import Mark
from surelabel.errors import LabelsError, TooFewLabelsError
from surelabel.types import NONE_TEXT, UNLABELED, BoolArray, Ids, IntArray, Split, derive_seed

if TYPE_CHECKING:
    from surelabel.dataset.catalog import Catalog

#: A tune split smaller than this says too little about thresholds.
MIN_TUNE = 40
MIN_PER_CLASS = 2


@dataclass(frozen=True)
class Labeled:
    """The L human-labeled images, as far as a split needs to know them."""

    ids: Ids
    labels: IntArray
    splits: Ids
    """(L,) the split that is settled already, or empty."""
    groups: Ids
    digests: Ids
    chosen: BoolArray
    """(L,) picked because they were hard, say: no random sample, so never drawn for tune."""
    places: Ids
    """(L,) where a person gave the label, for messages."""


def divide(items: Labeled, *, seed: int, tune_share: float, keep_tune: bool) -> tuple[Ids, bool]:
    """(L,) a split for each item, and whether cross-fitting takes the place of ``tune``.

    Settled splits are obeyed, and spread to the rest of their group and to identical images.
    With ``keep_tune`` the tune split is as settled; otherwise about ``tune_share`` of each class
    is moved to it, and when that is too little to set thresholds by, nothing is. The result does
    not depend on the order of the items.
    """
    splits = _spread(items)
    if keep_tune:
        return np.where(splits == "", str(Split.TRAIN), splits), False
    settled = bool((splits == Split.TUNE).any())
    moved = _draw(items, splits, seed=seed, tune_share=tune_share)
    divided = np.where(splits == "", str(Split.TRAIN), splits)
    divided[moved] = str(Split.TUNE)
    if settled or int((divided == Split.TUNE).sum()) >= MIN_TUNE:
        return divided, False
    divided[moved] = str(Split.TRAIN)
    return divided, True


def check_counts(labels: IntArray, splits: Ids, classes: tuple[str, ...]) -> None:
    """Refuse to learn from fewer than two classes, or two labels of a class.

    Labels in ``certify`` do not count: nothing may be learned from them.
    """
    help_text = (
        "Label some more images; `surelabel draw` picks images at random and writes the table "
        "to fill in."
    )
    if len(classes) < 2:
        named = f"only the class '{classes[0]}'" if classes else "no labels"
        n_certify = int((splits == Split.CERTIFY).sum())
        beside = f" beside {n_certify} certify labels, which teach nothing" if n_certify else ""
        raise TooFewLabelsError(
            f"There are {named}{beside}, and two classes are needed. {help_text}"
        )
    usable = splits != Split.CERTIFY
    counts = np.bincount(labels[usable], minlength=len(classes))
    rare = [f"'{classes[k]}' has {counts[k]}" for k in np.flatnonzero(counts < MIN_PER_CLASS)]
    if rare:
        more = f" and {len(rare) - 5} more classes" if len(rare) > 5 else ""
        raise TooFewLabelsError(
            f"Each class needs {MIN_PER_CLASS} labels to train and tune on, and "
            f"{', '.join(rare[:5])}{more}. {help_text}"
        )
    trained = np.bincount(labels[splits == Split.TRAIN], minlength=len(classes))
    if (trained == 0).any():
        name = classes[int(trained.argmin())]
        raise TooFewLabelsError(
            f"Every label of the class '{name}' is in the tune split, and none is left to train "
            "on. Give some of them the split train."
        )


def components(*keys: Ids) -> IntArray:
    """(L,) a number for each item; items that share a non-empty key share the number."""
    parent = list(range(len(keys[0])))

    def top(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    for column in keys:
        first: dict[str, int] = {}
        for i, key in enumerate(column.tolist()):
            if key:
                parent[top(i)] = top(first.setdefault(key, i))
    return np.array([top(i) for i in range(len(parent))], dtype=np.int64)


def _spread(items: Labeled) -> Ids:
    """(L,) settled splits, extended to groups and to identical images; empty where free.

    Identical images that people labeled differently are trained on, never tuned on. What is in
    ``certify`` ties nobody.
    """
    splits = _spread_groups(items)
    reserved = splits == Split.CERTIFY
    digests = np.where(reserved, "", items.digests)
    unit = components(np.where(reserved, "", items.groups), digests)
    trained = unit[(splits == Split.TRAIN) | torn(digests, items.labels)]
    tuned = unit[splits == Split.TUNE]
    return np.select(
        [splits != "", np.isin(unit, trained), np.isin(unit, tuned)],
        [splits, np.full_like(splits, Split.TRAIN), np.full_like(splits, Split.TUNE)],
        default=np.full_like(splits, ""),
    )


def _spread_groups(items: Labeled) -> Ids:
    groups, splits = items.groups.tolist(), items.splits.tolist()
    settled: dict[str, tuple[str, str]] = {}
    for group, split, place in zip(groups, splits, items.places.tolist(), strict=True):
        if not group or not split:
            continue
        before, where = settled.setdefault(group, (split, place))
        if before != split:
            raise LabelsError(
                f"{place}: the group '{group}' is in the split {split} here and in {before} in "
                f"{where}, and a group is never divided. Give all its images the same split."
            )
    free = ("", "")
    spread = [s or settled.get(g, free)[0] for g, s in zip(groups, splits, strict=True)]
    return np.array(spread, dtype="<U8")


def _draw(items: Labeled, splits: Ids, *, seed: int, tune_share: float) -> IntArray:
    """Positions of free items to move to ``tune``: whole units in random order, while they help.

    A unit helps when it brings the counts by class nearer to ``tune_share`` and leaves each class
    something to train on.
    """
    usable = items.labels[splits != Split.CERTIFY]
    n_classes = int(items.labels.max(initial=-1)) + 1
    total = np.bincount(usable, minlength=n_classes)
    tuned = np.bincount(items.labels[splits == Split.TUNE], minlength=n_classes)
    lacking = np.minimum(np.floor(total * tune_share + 0.5), total - 1) - tuned
    spare = total - tuned - 1
    moved: list[int] = []
    for unit in _units(items, splits, seed):
        kinds, counts = np.unique(items.labels[unit], return_counts=True)
        want = lacking[kinds]
        helps = (np.abs(want - counts) - np.abs(want)).sum() < 0
        if helps and not items.chosen[unit].any() and (counts <= spare[kinds]).all():
            moved.extend(unit)
            lacking[kinds] -= counts
            spare[kinds] -= counts
    return np.array(moved, dtype=np.int64)


def _units(items: Labeled, splits: Ids, seed: int) -> list[list[int]]:
    """Free items that have to stay together, in an order that depends on seed and ids only."""
    free = np.flatnonzero(splits == "")
    free = free[np.argsort(items.ids[free])]
    units: dict[int, list[int]] = {}
    unit = components(items.groups[free], items.digests[free])
    for position, number in zip(free.tolist(), unit.tolist(), strict=True):
        units.setdefault(number, []).append(position)
    members = list(units.values())
    order = np.random.default_rng(derive_seed(seed, "split")).permutation(len(members))
    return [members[i] for i in order]


def is_none(label: str) -> bool:
    """Whether ``label`` says that the image is of none of the classes."""
    return label.strip().casefold() == NONE_TEXT


def draw_certify(marks: Mapping[str, Mark], *, seed: int, share: float) -> dict[str, Mark]:
    """``marks`` with a random ``share`` of the labeled units moved to ``certify``.

    For labels that a person vouches to be a uniform random sample. The draw looks at no label and
    takes groups whole. Who has divided the labels already (a certify split is given) is obeyed.
    """
    if any(mark.split == Split.CERTIFY for mark in marks.values()):
        return dict(marks)
    free = sorted(key for key, mark in marks.items() if mark.label and not mark.split)
    units: dict[str, list[str]] = {}
    for key in free:
        group = marks[key].group
        units.setdefault(f"group {group}" if group else f"image {key}", []).append(key)
    members = list(units.values())
    order = np.random.default_rng(derive_seed(seed, "certify")).permutation(len(members))
    chosen = {key for i in order[: round(share * len(members))] for key in members[i]}
    return {k: replace(m, split=str(Split.CERTIFY)) if k in chosen else m for k, m in marks.items()}


def unanswered(marks: Mapping[str, Mark]) -> set[str]:
    """Certify images that were passed over: without a label, and a later row has one.

    Rows are in the order of a random draw, so who stops early has a random sample still; but an
    image that was skipped on the way was skipped for a reason, and counts as wrong.
    """
    keys = list(marks)
    last = max((i for i, key in enumerate(keys) if marks[key].label), default=-1)
    before = keys[:last]
    return {k for k in before if marks[k].split == Split.CERTIFY and not marks[k].label}


def certify_population(catalog: Catalog, pool_ids: Ids) -> tuple[Ids, Ids]:
    """What the certify images are a random sample of, and those images themselves.

    Both are parts of the pool. An image that is the copy of a train or tune image needs no
    promise and gives none, be it drawn or not. Groups that were trained or tuned on were never
    among the groups that could be drawn to certify, so their images are not covered either.
    """
    rows = catalog.rows(pool_ids)
    taught = (catalog.labels >= 0) & np.isin(catalog.splits, [Split.TRAIN, Split.TUNE])
    copies = copied_labels(catalog.digests, catalog.labels, taught)[rows] != UNLABELED
    groups = catalog.groups[rows]
    learned = (groups != "") & np.isin(groups, catalog.groups[taught])
    population = pool_ids[~copies & ~learned]
    certify = catalog.splits[catalog.rows(population)] == Split.CERTIFY
    return population, population[certify]
