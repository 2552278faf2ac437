"""Which labelled images certify: drawn uniformly, hidden in the pool, read once at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from surelabel.catalog.duplicates import copied_labels
from surelabel.catalog.marks import Mark
from surelabel.types import NONE_TEXT, UNLABELLED, Ids, Split, derive_seed

if TYPE_CHECKING:
    from surelabel.catalog.items import Catalog


def is_none(label: str) -> bool:
    """Whether ``label`` says that the image is of none of the classes."""
    return label.strip().casefold() == NONE_TEXT


def draw_certify(marks: Mapping[str, Mark], *, seed: int, share: float) -> dict[str, Mark]:
    """``marks`` with a random ``share`` of the labelled units moved to ``certify``.

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
    copies = copied_labels(catalog.digests, catalog.labels, taught)[rows] != UNLABELLED
    groups = catalog.groups[rows]
    learnt = (groups != "") & np.isin(groups, catalog.groups[taught])
    population = pool_ids[~copies & ~learnt]
    certify = catalog.splits[catalog.rows(population)] == Split.CERTIFY
    return population, population[certify]
