"""The results of the packaging study: its finished runs compared with the truth."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from surelabel.api import Run
from surelabel.config.choices import Measure
from surelabel.errors import InputError
from surelabel.inference.selective_risk import aurc
from surelabel.runs.rounds import POOL_TABLE
from surelabel.types import JsonObject, LabelSource
from surelabel_studies.packaging.attention import InBoxes
from surelabel_studies.packaging.paper import NOT_OK, OK, TOTALS, ClassFigures
from surelabel_studies.packaging.rows import title_of
from surelabel_studies.packaging.sets import Sets
from surelabel_studies.use_by_dates.faults import BOUNDARY
from surelabel_studies.use_by_dates.sets import Like

CLASSES = (NOT_OK, OK)
RESULTS = "results.json"
"""All values of a study, in the folder of its report."""
ALEATORIC = (Measure.ALEATORIC_VARIANCE, Measure.EXPECTED_ENTROPY)
"""E[exp s] and E H[p]; the paper calls the first one aleatoric."""
RANKING = (
    Measure.LEAST_CONFIDENCE,
    Measure.PREDICTIVE_ENTROPY,
    Measure.MUTUAL_INFORMATION,
    Measure.ALEATORIC_VARIANCE,
    Measure.TOTAL_VARIANCE,
)
"""The measures that are compared. Total variance is the paper's score: predictive entropy plus
aleatoric variance."""


@dataclass(frozen=True)
class Accuracy:
    """The test accuracy of one experiment with one seed."""

    key: str
    seed: int
    counts: dict[str, int]
    """Images of each class in all parts together."""
    n_test: int
    accuracy: float
    largest: float
    """Share of the largest class among the test images: the accuracy of always predicting it."""


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
    """Columns truth and label, in the order of acceptance: by round, then by score."""

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

    def to_json(self) -> JsonObject:
        """JSON values, except for nan where there is no figure."""
        return {
            "model": self.model,
            "seed": self.seed,
            "pool": self.n_pool,
            "labeled": len(self.accepted),
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
    """Only readable photographs, whose difficulty is below the boundary."""
    unreadable: float
    boundary: float
    """Correlation with closeness to the boundary of readability instead of with difficulty."""


@dataclass(frozen=True)
class Ranking:
    """How well each measure ranks the predictions of the nets of round 1 for the pool."""

    model: str
    seed: int
    error: float
    """Share of wrong predictions, which is also the area of an uninformative measure."""
    aurc: dict[str, float]
    """Area under the risk-coverage curve, by measure; lower is better."""


@dataclass(frozen=True)
class LeftOut:
    """Mutual information on a location from which there are no labels."""

    location: str
    seed: int
    n: int
    """Its photographs in the pool."""
    auroc: float
    """How well mutual information separates them from the other locations."""
    auroc_known: float
    """The same with labels from all locations."""


def no_nan(value: object) -> object:
    """``value`` with None in place of nan and infinity, which JSON does not have."""
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
    """Precision, recall, F1 and count of each class; nan where a denominator is 0."""
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
    """(2, 2) rows are true classes, columns labels; rows sum to 1, or are nan if empty."""
    joined = pd.concat(tables)
    counts = pd.crosstab(joined["truth"], joined["label"])
    square = counts.reindex(index=list(CLASSES), columns=list(CLASSES), fill_value=0).to_numpy()
    with np.errstate(invalid="ignore"):
        shares: np.ndarray = square / square.sum(axis=1, keepdims=True)
    return shares


def accepted_labels(run: Run, truth: pd.Series) -> pd.DataFrame:
    """Truth and label of the pseudo-labels, in the order of acceptance."""
    table = run.annotations
    chosen = table[table["source"] == str(LabelSource.PSEUDO)]
    chosen = chosen.assign(truth=truth.reindex(chosen["path"]).to_numpy())
    ordered = chosen.sort_values(["round", "score"], kind="stable")
    return ordered[["truth", "label"]].reset_index(drop=True)


def self_trained(model: str, seed: int, run: Run, truth: pd.Series) -> SelfTrained:
    """The result of a finished run."""
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
    """The accuracy of the predictions for the test images."""
    guesses = run.annotations.set_index("path")["guess"].reindex(truth.index)
    return Accuracy(
        key,
        seed,
        {str(name): int(n) for name, n in table["truth"].value_counts().sort_index().items()},
        len(truth),
        float((guesses.to_numpy() == truth.to_numpy()).mean()),
        float(truth.value_counts(normalize=True).max()),
    )


def first_round(run: Run) -> pd.DataFrame:
    """The predictions of round 1 for the pool, made before any pseudo-label; indexed by path."""
    table = run.folder.finished_rounds()[0].read_table(POOL_TABLE)
    catalog = run.folder.catalog
    table.index = pd.Index(catalog.paths[catalog.rows(table["id"].to_numpy().astype(np.str_))])
    return table


def ranking(
    model: str, seed: int, predicted: pd.DataFrame, classes: Sequence[str], truth: pd.Series
) -> Ranking:
    """AURC of each measure on ``predicted``, which is indexed by path like ``truth``."""
    guesses = np.asarray(classes)[predicted["guess"].to_numpy(dtype=int)]
    wrong = guesses != truth.reindex(predicted.index).to_numpy()
    areas = {str(measure): aurc(predicted[str(measure)], wrong) for measure in RANKING}
    return Ranking(model, seed, float(wrong.mean()), areas)


def ranks(seed: int, predicted: pd.DataFrame, difficulty: pd.Series) -> list[Ranks]:
    """Correlations of each aleatoric measure; both tables are indexed by path."""
    hard = difficulty.reindex(predicted.index).to_numpy(dtype=float)
    readable = hard < BOUNDARY
    correlations = []
    for measure in ALEATORIC:
        values = predicted[str(measure)].to_numpy(dtype=float)
        correlations.append(
            Ranks(
                str(measure),
                seed,
                len(predicted),
                spearman(values, hard),
                spearman(values[readable], hard[readable]),
                spearman(values[~readable], hard[~readable]),
                spearman(values, -np.abs(hard - BOUNDARY)),
            )
        )
    return correlations


def spearman(one: np.ndarray, two: np.ndarray) -> float:
    """Spearman's rank correlation; nan if one of them is constant."""
    from scipy.stats import spearmanr

    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(two) == 0:
        return math.nan
    return float(spearmanr(one, two).statistic)


