"""Exact copies: an image identical to a human-labelled one needs no model."""

from __future__ import annotations

import numpy as np

from surelabel.types import UNLABELLED, BoolArray, Ids, IntArray


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
