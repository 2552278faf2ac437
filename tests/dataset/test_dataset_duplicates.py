from __future__ import annotations

import numpy as np

from surelabel.dataset.duplicates import copied_labels
from surelabel.dataset.items import strings


def test_copies_get_the_label_that_their_teachers_agree_on() -> None:
    digests = strings(["a", "a", "b", "b", "b", "c", "a", "d"])
    labels = np.array([1, -1, 0, 1, -1, -1, 1, -1])
    teachers = np.array([1, 0, 1, 1, 0, 0, 1, 0], dtype=np.bool_)
    assert copied_labels(digests, labels, teachers).tolist() == [-1, 1, -1, -1, -1, -1, -1, -1]


def test_without_teachers_nothing_is_copied() -> None:
    nobody = np.zeros(2, dtype=np.bool_)
    labels = np.array([0, -1])
    assert copied_labels(strings(["a", "a"]), labels, nobody).tolist() == [-1, -1]
