"""The result: one row for each image, labelled or not, with where its label comes from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from surelabel.accept import judge, parse_rule
from surelabel.catalog import Catalog
from surelabel.choices import Measure
from surelabel.config import Config
from surelabel.runs import Answer, AnswerKind
from surelabel.selftrain import RoundMetrics
from surelabel.types import UNLABELLED, LabelSource, Prediction
from surelabel.uncertainty import all_measures

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
    table["label"] = np.array([*catalog.classes, ""], dtype=object)[catalog.labels]
    table["source"] = catalog.sources
    human = catalog.labels != UNLABELLED
    table["round"] = 0
    table["weight"] = np.where(human, 1.0, 0.0)
    for part in (pool, held_out):
        if part is not None and len(part):
            _fill_predictions(table, part, names)
    if pool is not None:
        _fill_labels(table, pool, names)
    for item_id, answer in answers.items():
        if item_id in table.index and answer.kind in (AnswerKind.LABEL, AnswerKind.NONE):
            table.loc[item_id, "label"] = answer.label or ""
            table.loc[item_id, "source"] = str(LabelSource.REVIEWED)
            table.loc[item_id, "round"] = 0
            table.loc[item_id, "weight"] = 1.0
    return table.reindex(columns=list(COLUMNS)).reset_index(drop=True)


def _fill_predictions(table: pd.DataFrame, part: pd.DataFrame, names: np.ndarray) -> None:
    known = part[part["id"].isin(table.index)].set_index("id")
    table.loc[known.index, "guess"] = names[known["guess"].to_numpy()]
    for column in ("probability", "score", "threshold", *map(str, Measure)):
        if column in known:
            table.loc[known.index, column] = known[column]


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
    catalog: Catalog, prediction: Prediction, metrics: RoundMetrics, config: Config
) -> pd.DataFrame:
    """The same columns for images outside the run, judged by the run's last threshold."""
    names = np.array(metrics.classes, dtype=object)
    measures = all_measures(prediction)
    score = measures[config.score]
    rule = parse_rule(config.accept)
    accepted = judge(rule, score, prediction.probability, metrics.threshold)
    guess = names[prediction.guess]
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
            "threshold": metrics.threshold,
            "weight": np.where(accepted, 1.0, 0.0),
            **{str(name): values for name, values in measures.items()},
        }
    )
    return table[list(COLUMNS)]
