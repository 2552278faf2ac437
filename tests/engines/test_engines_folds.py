from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.engines.cross_fitting import assign_folds
from surelabel.types import IntArray


def alone(n: int) -> IntArray:
    return np.arange(n, dtype=np.int64)


@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=60),
    n_folds=st.integers(2, 5),
    seed=st.integers(0, 99),
)
def test_every_class_is_spread_evenly_over_the_folds(
    labels: list[int], n_folds: int, seed: int
) -> None:
    y = np.array(labels, dtype=np.int64)
    folds = assign_folds(y, alone(len(y)), n_folds, seed)
    assert folds.shape == y.shape
    assert set(folds.tolist()) <= set(range(n_folds))
    for label in set(labels):
        counts = np.bincount(folds[y == label], minlength=n_folds)
        assert counts.max() - counts.min() <= 1
    sizes = np.bincount(folds, minlength=n_folds)
    assert sizes.max() - sizes.min() <= 1


@given(
    items=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=60),
    n_folds=st.integers(2, 4),
)
def test_no_unit_is_divided(items: list[tuple[int, int]], n_folds: int) -> None:
    labels, units = (np.array(column, dtype=np.int64) for column in zip(*items, strict=True))
    folds = assign_folds(labels, units, n_folds, 0)
    for unit in set(units.tolist()):
        assert len(set(folds[units == unit].tolist())) == 1


@pytest.mark.parametrize("n_classes", [2, 5, 10])
@pytest.mark.parametrize("seed", range(5))
def test_with_two_labels_per_class_each_of_two_folds_has_one_of_each(
    n_classes: int, seed: int
) -> None:
    labels = np.tile(np.arange(n_classes, dtype=np.int64), 2)
    folds = assign_folds(labels, alone(len(labels)), 2, seed)
    for fold in (0, 1):
        assert sorted(labels[folds == fold].tolist()) == list(range(n_classes))


def test_folds_depend_on_the_seed_and_on_nothing_else() -> None:
    labels = np.arange(60, dtype=np.int64) % 3
    first = assign_folds(labels, alone(60), 2, 1)
    assert first.tolist() == assign_folds(labels.copy(), alone(60), 2, 1).tolist()
    assert any(
        assign_folds(labels, alone(60), 2, seed).tolist() != first.tolist() for seed in (2, 3)
    )
