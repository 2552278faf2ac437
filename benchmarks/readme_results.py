"""The photograph rows of README's table: whole default runs from 300 random labels.

Beside each run, scikit-learn's ``LogisticRegression`` with its defaults on EfficientNet-Lite0's
features of the same labels: as many of its surest guesses as the run labeled, and all of them. The
truth of the pool is used to report only.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import surelabel
from photographs import DATA, SETS, collection_of, read_truth
from settings import Settings
from surelabel.models.backbones import photos_installed
from surelabel.types import FloatArray
from surelabel_studies.use_by_dates.records import Settings as Rendered
from surelabel_studies.use_by_dates.sets import Like
from surelabel_studies.use_by_dates.writer import write_use_by_dates

PACKAGING = "packaging (synthetic)"
SEED = 0


def main(settings: Settings) -> dict[str, Any]:
    if not photos_installed():
        return {"skipped": "needs surelabel[photos]"}
    n_labels, scale = (60, 0.01) if settings.tiny else (300, 0.1)
    with tempfile.TemporaryDirectory() as temporary:
        folder = settings.out or Path(temporary)
        truths = {name: read_truth(name) for name in SETS if DATA.exists() and not settings.tiny}
        folders = {name: DATA / name / "images" for name in truths}
        dates = folder / "dates"
        write_use_by_dates(dates, Rendered(Like.SET4, SEED, scale, 299))
        table = pd.read_csv(dates / "labels.csv", dtype=str)
        names = table["path"].str.removeprefix("images/")
        truths[PACKAGING] = dict(zip(names, table["label"], strict=True))
        folders[PACKAGING] = dates / "images"
        rows = {
            name: _row(folders[name], truth, n_labels, folder / name, quick=settings.tiny)
            for name, truth in truths.items()
        }
    return {"labels": n_labels, "collections": rows}


def _row(
    images: Path, truth: dict[str, str], n_labels: int, folder: Path, *, quick: bool
) -> dict[str, Any]:
    folder.mkdir(parents=True)
    drawn = pd.Series(truth).sample(n_labels, random_state=SEED)
    labels = folder / "labels.csv"
    drawn.rename_axis("path").rename("label").to_csv(labels)
    named = {"net": "efficientnet-lite0", "tail": "linear"} if quick else {}
    config = surelabel.Config.from_mapping({"seed": SEED, "cache": str(folder / "cache"), **named})
    run = surelabel.label(images, labels, folder / "run", config=config, progress=False)
    table = run.annotations
    # Some photographs in the folder of the field leaves have no known class.
    pool = table[~table["source"].isin(["given", "copied"]) & table["path"].isin(list(truth))]
    right = pool["guess"].to_numpy() == pool["path"].map(truth).to_numpy()
    labeled = (pool["source"] == "pseudo").to_numpy()
    score, wrong = _logistic_regression(images, truth, drawn, pool["path"], folder / "cache")
    surest = np.argsort(score, kind="stable")[: labeled.sum()]
    return {
        "images": len(truth),
        "pool": len(pool),
        "labeled": int(labeled.sum()),
        "wrong": int((labeled & ~right).sum()),
        "left": int((~labeled).sum()),
        "error": round(100 * float(1 - right.mean()), 2),
        "regression_wrong": int(wrong[surest].sum()),
        "regression_error": round(100 * float(wrong.mean()), 2),
    }


def _logistic_regression(
    images: Path, truth: dict[str, str], drawn: pd.Series, pool: pd.Series, cache: Path
) -> tuple[FloatArray, np.ndarray]:
    """Uncertainty and mistakes in the pool, (M,) each."""
    from sklearn.linear_model import LogisticRegression

    collection = collection_of(images, truth, cache)
    at = {path: i for i, path in enumerate(collection.paths)}
    known = [at[path] for path in drawn.index]
    asked = [at[path] for path in pool]
    model = LogisticRegression(max_iter=1000)
    model.fit(collection.features[known], collection.truth[known])
    p = model.predict_proba(collection.features[asked])
    return 1 - p.max(1), model.classes_[p.argmax(1)] != collection.truth[asked]
