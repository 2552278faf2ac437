"""What each part of the default recipe is worth: runs at low effort with one thing changed."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from digits import ABSENT, Digits, have_digits, read_digits
from our_run import made_run, scored_rounds
from selective import curve, figures
from settings import Settings

RECIPES: Mapping[str, Mapping[str, Any]] = {
    "the defaults": {},
    "no neighbors": {"neighbor_vote": False},
    "no scaling": {"matrix_scaling": False},
    "images left as they come": {"left_share": 0.0},
    "new weights each round": {"warm_start": False},
    "no votes of earlier nets": {"earlier_nets": False},
    "no consistency": {"consistency": 0.0},
    "accepted labels are kept": {"mode": "keep"},
    "no weights of labels": {"weights": "none"},
    "no human share": {"human_share": 0.0},
    "human share .5": {"human_share": 0.5},
    "entropy penalty .1": {"entropy_penalty": 0.1},
    "plain cross-entropy": {"noise_samples": 0, "weight_measure": "predictive_entropy"},
    "no averaged weights": {"weight_average": 0.0},
    "no distortion": {"augment": False},
    "1.5 times wider": {"width": 1.5},
    "two nets": {"members": 2},
    "normal effort": {"effort": "normal"},
}
"""By name, the options that differ from the defaults at low effort, which is one net."""


def main(settings: Settings) -> dict[str, Any]:
    if not have_digits():
        return ABSENT
    names = list(RECIPES)[:2] if settings.tiny else list(RECIPES)
    n_seeds = 1 if settings.tiny else settings.n_seeds
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    for seed in range(settings.seed, settings.seed + n_seeds):
        here = replace(settings, seed=seed, effort="low", out=None)
        digits = read_digits(here, n_pool=settings.size(settings.images, 10_000, 500))
        for name in names:
            row = _run(here, digits, RECIPES[name])
            found[name].append(row)
            print(seed, name, row, file=sys.stderr, flush=True)
    first = found[names[0]]
    return {
        "seeds": n_seeds,
        "recipes": {name: _summary(rows, first) for name, rows in found.items()},
    }


def _run(settings: Settings, digits: Digits, options: Mapping[str, Any]) -> dict[str, Any]:
    """The curve and area of every round, and the processor time of the whole run."""
    started = time.process_time()
    with made_run(settings, digits, **options) as run:
        seconds = time.process_time() - started
        rounds = scored_rounds(run, digits)
    return {
        "curves": [list(curve(r.score, r.guess, r.truth).values()) for r in rounds],
        "aurc": [figures(r.score, r.guess != r.truth)["aurc"] for r in rounds],
        "seconds": seconds,
    }


def _summary(rows: list[dict[str, Any]], first: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the seeds; cost and area also as shares of the defaults', seed by seed."""
    aurc, usual = (np.array([row["aurc"][-1] for row in each]) for each in (rows, first))
    cost, usual_cost = (np.array([row["seconds"] for row in each]) for each in (rows, first))
    return {
        "round_1": np.mean([r["curves"][0] for r in rows], axis=0).round(5).tolist(),
        "last": np.mean([r["curves"][-1] for r in rows], axis=0).round(5).tolist(),
        "aurc": round(float(aurc.mean()), 6),
        "each_aurc": aurc.tolist(),
        "aurc_ratio": round(float((aurc / usual).mean()), 3),
        "cost_ratio": round(float((cost / usual_cost).mean()), 3),
    }
