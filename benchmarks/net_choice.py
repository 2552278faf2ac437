"""What the choice of ``auto`` costs: whole runs on photographs, and the other way forced.

Both leaf collections, and synthetic packaging (is a date complete or not?). Labels are drawn at
random; the truth of the rest is used to report only.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import surelabel
from photographs import DATA, SETS, read_truth
from settings import Settings
from surelabel.models.backbones import photos_installed
from surelabel.workflows.model_inputs import PHOTOGRAPH_NETS
from surelabel.workflows.net_trial import Trial, Way
from surelabel_studies.use_by_dates.records import Settings as Rendered
from surelabel_studies.use_by_dates.sets import Category, Like
from surelabel_studies.use_by_dates.writer import write_use_by_dates

PACKAGING = "packaging (synthetic)"
N_LABELS = (300, 1000)
_FORCED: Mapping[Way, Mapping[str, object]] = {
    Way.POOLED: {"net": PHOTOGRAPH_NETS},
    Way.DETAIL: {"net": "lite0", "tail": "detail"},
}


@dataclass(frozen=True)
class Photographs:
    """A folder and the class of each photograph that is used, by path."""

    folder: Path
    truth: pd.Series


def main(settings: Settings) -> dict[str, Any]:
    if not photos_installed():
        return {"skipped": "needs surelabel[photos]"}
    n_images = settings.size(settings.images, 2000, 130)
    sizes, n_seeds = ((70,), 1) if settings.tiny else (N_LABELS, settings.n_seeds)
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        kept = settings.out or Path(temporary)
        for name, photographs in _collections(kept, n_images, tiny=settings.tiny).items():
            for n in sizes:
                rows = found[f"{name}, {n} labels"] = []
                for seed in range(n_seeds):
                    rows.append(_compare(photographs, n, seed, kept / "cache", settings.steps))
                    print(name, n, seed, rows[-1], file=sys.stderr, flush=True)
    lost = {
        name: round(float(np.mean([row["points_lost"] for row in rows])), 2)
        for name, rows in found.items()
    }
    return {"images": n_images, "collections": found, "mean_points_lost": lost}


def _collections(kept: Path, n_images: int, *, tiny: bool) -> dict[str, Photographs]:
    """At most ``n_images`` of each at random, and two in five of packaging's set 2."""
    dates = kept / "dates"
    write_use_by_dates(dates, Rendered(Like.SET2, 0, 0.02 if tiny else 0.4, 299))
    table = pd.read_csv(dates / "labels.csv", dtype=str).set_index("path")
    complete = table["category"].eq(str(Category.COMPLETE)).map({True: "yes", False: "no"})
    leaves = SETS if DATA.exists() and not tiny else ()
    found = {name: pd.Series(read_truth(name)) for name in leaves}
    folders = {name: DATA / name / "images" for name in found} | {PACKAGING: dates}
    found[PACKAGING] = complete
    return {
        name: Photographs(folders[name], truth.sample(min(n_images, len(truth)), random_state=0))
        for name, truth in found.items()
    }


def _compare(
    photographs: Photographs, n_labels: int, seed: int, cache: Path, steps: int
) -> dict[str, Any]:
    """Wrong guesses in percent with the way that was chosen and with the other one."""
    drawn = photographs.truth.sample(n_labels, random_state=seed)
    shared = {"seed": seed, "cache": str(cache), "steps": steps}
    error, trial = _run(photographs, drawn, shared)
    chosen = Way.POOLED if trial is None else trial.chosen
    errors = {chosen: error}
    for way, forced in _FORCED.items():
        if way is not chosen:
            errors[way], _ = _run(photographs, drawn, {**shared, **forced})
    return {
        "chosen": chosen,
        "error": {way: round(e, 2) for way, e in sorted(errors.items())},
        "points_lost": round(errors[chosen] - min(errors.values()), 2),
        "trial": None if trial is None else trial.to_json(),
    }


def _run(
    photographs: Photographs, drawn: pd.Series, settings: Mapping[str, object]
) -> tuple[float, Trial | None]:
    """Wrong guesses in percent of the images without a label, and the trial."""
    truth = photographs.truth
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "labels.csv"
        paths = [photographs.folder / path for path in truth.index]
        given = drawn.reindex(truth.index)
        pd.DataFrame({"path": paths, "label": given}).to_csv(table, index=False)
        config = surelabel.Config.from_mapping(settings)
        run = surelabel.label(table, out=Path(folder) / "run", config=config, progress=False)
        guesses = run.annotations.set_index(run.annotations["path"].map(_name))["guess"]
        summary = run.summary
    pool = truth.drop(drawn.index)
    wrong = guesses.reindex(pool.index.map(_name)).to_numpy() != pool.to_numpy()
    return 100 * float(wrong.mean()), summary.trial


def _name(path: str) -> str:
    return Path(path).name
