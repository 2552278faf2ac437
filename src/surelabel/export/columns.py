"""The result: one row per image, labeled or not. ``COLUMNS`` names and explains every column.

``build_annotations`` makes the table for the images of a run, ``prediction_table`` for others.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from surelabel.config.choices import Measure
from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.items import string_array
from surelabel.files.large_tables import coded_column, ids_of, text_column
from surelabel.files.mapped_arrays import slices, zeros
from surelabel.inference.measures import all_measures
from surelabel.runs.answers import Answer, AnswerKind
from surelabel.selection.calibration import temper
from surelabel.selection.drift import Drift, drift
from surelabel.selection.out_of_distribution import is_outlier
from surelabel.selection.reasons import Reason, reasons_left
from surelabel.selection.thresholds import judge, parse_rule
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import (
    NONE_TEXT,
    UNLABELED,
    BoolArray,
    FloatArray,
    IntArray,
    LabelSource,
    Prediction,
)

COLUMNS = (
    "id",  # stable id of the image, 16 hexadecimal digits
    "path",  # path of the image below the folder of images, or "array:00012"
    "label",  # class name, or "none of these"; empty if no label was given or accepted
    "guess",  # the most probable class; empty if the last round did not predict the image
    "source",  # where the label comes from: given, reviewed, copied, pseudo; empty without a label
    "round",  # round that accepted the pseudo-label; 0 for labels by people and without a label
    "probability",  # probability of the guess, mean over nets and Monte Carlo samples
    "score",  # uncertainty by the measure that the run accepts by; higher is more uncertain
    "threshold",  # a guess is accepted if its score is at most this
    "weight",  # weight of the label in training: 1 for labels by people, 0 without a label
    "reason",  # why it is left unlabeled, or "suspicious" for a given label (see ``Reason``)
    "calibrated",  # probability of the guess after temperature scaling
    "distance",  # distance to the nearest class in latent space; large for outliers
    *map(str, Measure),  # every measure of uncertainty; higher is more uncertain
)
"""The columns of the result, in order. The first ten keep their names: scripts rely on them."""
CLASS_COLUMNS = ("label", "guess")
"""The columns that hold classes."""

_PREDICTED = ("probability", "score", "threshold", "calibrated", "distance", *map(str, Measure))
"""Columns that come from the tables of the last round."""
_REASON_MEASURES = (
    Measure.MUTUAL_INFORMATION,
    Measure.EXPECTED_ENTROPY,
    Measure.ALEATORIC_VARIANCE,
)

_SOURCES = tuple(LabelSource)
_REASONS = ("", *map(str, Reason))
"""Texts of two columns, which are kept as numbers while the result is built."""


def classes_in(table: pd.DataFrame, catalog: Catalog) -> list[str]:
    """The classes of the run, then others in ``table``, which only people's answers have."""
    known = dict.fromkeys(catalog.classes)
    for name in CLASS_COLUMNS:
        others = table[name].dropna().unique().tolist()
        known |= dict.fromkeys(sorted(str(value) for value in others if value))
    return list(known)


def build_annotations(
    catalog: Catalog,
    answers: Mapping[str, Answer],
    classes: tuple[str, ...],
    pool: pd.DataFrame | None,
    held_out: pd.DataFrame | None,
) -> pd.DataFrame:
    """Join the catalog, people's answers by item id, and the last round's tables.

    ``classes`` are those of the last round: its tables hold their numbers. Labels by people stay
    as they are. Every image that the last round predicted has a guess and measures.
    """
    table = unanswered_annotations(catalog, classes, pool, held_out)
    return with_answers(table, answers, catalog)


def unanswered_annotations(
    catalog: Catalog,
    classes: tuple[str, ...],
    pool: pd.DataFrame | None,
    held_out: pd.DataFrame | None,
) -> pd.DataFrame:
    """The same without people's answers."""
    result = _Result(catalog, classes)
    for part in (pool, held_out):
        if part is not None and len(part):
            result.fill_predictions(part)
    if pool is not None:
        result.fill_pseudo_labels(pool)
        result.fill_reasons(pool, held_out)
    return result.to_table()


