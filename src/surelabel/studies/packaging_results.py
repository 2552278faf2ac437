"""What finished runs of the packaging study have to show, against the truth."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from surelabel.run import Run
from surelabel.runs import POOL_TABLE
from surelabel.studies.packaging_paper import NOT_OK, OK, ClassFigures
from surelabel.types import LabelSource

CLASSES = (NOT_OK, OK)


@dataclass(frozen=True)
class Accuracy:
    """An experiment of one seed."""

    key: str
    seed: int
    counts: dict[str, int]
    """Images of each class in all parts."""
    n_test: int
    accuracy: float
    largest: float
    """Share of the largest class among the test images: what guessing it would reach."""


@dataclass(frozen=True)
class SelfTrained:
    """A run of self-training on set 4."""

    model: str
    seed: int
    n_pool: int
    n_rounds: int
    stop_reason: str
    seconds: float
    accepted: pd.DataFrame
    """truth and label, in the order in which they were accepted: by round, then by score."""

    @property
    def kappa(self) -> float:
        """Cohen's kappa of the accepted labels; nan without any."""
        return self.kappa_of_first(len(self.accepted))

    def kappa_of_first(self, n: int) -> float:
        """Of the first ``n`` accepted labels."""
        return kappa(self.accepted.iloc[:n])

    @property
    def classes(self) -> dict[str, ClassFigures]:
        """Precision, recall, F1 and count of each class."""
        return class_figures(self.accepted)

    def to_json(self) -> dict[str, Any]:
        """Plain values; nan where there is no figure."""
        return {
            "model": self.model,
            "seed": self.seed,
            "pool": self.n_pool,
            "labelled": len(self.accepted),
            "rounds": self.n_rounds,
            "stop_reason": self.stop_reason,
            "seconds": round(self.seconds, 1),
            "kappa": self.kappa,
            "classes": {name: dataclasses.asdict(f) for name, f in self.classes.items()},
        }


@dataclass(frozen=True)
class Ranks:
    """Spearman's rank correlation of an aleatoric measure with the recorded difficulty."""

    measure: str
    seed: int
    n: int
    everywhere: float
    readable: float
    """Among readable photographs, whose difficulty is below the boundary."""
    unreadable: float
    boundary: float
    """With the closeness to the boundary between readable and not, instead of difficulty."""


@dataclass(frozen=True)
class Ranking:
    """How well each measure ranks the guesses of the nets of round 1 about the pool."""

    model: str
    seed: int
    error: float
    """Share of wrong guesses, and the area of a measure that says nothing."""
    aurc: dict[str, float]
    """Area under the curve of selective risk by coverage, by measure; lower is better."""


@dataclass(frozen=True)
class LeftOut:
    """Mutual information on a location that no label came from."""

    location: str
    seed: int
    n: int
    """Its photographs in the pool."""
    auroc: float
    """How well mutual information tells them from those of the other locations."""
    auroc_known: float
    """The same when labels came from all locations."""


def no_nan(value: Any) -> Any:
    """``value`` with None for nan and infinity, which JSON does not have."""
    if isinstance(value, dict):
        return {key: no_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [no_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def kappa(table: pd.DataFrame) -> float:
    """Cohen's kappa of ``label`` against ``truth``; 1 where all are right, nan without any."""
    from sklearn.metrics import cohen_kappa_score

    if not len(table):
        return math.nan
    if (table["truth"] == table["label"]).all():
        return 1.0
    return float(cohen_kappa_score(table["truth"], table["label"]))


def class_figures(table: pd.DataFrame) -> dict[str, ClassFigures]:
    """By class; nan where there is nothing to divide by."""
    from sklearn.metrics import precision_recall_fscore_support

    if not len(table):
        return {name: ClassFigures(math.nan, math.nan, math.nan, 0) for name in CLASSES}
    columns = precision_recall_fscore_support(
        table["truth"], table["label"], labels=list(CLASSES), zero_division=np.nan
    )
    return {
        name: ClassFigures(float(p), float(r), float(f), int(n))
        for name, p, r, f, n in zip(CLASSES, *columns, strict=True)
    }


def confusion(tables: Sequence[pd.DataFrame]) -> np.ndarray:
    """(2, 2) rows the true class, columns the label, each row summing to 1 (nan if empty)."""
    joined = pd.concat(tables)
    counts = pd.crosstab(joined["truth"], joined["label"])
    square = counts.reindex(index=list(CLASSES), columns=list(CLASSES), fill_value=0).to_numpy()
    with np.errstate(invalid="ignore"):
        shares: np.ndarray = square / square.sum(axis=1, keepdims=True)
    return shares


def accepted_labels(run: Run, truth: pd.Series) -> pd.DataFrame:
    """Truth and label of the labels that the machine gave, in the order of acceptance."""
    table = run.annotations
    chosen = table[table["source"] == str(LabelSource.PSEUDO)]
    chosen = chosen.assign(truth=truth.reindex(chosen["path"]).to_numpy())
    ordered = chosen.sort_values(["round", "score"], kind="stable")
    return ordered[["truth", "label"]].reset_index(drop=True)


def self_trained(model: str, seed: int, run: Run, truth: pd.Series) -> SelfTrained:
    """Read a finished run."""
    rounds = run.rounds
    return SelfTrained(
        model,
        seed,
        len(truth),
        len(rounds),
        str(run.summary.stop_reason),
        sum(r.seconds for r in rounds),
        accepted_labels(run, truth),
    )


def accuracy_of(key: str, seed: int, run: Run, table: pd.DataFrame, truth: pd.Series) -> Accuracy:
    """Accuracy of the guesses about the test images."""
    found = run.annotations.set_index("path")["guess"].reindex(truth.index)
    return Accuracy(
        key,
        seed,
        {str(name): int(n) for name, n in table["truth"].value_counts().sort_index().items()},
        len(truth),
        float((found.to_numpy() == truth.to_numpy()).mean()),
        float(truth.value_counts(normalize=True).max()),
    )


def first_round(run: Run) -> pd.DataFrame:
    """The pool as the nets of round 1 see it, before any label of theirs, by path."""
    table = run.folder.finished_rounds()[0].read_table(POOL_TABLE)
    catalog = run.folder.catalog
    table.index = pd.Index(catalog.paths[catalog.rows(table["id"].to_numpy().astype(np.str_))])
    return table
