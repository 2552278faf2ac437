"""Exact copies: an image identical to a human-labelled one needs no model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surelabel.types import UNLABELLED, BoolArray, Ids, IntArray, LabelSource, Split

if TYPE_CHECKING:
    from surelabel.catalog.items import Catalog


def copied_labels(digests: Ids, labels: IntArray, teachers: BoolArray) -> IntArray:
    """(N,) the label that each image's identical ``teachers`` agree on, or -1.

    ``teachers`` (N,) are the human labels that may be read (train and tune, never certify). A
    digest whose teachers disagree teaches nothing; teachers themselves get -1.
    """
    copies = np.full(len(labels), UNLABELLED, dtype=np.int64)
    if not teachers.any():
        return copies
    known, image = np.unique(digests[teachers], return_inverse=True)
    lowest = np.full(len(known), np.iinfo(np.int64).max)
    highest = np.full(len(known), UNLABELLED, dtype=np.int64)
    np.minimum.at(lowest, image, labels[teachers])
    np.maximum.at(highest, image, labels[teachers])
    agreed = np.where(lowest == highest, highest, UNLABELLED)
    at = np.minimum(np.searchsorted(known, digests), len(known) - 1)
    taught = (known[at] == digests) & ~teachers
    copies[taught] = agreed[at[taught]]
    return copies


def torn(digests: Ids, labels: IntArray) -> BoolArray:
    """(L,) whether an identical image has another label."""
    _, image = np.unique(digests, return_inverse=True)
    lowest = np.full(len(labels), np.iinfo(np.int64).max)
    highest = np.full(len(labels), -1)
    np.minimum.at(lowest, image, labels)
    np.maximum.at(highest, image, labels)
    found: BoolArray = (lowest != highest)[image] & (digests != "")
    return found


def contradictions(catalog: Catalog) -> list[tuple[int, int]]:
    """Of each image that people gave different labels: its first row, and the first that differs.

    Certify labels stay hidden, so they are not compared.
    """
    given = (catalog.labels != UNLABELLED) & (catalog.sources == LabelSource.GIVEN)
    rows = np.flatnonzero(given & (catalog.splits != Split.CERTIFY))
    first: dict[str, int] = {}
    found: dict[str, tuple[int, int]] = {}
    for row in rows[torn(catalog.digests[rows], catalog.labels[rows])].tolist():
        digest = catalog.digests[row]
        before = first.setdefault(digest, row)
        if catalog.labels[before] != catalog.labels[row]:
            found.setdefault(digest, (before, row))
    return list(found.values())