def with_answers(
    table: pd.DataFrame, answers: Mapping[str, Answer], catalog: Catalog
) -> pd.DataFrame:
    """``table``, from ``unanswered_annotations``, with people's answers; itself it stays as it is.

    Review answers replace every other label; unsure changes nothing. Rows are found by the
    catalog: an index of ids would hold a Python object per image.
    """
    result = table.copy(deep=False)
    final = {i: a for i, a in answers.items() if a.kind in (AnswerKind.LABEL, AnswerKind.NONE)}
    ids = string_array(final)
    reviewed = ids[catalog.has(ids)]
    if not len(reviewed):
        return result
    rows = catalog.rows(reviewed)
    for column in ("label", "source", "round", "weight", "reason"):
        result[column] = table[column].copy()
    result.loc[rows, "label"] = [final[i].label or NONE_TEXT for i in reviewed.tolist()]
    result.loc[rows, "source"] = str(LabelSource.REVIEWED)
    result.loc[rows, "round"] = 0
    result.loc[rows, "weight"] = 1.0
    result.loc[rows, "reason"] = ""
    return result


def prediction_table(
    catalog: Catalog,
    prediction: Prediction,
    metrics: RoundMetrics,
    config: Config,
    thresholds: FloatArray,
    held_out: pd.DataFrame,
) -> pd.DataFrame:
    """The same columns for images outside the run, accepted by the rule of its last round.

    ``thresholds`` (K,) are the certified thresholds by guessed class, NaN where there is none;
    ``held_out`` is the run's table of held-out labels.
    """
    measures = all_measures(prediction)
    score = measures[config.score]
    certified = thresholds[prediction.guess]
    accepted = judge(parse_rule(config.accept), score, prediction.probability, metrics.threshold)
    accepted = np.where(np.isnan(certified), accepted, score <= certified)
    unknown = np.full(len(prediction), np.nan)
    distance = unknown if prediction.distance is None else prediction.distance
    farthest = metrics.outlier_threshold
    outlier = is_outlier(distance, np.inf if farthest is None else farthest)
    accepted = accepted & ~outlier
    guess = np.array(metrics.classes, dtype=object)[prediction.guess]
    table = pd.DataFrame(
        {
            "id": prediction.ids,
            "path": catalog.paths[catalog.rows(prediction.ids)],
            "label": np.where(accepted, guess, ""),
            "guess": guess,
            "source": np.where(accepted, str(LabelSource.PSEUDO), ""),
            "round": np.where(accepted, metrics.number, 0),
            "probability": prediction.probability,
            "score": score,
            "threshold": np.where(np.isnan(certified), metrics.threshold, certified),
            "weight": np.where(accepted, 1.0, 0.0),
            "calibrated": temper(prediction.probabilities, metrics.temperature).max(
                axis=1, initial=0
            ),
            "distance": distance,
            "outlier": outlier,
            **{str(name): values for name, values in measures.items()},
        }
    )
    table["reason"] = np.where(accepted, "", list(map(str, _reasons(table, held_out))))
    return table[list(COLUMNS)]


def drift_of(known: pd.DataFrame, new: pd.DataFrame) -> dict[str, Drift]:
    """Drift of score and distance, by column, where new images clearly differ from the run.

    Images that lie nearer are no news: the space of a small run was fitted to its own images, so
    that other images of the same kind lie nearer than they do.
    """
    drifts = {
        name: drift(known[name].to_numpy(dtype=float), new[name].to_numpy(dtype=float))
        for name in ("score", "distance")
        if name in known
    }
    return {
        name: each
        for name, each in drifts.items()
        if each.is_clear and (each.higher or name != "distance")
    }


