"""Why an image was left for a person, and how unsure the run is, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from surelabel.accept import Reason
from surelabel.choices import Measure

NOT_SEEN = "not seen yet"
"""The reason of an image that no round has looked at."""

_WORDS: dict[str, str] = {
    Reason.UNFAMILIAR: "The nets disagree: they have seen too little like it.",
    Reason.AMBIGUOUS: "The image itself leaves it open: unclear, cut off or between classes.",
    Reason.STRANGER: "It looks like none of the classes.",
    Reason.SUSPICIOUS: "A net that had not seen its label contradicts it with confidence.",
    NOT_SEEN: "No round has looked at it yet.",
    "": "The run labelled it.",
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
    """A reason for each row of a run's result; empty for what the run labelled."""
    return table["reason"].where(table["guess"].notna(), NOT_SEEN)


def reason_words(reason: str) -> str:
    """A sentence for a reason."""
    return _WORDS[reason]


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