def spearman_interval(rho: float, n: int) -> tuple[float, float]:
    """95 % interval by Fisher's z, with the standard error of Bonett and Wright."""
    if n <= 3 or math.isnan(rho):
        return -1.0, 1.0
    reach = 1.96 * math.sqrt((1 + rho**2 / 2) / (n - 3))
    middle = math.atanh(max(-0.999999, min(0.999999, rho)))
    return math.tanh(middle - reach), math.tanh(middle + reach)


def left_out(
    location: str, seed: int, predicted: pd.DataFrame, known: pd.DataFrame, locations: pd.Series
) -> LeftOut:
    """Compare ``predicted``, from nets without labels of ``location``, with ``known``, from all."""
    values = [auroc(table, locations, location) for table in (predicted, known)]
    n = int((locations.reindex(predicted.index) == location).sum())
    return LeftOut(location, seed, n, *values)


def auroc(predicted: pd.DataFrame, locations: pd.Series, location: str) -> float:
    """Probability that an image of ``location`` has more mutual information than another one."""
    from sklearn.metrics import roc_auc_score

    there = (locations.reindex(predicted.index) == location).to_numpy()
    if there.all() or not there.any():
        return math.nan
    return float(roc_auc_score(there, predicted[str(Measure.MUTUAL_INFORMATION)]))


@dataclass(frozen=True)
class About:
    """The facts in the title of every table and figure."""

    photographs: str
    net: str
    weights: str
    digest: str
    tail: str
    rounds: int
    steps: int
    start: str = ""
    """The run on other images from whose layers the tail started."""

    @property
    def title(self) -> str:
        """Which photographs, backbone, weights and tail."""
        return (
            f"{self.photographs}; {self.net}, {self.weights} ({self.digest[:8]}), tail {self.tail}"
            f"{self._started}"
        )

    @property
    def trained(self) -> str:
        """What was trained on what, in a few words."""
        return f"{self.net}, tail {self.tail}{self._started}, {self.steps:,} steps"

    @property
    def _started(self) -> str:
        return f" pre-trained by {self.start}" if self.start else ""


@dataclass(frozen=True)
class OtherStudy:
    """The experiments of another study on the same photographs."""

    about: About
    accuracies: tuple[Accuracy, ...]


def read_study(out: Path) -> OtherStudy:
    """The experiments of the finished study in the folder ``out``."""
    file = out / "report" / RESULTS
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
        about = About(**{spec.name: values[spec.name] for spec in dataclasses.fields(About)})
        return OtherStudy(about, tuple(Accuracy(**one) for one in values["experiments"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{file} cannot be read as the results of a packaging study ({error}): give the folder "
            "that its --out named, after it has finished."
        ) from None


@dataclass
class PackagingResults:
    """All results of the study, and the photographs they are about."""

    about: About
    sets: Sets
    accuracies: list[Accuracy] = field(default_factory=list)
    runs: list[SelfTrained] = field(default_factory=list)
    rankings: list[Ranking] = field(default_factory=list)
    ranks: list[Ranks] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    in_boxes: list[InBoxes] = field(default_factory=list)
    """Only with the tail detail, and for photographs whose boxes are recorded."""
    beside: Sequence[OtherStudy] = ()
    """Studies whose experiments are shown beside these."""
    skipped: list[str] = field(default_factory=list)
    """Sentences on what could not be done with these photographs."""

    def of(self, model: str) -> list[SelfTrained]:
        """The runs of a model, by seed."""
        return [run for run in self.runs if run.model == model]

    @property
    def share(self) -> float:
        """The number of photographs in set 4, as a share of the paper's."""
        return len(self.sets.get(Like.SET4, ())) / TOTALS[Like.SET4]

    def title(self, model: str) -> str:
        """The title of the runs of a model."""
        return title_of(model, self.share)

    def skip(self, sentence: str) -> None:
        """Note what could not be done, once."""
        self.skipped += [sentence] if sentence not in self.skipped else []

    def to_json(self) -> JsonObject:
        """JSON values; None where there is no figure."""
        values = {
            **dataclasses.asdict(self.about),
            "experiments": [dataclasses.asdict(a) for a in self.accuracies],
            "self_training": [run.to_json() for run in self.runs],
            "rankings": [dataclasses.asdict(one) for one in self.rankings],
            "aleatoric_ranks": [dataclasses.asdict(r) for r in self.ranks],
            "left_out_locations": [dataclasses.asdict(one) for one in self.left_out],
            "attention_in_boxes": [dataclasses.asdict(one) for one in self.in_boxes],
            "skipped": self.skipped,
        }
        return {name: no_nan(value) for name, value in values.items()}
