"""In which order images are shown. All orders begin with what teaches the next round most."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import numpy as np
import pandas as pd

from surelabel.choices import Measure
from surelabel.types import IntArray


class Order(StrEnum):
    """The orders a reviewer may choose from."""

    USEFUL = "useful"
    """The image on which the sampled nets disagree most comes first."""
    REASON = "reason"
    """By the reason why they were left, the most frequent first."""
    CLASS = "class"
    """By the run's guess."""
    ALIKE = "alike"
    """Each is followed by the one that looks most like it."""


def arrange(table: pd.DataFrame, order: Order, chain: Callable[[], IntArray]) -> list[str]:
    """The ids of ``table`` in ``order``; ``chain`` finds positions that put look-alikes together.

    The order depends on nothing but the rows: ids break ties.
    """
    if order is Order.ALIKE:
        return list(table["id"].to_numpy()[chain()])
    use = -table[str(Measure.MUTUAL_INFORMATION)].fillna(-np.inf).to_numpy(dtype=float)
    ids = table["id"].to_numpy(dtype=np.str_)
    if order is Order.USEFUL:
        return list(ids[np.lexsort((ids, use))])
    key = table["reason"] if order is Order.REASON else table["guess"].astype(object).fillna("")
    names = key.to_numpy(dtype=np.str_)
    frequency = -key.map(key.value_counts()).to_numpy(dtype=np.int64)
    if order is Order.CLASS:
        frequency = np.zeros(len(names), dtype=np.int64)
    return list(ids[np.lexsort((ids, use, names, frequency))])
