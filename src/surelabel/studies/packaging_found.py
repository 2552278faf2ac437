"""All that the packaging study found, and what it was found on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from surelabel.datasets.use_by_dates import Like
from surelabel.studies.packaging_paper import TOTALS
from surelabel.studies.packaging_results import (
    Accuracy,
    LeftOut,
    Ranking,
    Ranks,
    SelfTrained,
    no_nan,
)
from surelabel.studies.packaging_rows import title_of
from surelabel.studies.packaging_sets import Sets


@dataclass(frozen=True)
class About:
    """What stands in the title of every table and figure."""

    photographs: str
    net: str
    weights: str
    digest: str
    tail: str
    rounds: int
    steps: int

    @property
    def title(self) -> str:
        """Which photographs, backbone, weights and tail."""
        return (
            f"{self.photographs}; {self.net}, {self.weights} ({self.digest[:8]}), tail {self.tail}"
        )


@dataclass
class Found:
    """All that the study found, with what it was found on."""

    about: About
    sets: Sets
    accuracies: list[Accuracy] = field(default_factory=list)
    runs: list[SelfTrained] = field(default_factory=list)
    rankings: list[Ranking] = field(default_factory=list)
    ranks: list[Ranks] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Sentences on what could not be done with the photographs at hand."""

    def of(self, model: str) -> list[SelfTrained]:
        """The runs of a model, by seed."""
        return [run for run in self.runs if run.model == model]

    @property
    def share(self) -> float:
        """How many photographs of set 4 there are to one of the paper's."""
        return len(self.sets.get(Like.SET4, ())) / TOTALS[Like.SET4]

    def title(self, model: str) -> str:
        """What the runs of a model are called."""
        return title_of(model, self.share)

    def skip(self, sentence: str) -> None:
        """Note what could not be done, once."""
        self.skipped += [sentence] if sentence not in self.skipped else []

    def to_json(self) -> dict[str, Any]:
        """Plain values; None where there is no figure."""
        found = {
            **dataclasses.asdict(self.about),
            "experiments": [dataclasses.asdict(a) for a in self.accuracies],
            "self_training": [run.to_json() for run in self.runs],
            "rankings": [dataclasses.asdict(one) for one in self.rankings],
            "aleatoric_ranks": [dataclasses.asdict(r) for r in self.ranks],
            "left_out_locations": [dataclasses.asdict(one) for one in self.left_out],
            "skipped": self.skipped,
        }
        return {name: no_nan(value) for name, value in found.items()}