class _Result:
    """The columns of the result while they are filled, by the positions of a catalog.

    Text is kept as numbers, and numbers are mapped where they are many.
    """

    def __init__(self, catalog: Catalog, classes: tuple[str, ...]) -> None:
        self._catalog = catalog
        self._names = list(dict.fromkeys(["", NONE_TEXT, *catalog.classes, *classes]))
        self._code = {name: k for k, name in enumerate(self._names)}
        own = [self._code[name] for name in (*catalog.classes, NONE_TEXT, "")]
        self._label = np.array(own)[catalog.labels]
        self._of_class = np.array([self._code[name] for name in classes], dtype=np.int64)
        self._source = np.zeros(len(catalog), dtype=np.int8)
        for number, name in enumerate(_SOURCES):
            self._source[catalog.sources == str(name)] = number
        self._round = np.zeros(len(catalog), dtype=np.int64)
        self._weight = np.where(catalog.labels != UNLABELED, 1.0, 0.0)
        self._reason = np.zeros(len(catalog), dtype=np.int8)
        self._guess: IntArray | None = None
        self._numbers: dict[str, FloatArray] = {}

    def fill_predictions(self, part: pd.DataFrame) -> None:
        """Guess and measures of the images in ``part``, a table of the last round."""
        known, rows = self._rows(part)
        if self._guess is None:
            self._guess = np.full(len(self._catalog), -1, dtype=np.int64)
        self._guess[rows] = self._of_class[part["guess"].to_numpy()[known]]
        for column in _PREDICTED:
            if column in part:
                if column not in self._numbers:
                    self._numbers[column] = zeros((len(self._catalog),), np.float64)
                    self._numbers[column].fill(np.nan)
                self._numbers[column][rows] = part[column].to_numpy()[known]

    def fill_pseudo_labels(self, pool: pd.DataFrame) -> None:
        """Accepted guesses become labels, except where a person gave one."""
        known, rows = self._rows(pool)
        accepted = pool["accepted"].to_numpy(dtype=bool)[known]
        accepted = accepted & (self._source[rows] == _SOURCES.index(LabelSource.NONE))
        at = rows[accepted]
        self._label[at] = self._of_class[pool["label"].to_numpy()[known][accepted]]
        self._source[at] = _SOURCES.index(LabelSource.PSEUDO)
        self._round[at] = pool["round"].to_numpy()[known][accepted]
        self._weight[at] = pool["weight"].to_numpy()[known][accepted]

    def fill_reasons(self, pool: pd.DataFrame, held_out: pd.DataFrame | None) -> None:
        """Why images are left unlabeled, and which given labels are suspicious."""
        known, rows = self._rows(pool)
        left = self._source[rows] == _SOURCES.index(LabelSource.NONE)
        compared = held_out if held_out is not None else pool.iloc[:0]
        places, rows = np.flatnonzero(known)[left], rows[left]
        for part in slices(len(places)):
            reasons = _reasons(pool.iloc[places[part]], compared)
            self._reason[rows[part]] = [_REASONS.index(str(each)) for each in reasons]
        if held_out is not None and "suspicious" in held_out:
            suspicious = held_out[held_out["suspicious"]]
            _, rows = self._rows(suspicious)
            given = rows[self._source[rows] == _SOURCES.index(LabelSource.GIVEN)]
            self._reason[given] = _REASONS.index(str(Reason.SUSPICIOUS))

    def to_table(self) -> pd.DataFrame:
        """All columns in order; those that no round has filled are empty."""
        columns: dict[str, object] = {
            "id": text_column(self._catalog.ids),
            "path": text_column(self._catalog.paths),
            "label": coded_column(self._label, self._names),
            "source": coded_column(self._source, [str(name) for name in _SOURCES]),
            "round": self._round,
            "weight": self._weight,
            "reason": coded_column(self._reason, _REASONS),
            **self._numbers,
        }
        if self._guess is not None:
            columns["guess"] = coded_column(self._guess, self._names)
        known = {name: columns[name] for name in COLUMNS if name in columns}
        table = pd.DataFrame(known, copy=False)
        return table if len(known) == len(COLUMNS) else table.reindex(columns=list(COLUMNS))

    def _rows(self, part: pd.DataFrame) -> tuple[BoolArray, IntArray]:
        """Which rows of ``part`` are images of the catalog, and their positions in it."""
        ids = ids_of(part["id"])
        known = self._catalog.has(ids)
        return known, self._catalog.rows(ids if known.all() else ids[known])


def _reasons(rows: pd.DataFrame, held_out: pd.DataFrame) -> list[Reason]:
    """A reason for each row, from its measures and those of the held-out labels."""
    mutual, expected, noise = (rows[str(name)].to_numpy() for name in _REASON_MEASURES)
    known = tuple(held_out[str(name)].to_numpy() for name in _REASON_MEASURES)
    outlier = np.zeros(len(rows), bool)
    if "outlier" in rows:
        outlier = rows["outlier"].to_numpy(dtype=bool)
    probability = rows["probability"].to_numpy(dtype=float)
    usual = (known[0], known[1], known[2])
    return reasons_left(mutual, expected, noise, outlier, probability, usual)
