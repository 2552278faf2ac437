"""What a round learns from, out of what the round before has labeled."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from surelabel.selftraining.learner import Problem, RoundInputs
from surelabel.types import UNLABELED


def round_inputs_from(
    number: int,
    problem: Problem,
    previous: pd.DataFrame | None,
    earlier: Path | None = None,
    *,
    has_outliers: bool = False,
) -> RoundInputs:
    """What round ``number`` learns from: people's labels and those accepted in the last round.

    Where the last round found outliers, nothing is learned from them. Else what is beyond the fence
    are the oddest images of the classes, and those teach.
    """
    if previous is None:
        none = np.empty(0, dtype=np.int64)
        return RoundInputs(number, problem, problem.pool_ids[:0], none, np.empty(0))
    still = previous["id"].isin(problem.pool_ids).to_numpy()
    chosen = previous.loc[still & previous["accepted"].to_numpy()]
    odd = previous.loc[still & previous["outlier"], "id"] if has_outliers else ()
    return RoundInputs(
        number,
        problem,
        np.array(chosen["id"], dtype=np.str_),
        np.array(chosen["label"], dtype=np.int64),
        np.array(chosen["weight"], dtype=np.float64),
        earlier,
        np.array(odd, dtype=np.str_),
    )


def nothing_accepted(table: pd.DataFrame) -> pd.DataFrame:
    """A pool table without any of its labels."""
    return table.assign(accepted=False, label=UNLABELED, round=0, weight=0.0)


def in_classes(table: pd.DataFrame, then: tuple[str, ...], now: tuple[str, ...]) -> pd.DataFrame:
    """A pool table of a round with the classes ``then``, in the numbers of ``now``.

    People may bring a class or take one back between rounds. A label of a class that is gone is
    no label any more.
    """
    if now[: len(then)] == then:
        return table
    number = {name: k for k, name in enumerate(now)}
    translated = np.array([*(number.get(name, UNLABELED) for name in then), UNLABELED])
    label = translated[table["label"].to_numpy()]
    there = label != UNLABELED
    guesses = [str(name) for name in table if str(name).startswith("guess")]
    return table.assign(
        **{name: translated[table[name].fillna(UNLABELED).astype(int)] for name in guesses},
        label=label,
        accepted=there,
        round=table["round"].where(there, 0),
        weight=table["weight"].where(there, 0.0),
    )
