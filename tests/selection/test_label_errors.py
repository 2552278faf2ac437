from __future__ import annotations

import numpy as np

from surelabel.selection.label_errors import suspicious_labels

RNG = np.random.default_rng(3)


def test_swapped_labels_are_listed_most_confident_first() -> None:
    labels = RNG.integers(0, 3, 200)
    p = np.full((200, 3), 0.02)
    p[np.arange(200), labels] = 0.96
    given = labels.copy()
    given[[5, 17]] = (labels[[5, 17]] + 1) % 3
    p[17] = np.where(np.arange(3) == labels[17], 0.98, 0.01)
    assert suspicious_labels(p, given).tolist() == [17, 5]
    assert not len(suspicious_labels(p, labels))


def test_doubt_that_is_not_confident_lists_nothing() -> None:
    labels = np.zeros(30, dtype=np.int64)
    p = np.tile([0.2, 0.8], (30, 1))
    assert not len(suspicious_labels(p, labels))
