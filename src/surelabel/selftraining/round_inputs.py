"""What there is to label, and what one round is trained on."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from surelabel.files.large_tables import ids_of
from surelabel.files.mapped_arrays import take
from surelabel.types import UNLABELED, FloatArray, Ids, IntArray


@dataclass(frozen=True)
class Problem:
    """The images and the labels people gave: everything that does not change within a round."""

    classes: tuple[str, ...]
    human_ids: Ids
    """Trained on; their labels never change."""
    human_labels: IntArray
    tune_ids: Ids
    """Held out. With ``cross_fit`` they are among ``human_ids``, and predicted out of fold."""
    tune_labels: IntArray
    pool_ids: Ids
    cross_fit: bool
    """Too few labels for a tune split: out-of-fold predictions take its place."""
    inputs: str
    """Digest of all of the above and of the pixels."""
    answers_upto: int = 0


@dataclass(frozen=True)
class RoundInputs:
    """What one round is trained on."""

    number: int
    problem: Problem
    pseudo_ids: Ids
    """Pool images whose pseudo-label is trained on."""
    pseudo_labels: IntArray
    pseudo_weights: FloatArray
    previous_round: Path | None = None
    """Folder of the round before, where its nets were trained on the same human labels."""
    outliers: Ids = field(default_factory=lambda: np.empty(0, dtype=np.str_))
    """Pool images that look like none of the classes: nothing is learned from them."""


def round_inputs_from(
    number: int,
    problem: Problem,
    previous: pd.DataFrame | None,
    previous_round: Path | None = None,
    *,
    has_outliers: bool = False,
) -> RoundInputs:
    """Inputs of round ``number``: human labels, and the guesses of the last round with a weight.

    Where the last round detected outliers, nothing is learned from them. Otherwise the images
    above the threshold are just the least typical of their classes, and are learned from.
    """
    if previous is None:
        none = np.empty(0, dtype=np.int64)
        return RoundInputs(number, problem, problem.pool_ids[:0], none, np.empty(0))
    ids = ids_of(previous["id"])
    in_pool = np.ones(len(ids), dtype=np.bool_)
    if not np.array_equal(ids, problem.pool_ids):
        in_pool = np.isin(ids, problem.pool_ids)
    weight = previous["weight"].to_numpy()
    pseudo = in_pool & (weight > 0)
    outlier = in_pool & previous["outlier"].to_numpy() & has_outliers
    return RoundInputs(
        number,
        problem,
        take(ids, pseudo),
        previous["guess"].to_numpy(dtype=np.int64)[pseudo],
        weight[pseudo].astype(np.float64),
        previous_round,
        take(ids, outlier),
    )


def without_labels(table: pd.DataFrame) -> pd.DataFrame:
    """A pool table with every label taken back."""
    return table.assign(accepted=False, label=UNLABELED, round=0, weight=0.0)


def renumber_classes(
    table: pd.DataFrame, before: tuple[str, ...], now: tuple[str, ...]
) -> pd.DataFrame:
    """A pool table whose class numbers index ``before``, with numbers that index ``now``.

    People may add a class or take one back between rounds. A label or guess of a class that is
    gone is taken back.
    """
    if now[: len(before)] == before:
        return table
    number = {name: k for k, name in enumerate(now)}
    renumbered = np.array([*(number.get(name, UNLABELED) for name in before), UNLABELED])
    label = renumbered[table["label"].to_numpy()]
    has_label = label != UNLABELED
    guesses = [str(name) for name in table if str(name).startswith("guess")]
    guessed = {name: renumbered[table[name].fillna(UNLABELED).astype(int)] for name in guesses}
    return table.assign(
        **guessed,
        label=label,
        accepted=has_label,
        round=table["round"].where(has_label, 0),
        weight=table["weight"].where(guessed["guess"] != UNLABELED, 0.0),
    )
