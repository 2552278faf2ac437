"""Answers of people from no label to a finished dataset that keeps 2 % and 5 %, at 95 %.

A simulated person knows the truth. They label random images to learn from, then certify, then label
what is left. surelabel runs whole; logistic regression sees the same features, tuned by
cross-validation. Ways to certify: 300 uniform labels with the exact test; PAC labeling with its
normal bound and 300 uniform labels; surelabel's way, the surest first, with the sample size that
held-out labels forecast to be best (for logistic regression: cross-validated predictions).
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import surelabel
from pac_labels import first_above
from photographs import DATA, Collection, Draw, Rivals, photograph_config, read_collection, run_on
from settings import Settings
from surelabel.guarantees.certification import CertifySample
from surelabel.guarantees.forecast import dataset_test, forecast
from surelabel.models.backbones import photos_installed
from surelabel.runs.rounds import HELD_OUT_TABLE, POOL_TABLE
from surelabel.types import BoolArray, FloatArray
from surelabel.workflows.forecast import SIZES, best_outlook

_ERRORS = (0.02, 0.05)
_UNIFORM = 300


@dataclass(frozen=True)
class Scored:
    """A pool that a model has scored, and what its held-out labels show."""

    scores: FloatArray
    """(N,) higher is less sure; inf for an image that is never accepted."""
    wrong: BoolArray
    held_scores: FloatArray
    held_correct: BoolArray
    n_learned: int
    """Labels that the model was trained on."""


def main(settings: Settings) -> dict[str, Any]:
    if not DATA.exists() or not photos_installed():
        return {"skipped": f"needs {DATA} and surelabel[photos]"}
    warnings.filterwarnings("ignore")
    sets, sizes, n_draws = ["leaves-field", "leaves-lab"], [300, 600], 100
    if settings.tiny:
        sets, sizes, n_draws = sets[:1], [80], 2
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        cache = settings.out or Path(temporary)
        for name in sets:
            collection = read_collection(name, cache, settings.size(settings.images, 0, 240))
            for n in sizes:
                row = dict(_answers(collection, n, settings.seed, cache, n_draws))
                results[f"{name}, {n} labels to learn"] = row
                print(name, n, row, file=sys.stderr, flush=True)
    return {"by_hand": "all images", "draws": n_draws, "answers": results}


def _answers(
    collection: Collection, n: int, seed: int, cache: Path, n_draws: int
) -> Iterator[tuple[str, dict[str, float]]]:
    order = np.random.default_rng([seed, n]).permutation(len(collection.truth))
    draw = Draw(np.sort(order[:n]), np.sort(order[n:]))
    models = {
        "surelabel": _surelabel(collection, draw, seed, cache),
        "logistic regression": _regression(collection, draw),
    }
    yield "by hand", dict.fromkeys(map(_name, _ERRORS), float(len(order)))
    for model, scored in models.items():
        rng = np.random.default_rng(seed)
        ways = {"300 uniform": _uniform, "PAC, 300 uniform": _pac, "surest first": _surest_first}
        for way, count in ways.items():
            yield (
                f"{model}, {way}",
                {
                    _name(error): round(
                        n + float(np.mean([count(scored, error, rng) for _ in range(n_draws)])), 1
                    )
                    for error in _ERRORS
                },
            )


def _name(error: float) -> str:
    return f"{100 * error:g} %"


def _surelabel(collection: Collection, draw: Draw, seed: int, cache: Path) -> Scored:
    """The last round of a whole run with its defaults, on Lite0 at 224 pixels."""
    names = [f"class {k}" for k in range(int(collection.truth.max()) + 1)]
    with tempfile.TemporaryDirectory() as folder:
        config = photograph_config(cache, "lite0", seed=seed)
        run: surelabel.Run = run_on(collection, draw, config, names, Path(folder))
        last = run.folder.last_round()
        assert last is not None
        pool, held = last.read_table(POOL_TABLE), last.read_table(HELD_OUT_TABLE)
        catalog = run.folder.catalog
        place = {Path(path).name: i for i, path in enumerate(collection.paths)}
        paths = catalog.paths[catalog.rows(pool["id"].to_numpy(dtype=np.str_))]
        truth = np.array([names[collection.truth[place[Path(path).name]]] for path in paths])
        wrong = np.array(run.rounds[-1].classes)[pool["guess"].to_numpy()] != truth
    never = [table["outlier"].to_numpy(dtype=bool) for table in (pool, held)]
    return Scored(
        np.where(never[0], np.inf, pool["score"].to_numpy()),
        wrong,
        np.where(never[1], np.inf, held["score"].to_numpy()),
        held["correct"].to_numpy(dtype=bool),
        len(draw.labeled),
    )


def _regression(collection: Collection, draw: Draw) -> Scored:
    rivals = Rivals(collection.features, collection.truth, draw)
    classes, p = rivals.logistic("L2-normalized")
    held, correct = rivals.held_out("L2-normalized")
    wrong = classes[p.argmax(1)] != collection.truth[draw.pool]
    return Scored(1 - p.max(1), wrong, held, correct, len(draw.labeled))


def _uniform(scored: Scored, error: float, rng: np.random.Generator) -> int:
    """Answers after learning: all certify labels, then what is left."""
    sample = _sample(scored, min(_UNIFORM, len(scored.wrong)), rng)
    return _n_answers(scored, sample, error)


def _surest_first(scored: Scored, error: float, rng: np.random.Generator) -> int:
    """The same with the size that held-out labels forecast to need the fewest answers.

    The first look may use up three quarters of the error probability. Sampled images above the
    threshold are left to people as all others, so they count once either way.
    """
    n = len(scored.wrong)
    outlooks = forecast(
        scored.held_scores,
        scored.held_correct,
        n_pool=n,
        sizes=SIZES,
        certify=dataset_test(error, 0.75 * 0.05, scored.n_learned / n),
        rng=np.random.default_rng(0),
        n_draws=30,
    )
    size = best_outlook(outlooks).n_certify if outlooks else min(_UNIFORM, n)
    return _n_answers(scored, _sample(scored, size, rng), error, delta=0.75 * 0.05)


def _pac(scored: Scored, error: float, rng: np.random.Generator) -> int:
    """PAC labeling: its normal bound, with replacement, on all items that have no label yet."""
    n = len(scored.wrong)
    drawn = rng.integers(0, n, min(_UNIFORM, n))
    epsilon = error * (n + scored.n_learned) / n
    accepted = scored.scores < first_above(scored.scores, scored.wrong, drawn, epsilon)
    accepted[drawn] = False
    return int((~accepted).sum())


def _sample(scored: Scored, n: int, rng: np.random.Generator) -> CertifySample:
    checked = np.zeros(len(scored.wrong), dtype=bool)
    checked[rng.permutation(len(checked))[:n]] = True
    return CertifySample(scored.scores, np.arange(len(checked)), checked, scored.wrong)


def _n_answers(scored: Scored, sample: CertifySample, error: float, *, delta: float = 0.05) -> int:
    test = dataset_test(error, delta, scored.n_learned / len(scored.wrong))
    accepted = sample.scores <= test(sample).threshold
    return int((~accepted | sample.checked).sum())
