"""Which member of the ensemble leaves which labelled images out, where there is no tune split."""

from __future__ import annotations

import numpy as np

from surelabel.catalog import Catalog
from surelabel.errors import TooFewLabelsError
from surelabel.selftrain import Problem
from surelabel.types import BoolArray, IntArray, derive_seed


def fold_of(labels: IntArray, units: IntArray, n_folds: int, seed: int) -> IntArray:
    """The fold of each labelled image, (N,): classes are spread evenly over the folds.

    Images of one unit (a group, or copies of each other) are in one fold.
    """
    rng = np.random.default_rng(derive_seed(seed, "folds"))
    _, first, unit = np.unique(units, return_index=True, return_inverse=True)
    fold_of_unit = np.empty(len(first), dtype=np.int64)
    turn = 0
    for label in np.unique(labels[first]):
        where = rng.permutation(np.flatnonzero(labels[first] == label))
        fold_of_unit[where] = (turn + np.arange(len(where))) % n_folds
        turn += len(where)
    folds: IntArray = fold_of_unit[unit]
    return folds


def folds_of(problem: Problem, catalog: Catalog, n: int, seed: int) -> IntArray:
    """(N,) the fold of each human label of ``problem``; labels of one unit only are refused."""
    units = catalog.units(problem.human_ids)
    if (units == units[0]).all():
        raise TooFewLabelsError(
            "All labelled images are of one group, so none can be held out to set a threshold: "
            "label some images of another group."
        )
    return fold_of(problem.human_labels, units, n, seed)


def taught(problem: Problem, catalog: Catalog, member: int, n: int, seed: int) -> BoolArray:
    """(N,) which human labels this member of ``n`` learns from: all, or all but its fold."""
    out = np.zeros(len(problem.human_ids), dtype=bool)
    if problem.cross_fit:
        out |= folds_of(problem, catalog, n, seed) == member
    return ~out
