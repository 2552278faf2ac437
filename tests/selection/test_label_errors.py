from __future__ import annotations

import numpy as np

from surelabel.selection.label_errors import find_label_errors

RNG = np.random.default_rng(3)


def test_swapped_labels_are_listed_most_confident_first() -> None:
    labels = RNG.integers(0, 3, 200)
    p = np.full((200, 3), 0.02)
    p[np.arange(200), labels] = 0.96
    given = labels.copy()
    given[[5, 17]] = (labels[[5, 17]] + 1) % 3
    p[17] = np.where(np.arange(3) == labels[17], 0.98, 0.01)
    assert find_label_errors(p, given).rows.tolist() == [17, 5]
    assert not len(find_label_errors(p, labels).rows)


def test_doubt_that_is_not_confident_lists_nothing() -> None:
    labels = np.zeros(30, dtype=np.int64)
    p = np.tile([0.2, 0.8], (30, 1))
    assert not len(find_label_errors(p, labels).rows)


def test_each_error_has_a_suggestion_and_both_probabilities() -> None:
    p = np.array([[0.05, 0.9, 0.05], [0.6, 0.4, 0.0], [0.0, 0.1, 0.9]])
    found = find_label_errors(p, np.array([0, 1, 0]))
    assert found.rows.tolist() == [2, 0]
    assert found.suggested.tolist() == [2, 1]
    assert found.probability.tolist() == [0.9, 0.9]
    assert found.label_probability.tolist() == [0.0, 0.05]


def test_no_label_at_all_has_no_error() -> None:
    assert not len(find_label_errors(np.zeros((0, 3)), np.zeros(0, dtype=np.int64)).rows)
