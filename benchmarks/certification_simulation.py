"""How often bounds are violated in simulated pools: 2,000 draws each at full scale."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import simulated_pools as pools
from overfitting_simulation import try_overfitting
from settings import Settings
from surelabel.guarantees.bounds import whole_share
from surelabel.guarantees.critical_counts import critical_count

_SIZES = ((4000, 300, 0.02), (4000, 1000, 0.01), (20_000, 5000, 0.005), (20_000, 5000, 0.02))
"""Images in the pool, certify images, and the target."""


def main(settings: Settings) -> dict[str, Any]:
    n_draws = 3 if settings.tiny else 2000
    n_runs = 2 if settings.tiny else 200
    return {
        "draws": n_draws,
        "most_violated_allowed": pools.MOST_VIOLATED if not settings.tiny else None,
        "finished_dataset": _finished_dataset(n_draws),
        "certified_thresholds": _certified_thresholds(n_draws),
        "fixed_thresholds": _fixed_thresholds(n_draws),
        "audits": _audits(n_draws),
        "strata_of_audits": _strata_of_audits(2 if settings.tiny else 40),
        "end_to_end": [
            try_overfitting(n_runs, unbalanced=unbalanced, seed=11, with_tune=with_tune)
            for unbalanced in (False, True)
            for with_tune in (False, True)
        ],
    }


def _finished_dataset(n_draws: int) -> list[dict[str, Any]]:
    """All labels of a fixed sample are read; with strata, each has a target of its own besides.

    The hardest pool has one wrong image more than the sample is allowed to pass; where only one
    more than allowed is wrong, the sample finds and corrects some of them.
    """
    rows = []
    for n, n_certify, max_error in ((2000, 300, 0.05), (4000, 600, 0.02), (10_000, 1000, 0.01)):
        allowed = whole_share(max_error, n)
        too_many = allowed + critical_count(n, n_certify, allowed, 0.05)
        kinds = {
            "poor scores": partial(pools.informative, n, 4 * max_error, 1.0),
            "fair scores": partial(pools.informative, n, 4 * max_error, 4.0),
            "good scores": partial(pools.informative, n, 2 * max_error, 12.0),
            "worthless scores": partial(pools.informative, n, 3 * max_error, 0.0),
            "risk at the target": partial(pools.at_the_limit, n, max_error),
            "hardest for the test": partial(pools.at_the_limit, n, too_many / n),
        }
        for kind, make in kinds.items():
            tally = pools.try_dataset_thresholds(
                make, n_certify=n_certify, max_error=max_error, n_draws=n_draws, seed=12
            )
            row = {"pool": n, "certify": n_certify, "max_error": max_error, "scores": kind}
            rows.append({**row, **_rounded(tally)})
    others = {
        "groups": (partial(pools.in_groups, 1500, 8, 0.06), 400, 0),
        "three strata": (partial(pools.informative, 4000, 0.12, 1.0), 900, 3),
    }
    for kind, (make, n_certify, n_classes) in others.items():
        tally = pools.try_dataset_thresholds(
            make,
            n_certify=n_certify,
            max_error=0.05,
            n_draws=n_draws,
            seed=13,
            n_classes=n_classes,
        )
        rows.append({"certify": n_certify, "max_error": 0.05, "scores": kind, **_rounded(tally)})
    return rows


def _certified_thresholds(n_draws: int) -> list[dict[str, Any]]:
    rows = []
    for n, n_certify, max_error in _SIZES:
        kinds = {
            "poor scores": partial(pools.informative, n, 2 * max_error, 1.0),
            "fair scores": partial(pools.informative, n, 2 * max_error, 4.0),
            "good scores": partial(pools.informative, n, 2 * max_error, 12.0),
            "risk at the target": partial(pools.at_the_limit, n, max_error),
        }
        for kind, make in kinds.items():
            tally = pools.try_thresholds(
                make, n_certify=n_certify, max_error=max_error, n_draws=n_draws, seed=7
            )
            row = {"pool": n, "certify": n_certify, "max_error": max_error, "scores": kind}
            rows.append({**row, **_rounded(tally)})
    groups = pools.try_thresholds(
        partial(pools.in_groups, 1500, 8, 0.03),
        n_certify=400,
        max_error=0.05,
        n_draws=n_draws,
        seed=8,
    )
    row = {"pool": "1500 groups", "certify": "400 groups", "max_error": 0.05, "scores": "groups"}
    return [*rows, {**row, **_rounded(groups)}]


def _fixed_thresholds(n_draws: int) -> list[dict[str, Any]]:
    makers = {
        "images": (partial(pools.informative, 3000, 0.05, 2.0), 1000),
        "groups": (partial(pools.in_groups, 1000, 8, 0.03), 200),
    }
    return [
        {
            "units": name,
            "violated": pools.try_fixed_thresholds(
                make, n_certify=n_certify, n_draws=n_draws, seed=9
            ),
        }
        for name, (make, n_certify) in makers.items()
    ]


def _audits(n_draws: int) -> list[dict[str, Any]]:
    rows = []
    for n_all, n_wrong, n_checks in ((1000, 10, 1000), (5000, 100, 600), (5000, 5, 600)):
        violated = pools.try_audits(n_all, n_wrong, n_checks, n_draws=n_draws, seed=10)
        rows.append({"accepted": n_all, "wrong": n_wrong, "checks": n_checks, "violated": violated})
    return rows


def _strata_of_audits(n_draws: int) -> list[dict[str, Any]]:
    """Bounds of 8,000 accepted labels, wrong ones towards the unsure end: do strata pay?"""
    return [
        {
            "wrong": wrong,
            "checks": n_checks,
            **pools.try_strata_of_audits(
                partial(pools.informative, 8000, wrong, 3.2),
                n_checks=n_checks,
                sure_shares=(0.5, 0.3),
                n_draws=n_draws,
                seed=14,
            ),
        }
        for wrong in (0.002, 0.01, 0.03, 0.06)
        for n_checks in (300, 1200)
    ]


def _rounded(tally: pools.Tally) -> dict[str, Any]:
    values = {"violated": tally.violated, "refused": tally.refused}
    shares = {"coverage": tally.coverage, "oracle": tally.oracle}
    return {**values, **{name: float(np.round(value, 4)) for name, value in shares.items()}}
