"""What each mechanism of the default recipe is worth: runs with one thing changed, at low effort.

Three datasets, several seeds. Each finished run is one line of ``results.jsonl`` in the folder
``--out``; a run that is there already is not done again, so the benchmark can be stopped and
continued. "The defaults, trained again" shows how much two trainings on the same data differ.
"""

from __future__ import annotations

import functools
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from digits import Digits
from our_run import Scored, made_run, scored_rounds
from recipe_data import DATASETS
from selective import figures
from settings import Settings

COVERAGES = (0.5, 0.8, 0.9, 0.95, 1.0)
RESULTS = "results.jsonl"
DEFAULTS = "the defaults"
AGAIN = "the defaults, trained again"
_OTHER_SEED = 1000
"""Added to the seed of a run, not to that of its data, to train again."""

RECIPES: Mapping[str, Mapping[str, Any]] = {
    DEFAULTS: {},
    AGAIN: {},
    "no warm start": {"warm_start": False},
    "no share for unlabeled images": {"left_share": 0.0},
    "no weights of pseudo-labels": {"weights": "none"},
    "all evidence counts 1": {"pseudo_label_evidence": 1.0},
    "no teacher correction": {"teacher_correction": False},
    "no matrix scaling": {"matrix_scaling": False},
    "no neighbor vote, scaling, teacher correction": {"neighbor_vote": False},
    "no longer first round": {"first_round_factor": 1.0},
    "plain cross-entropy": {"noise_samples": 0, "weight_measure": "predictive_entropy"},
    "no human share": {"human_share": 0.0},
    "entropy penalty .1": {"entropy_penalty": 0.1},
    "no averaged weights": {"weight_average": 0.0},
    "no roll-back": {"roll_back": False},
    "accepted labels are kept": {"mode": "keep"},
    "no Monte Carlo Dropout": {"mc_samples": 1},
    "no consistency": {"consistency": 0.0},
    "no augmentation": {"augment": False},
}
"""By name, the options that differ from the defaults at low effort, which is one net."""


@dataclass(frozen=True, order=True)
class Task:
    """One run."""

    dataset: str
    recipe: str
    seed: int


def main(settings: Settings) -> dict[str, Any]:
    names = [name for name, dataset in DATASETS.items() if dataset.is_there()]
    recipes, n_seeds = list(RECIPES), settings.n_seeds
    if settings.tiny:
        names, recipes, n_seeds = names[:1], recipes[:2], 1
    seeds = range(settings.seed, settings.seed + n_seeds)
    tasks = list(_in_order(names, recipes, seeds))
    with tempfile.TemporaryDirectory() as temporary:
        folder = settings.out or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        results = read_results(folder / RESULTS)
        for task in tasks:
            if task in results:
                continue
            results[task] = row = _run(settings, task)
            with (folder / RESULTS).open("a") as lines:
                lines.write(json.dumps({**vars(task), **row}) + "\n")
            print(task, row, file=sys.stderr, flush=True)
    wanted = {task: results[task] for task in tasks}
    return {"seeds": n_seeds, "datasets": {name: _summary(name, wanted) for name in names}}


def read_results(path: Path) -> dict[Task, dict[str, Any]]:
    """The finished runs in a file of results; none where there is no file."""
    results = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        row = json.loads(line)
        results[Task(row.pop("dataset"), row.pop("recipe"), row.pop("seed"))] = row
    return results


def _in_order(
    datasets: Sequence[str], recipes: Sequence[str], seeds: Sequence[int]
) -> Iterator[Task]:
    """All recipes of the first seed, then of the others."""
    for seed in seeds:
        for recipe in recipes:
            yield from (Task(dataset, recipe, seed) for dataset in datasets)


@functools.lru_cache(maxsize=len(DATASETS))
def _drawn(dataset: str, seed: int, n_pool: int) -> Digits:
    return DATASETS[dataset].draw(seed, n_pool=n_pool)


def _run(settings: Settings, task: Task) -> dict[str, Any]:
    """Figures of the first and the last round, and the processor time of the whole run."""
    images = _drawn(task.dataset, task.seed, settings.size(settings.images, 0, 500))
    seed = task.seed + (_OTHER_SEED if task.recipe == AGAIN else 0)
    here = replace(settings, seed=seed, effort="low", out=None)
    started = time.process_time()
    with made_run(here, images, threads=1, **RECIPES[task.recipe]) as run:
        seconds = time.process_time() - started
        rounds = scored_rounds(run, images)
    first, last = rounds[0], rounds[-1]
    return {
        "aurc_round_1": _aurc(first),
        "aurc": _aurc(last),
        "n_wrong_round_1": int((first.guess != first.truth).sum()),
        "n_wrong": int((last.guess != last.truth).sum()),
        "n_pool": len(last.truth),
        "errors": _errors(last),
        "seconds": round(seconds, 2),
        "n_rounds": len(rounds),
    }


def _aurc(scored: Scored) -> float:
    return figures(scored.score, scored.guess != scored.truth)["aurc"]


def _errors(scored: Scored) -> list[float]:
    """1 - kappa of the surest guesses at each coverage. Ties are broken at random."""
    from sklearn.metrics import cohen_kappa_score

    n = len(scored.score)
    order = np.lexsort((np.random.default_rng(0).random(n), scored.score))
    errors = []
    for coverage in COVERAGES:
        taken = order[: round(coverage * n)]
        kappa = cohen_kappa_score(scored.truth[taken], scored.guess[taken])
        errors.append(round(1 - float(kappa), 5))
    return errors


def _summary(dataset: str, results: Mapping[Task, Mapping[str, Any]]) -> dict[str, Any]:
    """By recipe, means over the seeds; ratios are to the defaults on the same seed."""
    rows: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
    for task, row in results.items():
        if task.dataset == dataset:
            defaults = results[replace(task, recipe=DEFAULTS)]
            rows.setdefault(task.recipe, []).append((row, defaults))
    return {
        name: {
            "errors": np.mean([row["errors"] for row, _ in pairs], axis=0).round(5).tolist(),
            "each_aurc": [row["aurc"] for row, _ in pairs],
            "aurc_ratio": _mean_ratio(pairs, "aurc"),
            "cost_ratio": _mean_ratio(pairs, "seconds"),
        }
        for name, pairs in rows.items()
    }


def _mean_ratio(pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], key: str) -> float:
    return round(float(np.mean([row[key] / defaults[key] for row, defaults in pairs])), 3)
