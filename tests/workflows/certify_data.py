"""A run folder with one finished round whose guesses and scores are chosen, without any net."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from surelabel.config.choices import Measure
from surelabel.config.settings import Config
from surelabel.dataset.build import build_catalog
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.workflows.problem import problem_of

CLASSES = ("ant", "bee")
N = 400


def truth(i: int) -> str:
    return CLASSES[i % 2]


def label_rows(certify: range, **changes: str) -> pd.DataFrame:
    """Eight labels to train on, and certify labels; ``changes`` by index as ``i12="bee"``."""
    rows = [(i, truth(i), "train") for i in range(8)]
    rows += [(i, changes.get(f"i{i}", truth(i)), "certify") for i in certify]
    return pd.DataFrame(rows, columns=["index", "label", "split"])


def make_run(place: Path, labels: Any, **options: Any) -> RunFolder:
    """Four hundred small images, no two alike."""
    images = np.random.default_rng(0).integers(0, 255, (N, 8, 8), dtype=np.uint8)
    config = Config.from_mapping({"seed": 4, "cache": str(place / "cache"), **options})
    catalog = build_catalog(images, labels, seed=4, cache=place / "cache")
    return RunFolder.create(place / "run", config=config, catalog=catalog, about={})


def finish_round(
    folder: RunFolder,
    *,
    wrong: tuple[int, ...] = (),
    outliers: tuple[int, ...] = (),
    threshold: float = 0.5,
    number: int = 1,
    held: int = 0,
    new: tuple[int, ...] = (),
) -> None:
    """A round that guesses the truth but for ``wrong``; the score of image i is i / N.

    Images ``new`` are taken for the third class.
    """
    problem = problem_of(folder)
    catalog = folder.catalog
    place = [int(path.split(":")[1]) for path in catalog.paths[catalog.rows(problem.pool_ids)]]
    at = np.array(place)
    guess = np.where(np.isin(at, wrong), 1 - at % 2, at % 2)
    guess = np.where(np.isin(at, new), 2, guess)
    score, odd = at / N, np.isin(at, outliers)
    accepted = (score <= threshold) & ~odd
    pool = pd.DataFrame(
        {
            "id": problem.pool_ids,
            "guess": guess,
            "probability": 1 - score / 2,
            "score": score,
            "calibrated": 1 - score / 2,
            "distance": np.where(odd, 9.0, 1.0),
            "outlier": odd,
            "threshold": threshold,
            "accepted": accepted,
            "label": np.where(accepted, guess, -1),
            "round": np.where(accepted, number, 0),
            "weight": np.where(accepted, 1.0, 0.0),
            **{str(measure): score for measure in Measure},
        }
    )
    partial = folder.begin_round(number)
    partial.write_table("scores.parquet", pool)
    held_out = pool.sample(held, random_state=1).assign(suspicious=False)
    held_out["correct"] = held_out["score"] < 0.8
    partial.write_table("tune.parquet", held_out)
    n = int(accepted.sum())
    metrics = RoundMetrics(
        number=number,
        inputs=problem.inputs,
        n_human=8,
        n_pseudo=0,
        n_pool=len(pool),
        n_accepted=n,
        n_left=len(pool) - n,
        n_changed=0,
        threshold=threshold,
        n_held_out=0,
        held_out_errors=0,
        n_held_out_accepted=0,
        held_out_accepted_errors=0,
        classes=problem.classes,
    )
    partial.write_json("metrics.json", metrics.to_json())
    folder.commit_round(partial)
