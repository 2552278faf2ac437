"""Which member leaves which labels out, where labels are too few for a tune split."""

from __future__ import annotations

import numpy as np

from surelabel.config.choices import Effort
from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.errors import TooFewLabelsError
from surelabel.selftraining.round_inputs import Problem
from surelabel.types import BoolArray, IntArray, derive_seed

_MEMBERS = {Effort.LOW: 1, Effort.NORMAL: 2, Effort.HIGH: 4}


def n_members(config: Config, *, cross_fit: bool) -> int:
    """Nets in the ensemble; out-of-fold predictions need at least two."""
    members = config.members or _MEMBERS[config.effort]
    return max(2, members) if cross_fit else members


def assign_folds(labels: IntArray, units: IntArray, n_folds: int, seed: int) -> IntArray:
    """The fold of each labeled image, (N,): every class is spread evenly over the folds.

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
    """(N,) the fold of each human label; an error where all labels are of one unit."""
    units = catalog.units(problem.human_ids)
    if (units == units[0]).all():
        raise TooFewLabelsError(
            "All labeled images are of one group or copies of one image, so none can be held out "
            "to set a threshold: label some other images."
        )
    return assign_folds(problem.human_labels, units, n, seed)


def training_mask(problem: Problem, catalog: Catalog, member: int, n: int, seed: int) -> BoolArray:
    """(N,) which human labels member ``member`` of ``n`` is trained on: all, or all but a fold."""
    left_out = np.zeros(len(problem.human_ids), dtype=bool)
    if problem.cross_fit:
        left_out |= folds_of(problem, catalog, n, seed) == member
    return ~left_out
