"""The result: one row per image, labeled or not. ``COLUMNS`` names and explains every column.

``build_annotations`` makes the table for the images of a run, ``prediction_table`` for others.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from surelabel.config.choices import Measure
from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.inference.measures import all_measures
from surelabel.runs.answers import Answer, AnswerKind
from surelabel.selection.calibration import temper
from surelabel.selection.drift import Drift, drift
from surelabel.selection.out_of_distribution import is_outlier
from surelabel.selection.reasons import Reason, reasons_left
from surelabel.selection.thresholds import judge, parse_rule
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import NONE_TEXT, UNLABELED, FloatArray, LabelSource, Prediction

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

_PREDICTED = ("probability", "score", "threshold", "calibrated", "distance", *map(str, Measure))
"""Columns that come from the tables of the last round."""
_REASON_MEASURES = (
    Measure.MUTUAL_INFORMATION,
    Measure.EXPECTED_ENTROPY,
    Measure.ALEATORIC_VARIANCE,
)

_Names = npt.NDArray[np.object_]
"""(K,) class names."""


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
    return with_answers(unanswered_annotations(catalog, classes, pool, held_out), answers)


def unanswered_annotations(
    catalog: Catalog,
    classes: tuple[str, ...],
    pool: pd.DataFrame | None,
    held_out: pd.DataFrame | None,
) -> pd.DataFrame:
    """The same without people's answers, with the ids as index."""
    names = np.array(classes, dtype=object)
    table = pd.DataFrame({"id": catalog.ids, "path": catalog.paths}).set_index("id", drop=False)
    table["label"] = np.array([*catalog.classes, NONE_TEXT, ""], dtype=object)[catalog.labels]
    table["source"] = catalog.sources
    table["round"] = 0
    table["weight"] = np.where(catalog.labels != UNLABELED, 1.0, 0.0)
    table["reason"] = ""
    for part in (pool, held_out):
        if part is not None and len(part):
            _fill_predictions(table, part, names)
    if pool is not None:
        _fill_pseudo_labels(table, pool, names)
        _fill_reasons(table, pool, held_out)
    return table.reindex(columns=list(COLUMNS))


def with_answers(table: pd.DataFrame, answers: Mapping[str, Answer]) -> pd.DataFrame:
    """``table``, from ``unanswered_annotations``, with people's answers; itself it stays as it is.

    Review answers replace every other label; unsure changes nothing.
    """
    result = table.copy(deep=False)
    for column in ("label", "source", "round", "weight", "reason"):
        result[column] = table[column].copy()
    _fill_answers(result, answers)
    return result.reset_index(drop=True)


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
    """Drift of score and distance, by column, where new images clearly differ from the run."""
    drifts = {
        name: drift(known[name].to_numpy(dtype=float), new[name].to_numpy(dtype=float))
        for name in ("score", "distance")
        if name in known
    }
    return {name: each for name, each in drifts.items() if each.is_clear}


def _fill_predictions(table: pd.DataFrame, part: pd.DataFrame, names: _Names) -> None:
    """Guess and measures of the images in ``part``, a table of the last round."""
    known = part[part["id"].isin(table.index)].set_index("id")
    table.loc[known.index, "guess"] = names[known["guess"].to_numpy()]
    for column in _PREDICTED:
        if column in known:
            table.loc[known.index, column] = known[column]


def _fill_pseudo_labels(table: pd.DataFrame, pool: pd.DataFrame, names: _Names) -> None:
    """Accepted guesses become labels, except where a person gave one."""
    accepted = pool[pool["accepted"] & pool["id"].isin(table.index)].set_index("id")
    free = table.loc[accepted.index, "source"] == str(LabelSource.NONE)
    chosen = accepted[free.to_numpy()]
    table.loc[chosen.index, "label"] = names[chosen["label"].to_numpy()]
    table.loc[chosen.index, "source"] = str(LabelSource.PSEUDO)
    table.loc[chosen.index, "round"] = chosen["round"]
    table.loc[chosen.index, "weight"] = chosen["weight"]


def _fill_reasons(table: pd.DataFrame, pool: pd.DataFrame, held_out: pd.DataFrame | None) -> None:
    """Why images are left unlabeled, and which given labels are suspicious."""
    left = table.index[table["source"] == str(LabelSource.NONE)]
    rows = pool[pool["id"].isin(left)].set_index("id")
    compared = held_out if held_out is not None else pool.iloc[:0]
    table.loc[rows.index, "reason"] = list(map(str, _reasons(rows, compared)))
    if held_out is not None and "suspicious" in held_out:
        suspicious = held_out.loc[held_out["suspicious"], "id"]
        given = table["source"] == str(LabelSource.GIVEN)
        table.loc[given & table["id"].isin(suspicious), "reason"] = str(Reason.SUSPICIOUS)


def _fill_answers(table: pd.DataFrame, answers: Mapping[str, Answer]) -> None:
    """Write ``answers`` into ``table``."""
    final = {i: a for i, a in answers.items() if a.kind in (AnswerKind.LABEL, AnswerKind.NONE)}
    reviewed = [i for i in final if i in table.index]
    table.loc[reviewed, "label"] = [final[i].label or NONE_TEXT for i in reviewed]
    table.loc[reviewed, "source"] = str(LabelSource.REVIEWED)
    table.loc[reviewed, "round"] = 0
    table.loc[reviewed, "weight"] = 1.0
    table.loc[reviewed, "reason"] = ""


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
