"""Why an image was left for a person, and how unsure the run is, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import pandas as pd

from surelabel.choices import Measure

_CLOSE = 0.25
"""Two guesses whose probabilities differ by less are about equally likely."""


class Reason(StrEnum):
    """Why the run did not label an image; derived where the run does not say it itself."""

    CLOSE_CALL = "close call"
    """Two classes are about equally likely."""
    UNFAMILIAR = "unfamiliar"
    """The sampled nets disagree: they have seen too little like it."""
    UNCLEAR = "unclear"
    """The nets agree that the image itself leaves it open."""
    HELD_BACK = "held back"
    """Sure enough, but its class had its share already."""
    NEW = "not seen yet"
    """No round has looked at it."""


_WORDS = {
    Reason.CLOSE_CALL: "Two classes are about equally likely.",
    Reason.UNFAMILIAR: "The nets disagree: they have seen too little like it.",
    Reason.UNCLEAR: "The image itself leaves it open: unclear, cut off or unusual.",
    Reason.HELD_BACK: "Sure enough, but its class had its share in this round.",
    Reason.NEW: "No round has looked at it yet.",
}


@dataclass(frozen=True)
class Gauge:
    """One measure for a person: a name, what it says, and its rank among the images left."""

    name: str
    says: str
    rank: float
    """Between 0 and 1: the share of the images left that are less unsure by this measure."""


_GAUGES = {
    Measure.MUTUAL_INFORMATION: ("Disagreement", "how much the sampled nets contradict each other"),
    Measure.EXPECTED_ENTROPY: ("Ambiguity", "how open the image is in the eyes of each net"),
    Measure.PREDICTIVE_ENTROPY: ("Doubt", "both together"),
}


def reasons_of(table: pd.DataFrame) -> pd.Series:
    """A reason for each row of a run's result; its own column ``reason`` where it has one."""
    disagree, ambiguous = table[Measure.MUTUAL_INFORMATION], table[Measure.EXPECTED_ENTROPY]
    derived = np.select(
        [
            table["guess"].isna(),
            table["score"] <= table["threshold"],
            disagree >= ambiguous,
            table[Measure.MARGIN] > 1 - _CLOSE,
        ],
        [Reason.NEW, Reason.HELD_BACK, Reason.UNFAMILIAR, Reason.CLOSE_CALL],
        default=Reason.UNCLEAR,
    )
    reasons = pd.Series(derived, index=table.index, dtype=object)
    if "reason" not in table:
        return reasons
    own = table["reason"].astype(object).fillna("").astype(str)
    return own.where(own != "", reasons)


def reason_words(reason: str) -> str:
    """A sentence for ``reason``; a reason that is not ours is said as it is."""
    return _WORDS[Reason(reason)] if reason in set(Reason) else f"{reason[:1].upper()}{reason[1:]}."


def ranks_of(table: pd.DataFrame) -> pd.DataFrame:
    """For each measure that people see, the share of the rows that are less unsure."""
    return pd.DataFrame({name: _rank(table[name]) for name in map(str, _GAUGES)})


def gauges(ranks: Mapping[Any, float]) -> list[Gauge]:
    """The measures of one image in words; none for an image that no round has looked at."""
    known = [(names, ranks.get(str(m), np.nan)) for m, names in _GAUGES.items()]
    known = [(names, rank) for names, rank in known if rank == rank]
    return [Gauge(name, f"{_degree(rank)}: {says}", rank) for (name, says), rank in known]


def _rank(values: pd.Series) -> pd.Series:
    n = max(1, int(values.notna().sum()) - 1)
    return (values.rank(method="min") - 1) / n


def _degree(rank: float) -> str:
    share = f"more than in {round(100 * rank)} % of the images left"
    if rank in (0, 1):
        share = f"the {'highest' if rank else 'lowest'} of all images left"
    return f"{'low' if rank < 1 / 3 else 'middling' if rank < 2 / 3 else 'high'}, {share}"
