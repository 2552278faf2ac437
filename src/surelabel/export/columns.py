"""The result: one row for each image, labeled or not, with where its label comes from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
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
from surelabel.types import UNLABELED, FloatArray, LabelSource, Prediction

COLUMNS = (
    "id",
    "path",
    "label",
    "guess",
    "source",
    "round",
    "probability",
    "score",
    "threshold",
    "weight",
    "reason",
    "calibrated",
    "distance",
    *map(str, Measure),
)
"""The columns of the result, in order."""


def build_annotations(
    catalog: Catalog,
    answers: Mapping[str, Answer],
    classes: tuple[str, ...],
    pool: pd.DataFrame | None,
    held_out: pd.DataFrame | None,
) -> pd.DataFrame:
    """Join catalog, answers and the last round's tables; ``label`` is empty where none is.

    ``classes`` are those of the last round, whose numbers are in its tables.

    People's labels stand as they are, with weight 1 and round 0. Guess and measures are there
    for every image that the last round predicted.
    """
    names = np.array(classes, dtype=object)
    table = pd.DataFrame({"id": catalog.ids, "path": catalog.paths}).set_index("id", drop=False)
    table["label"] = np.array([*catalog.classes, "", ""], dtype=object)[catalog.labels]
    table["source"] = catalog.sources
    human = catalog.labels != UNLABELED
    table["round"] = 0
    table["weight"] = np.where(human, 1.0, 0.0)
    table["reason"] = ""
    for part in (pool, held_out):
        if part is not None and len(part):
            _fill_predictions(table, part, names)
    if pool is not None:
        _fill_labels(table, pool, names)
        _fill_reasons(table, pool, held_out)
    final = {i: a for i, a in answers.items() if a.kind in (AnswerKind.LABEL, AnswerKind.NONE)}
    reviewed = [i for i in final if i in table.index]
    table.loc[reviewed, "label"] = [final[i].label or "" for i in reviewed]
    table.loc[reviewed, "source"] = str(LabelSource.REVIEWED)
    table.loc[reviewed, "round"] = 0
    table.loc[reviewed, "weight"] = 1.0
    table.loc[reviewed, "reason"] = ""
    return table.reindex(columns=list(COLUMNS)).reset_index(drop=True)


def _fill_predictions(table: pd.DataFrame, part: pd.DataFrame, names: np.ndarray) -> None:
    known = part[part["id"].isin(table.index)].set_index("id")
    table.loc[known.index, "guess"] = names[known["guess"].to_numpy()]
    shown = ("probability", "score", "threshold", "calibrated", "distance", *map(str, Measure))
    for column in shown:
        if column in known:
            table.loc[known.index, column] = known[column]


def _fill_reasons(table: pd.DataFrame, pool: pd.DataFrame, held_out: pd.DataFrame | None) -> None:
    """Why each image is left, and which given labels look like slips."""
    left = table.index[table["source"] == str(LabelSource.NONE)]
    why = pool[pool["id"].isin(left)].set_index("id")
    usual = held_out if held_out is not None else pool.iloc[:0]
    table.loc[why.index, "reason"] = list(map(str, _reasons(why, usual)))
    if held_out is not None and "suspicious" in held_out:
        doubtful = held_out.loc[held_out["suspicious"], "id"]
        given = table["source"] == str(LabelSource.GIVEN)
        table.loc[given & table["id"].isin(doubtful), "reason"] = str(Reason.SUSPICIOUS)


def _reasons(rows: pd.DataFrame, usual: pd.DataFrame) -> list[Reason]:
    names = (Measure.MUTUAL_INFORMATION, Measure.EXPECTED_ENTROPY, Measure.ALEATORIC_VARIANCE)
    mutual, expected, noise = (rows[str(name)].to_numpy() for name in names)
    known = tuple(usual[str(name)].to_numpy() for name in names)
    odd = rows["outlier"].to_numpy(dtype=bool) if "outlier" in rows else np.zeros(len(rows), bool)
    return reasons_left(mutual, expected, noise, odd, (known[0], known[1], known[2]))


def _fill_labels(table: pd.DataFrame, pool: pd.DataFrame, names: np.ndarray) -> None:
    """Accepted guesses become labels where no person has said anything."""
    accepted = pool[pool["accepted"] & pool["id"].isin(table.index)].set_index("id")
    free = table.loc[accepted.index, "source"] == str(LabelSource.NONE)
    chosen = accepted[free.to_numpy()]
    table.loc[chosen.index, "label"] = names[chosen["label"].to_numpy()]
    table.loc[chosen.index, "source"] = str(LabelSource.PSEUDO)
    table.loc[chosen.index, "round"] = chosen["round"]
    table.loc[chosen.index, "weight"] = chosen["weight"]


def prediction_table(
    catalog: Catalog,
    prediction: Prediction,
    metrics: RoundMetrics,
    config: Config,
    thresholds: FloatArray,
    usual: pd.DataFrame,
) -> pd.DataFrame:
    """The same columns for images outside the run, judged as the run judged its own.

    ``thresholds`` (K,) are certified for guesses of a class, nan where the fence stands;
    ``usual`` is the run's table of held-out labels.
    """
    names = np.array(metrics.classes, dtype=object)
    measures = all_measures(prediction)
    score = measures[config.score]
    rule = parse_rule(config.accept)
    accepted = judge(rule, score, prediction.probability, metrics.threshold)
    own = thresholds[prediction.guess]
    accepted = np.where(np.isnan(own), accepted, score <= own)
    nowhere = np.full(len(prediction), np.nan)
    distance = nowhere if prediction.distance is None else prediction.distance
    fence = metrics.outlier_threshold
    outlier = is_outlier(distance, np.inf if fence is None else fence)
    accepted = accepted & ~outlier
    guess = names[prediction.guess]
    calibrated = temper(prediction.probabilities, metrics.temperature).max(axis=1, initial=0)
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
            "threshold": np.where(np.isnan(own), metrics.threshold, own),
            "weight": np.where(accepted, 1.0, 0.0),
            "calibrated": calibrated,
            "distance": distance,
            "outlier": outlier,
            **{str(name): values for name, values in measures.items()},
        }
    )
    table["reason"] = np.where(accepted, "", list(map(str, _reasons(table, usual))))
    return table[list(COLUMNS)]


def drift_of(known: pd.DataFrame, new: pd.DataFrame) -> dict[str, Drift]:
    """Score and distance, where new images differ clearly from the run's own."""
    found = {
        name: drift(known[name].to_numpy(dtype=float), new[name].to_numpy(dtype=float))
        for name in ("score", "distance")
        if name in known
    }
    return {name: each for name, each in found.items() if each.is_clear}
