"""The promises on simulated pools: how often they are broken, what they reach, what they cost.

The pool of 10,600 images is shaped like a collection of photographs: 2 % of the dataset are wrong
when the surest 67 % are accepted, 5 % at 85 %, and half a percent of the very surest are wrong.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import simulated_pools as pools
from settings import Settings
from surelabel.guarantees.forecast import accepted_test, dataset_test, forecast

_CURVES = {"poor": (0.16, 1.5), "like photographs": (0.0905, 3.19), "good": (0.05, 8.0)}
"""Share wrong beside the noise, and how steeply wrong guesses gather at the unsure end."""


def main(settings: Settings) -> dict[str, Any]:
    n_draws = 2 if settings.tiny else 2000
    few = 1 if settings.tiny else 100
    return {
        "draws": n_draws,
        "most_violated_allowed": None if settings.tiny else pools.MOST_VIOLATED,
        "looks": _looks(n_draws),
        "surest_first": _surest_first(few, 1000 if settings.tiny else 10_600),
        "accepted_part": _accepted_part(few, 3300 if settings.tiny else 10_600),
        "forecast": _forecast(few),
    }


def photographs(
    n: int, wrong: float, power: float, noise: float, rng: np.random.Generator
) -> pools.SimulatedPool:
    """``noise`` of all guesses are wrong, and more and more towards the unsure end."""
    rank = (np.arange(n) + 0.5) / n
    chance = np.minimum(1.0, noise + wrong * (power + 1) * rank**power)
    return pools.SimulatedPool(rank, rng.random(n) < chance, np.arange(n))


def _looks(n_draws: int) -> list[dict[str, Any]]:
    """Violations of somebody who reads the result again and again, during two or three looks."""
    makers = {
        "poor scores": (partial(photographs, 2000, *_CURVES["poor"], 0.005), [300, 600]),
        "fair scores": (
            partial(photographs, 2000, *_CURVES["like photographs"], 0.005),
            [300, 600],
        ),
        "good scores": (partial(photographs, 2000, *_CURVES["good"], 0.0), [150, 300, 600]),
        "worthless scores": (partial(pools.informative, 2000, 0.12, 0.0), [150, 300, 600]),
        "one wrong more than allowed": (partial(pools.at_the_limit, 2000, 0.04), [150, 300]),
        "groups": (partial(pools.in_groups, 600, 4, 0.2), [120, 240]),
    }
    rows = []
    for name, (make, sizes) in makers.items():
        tally = pools.try_looks(make, sizes=sizes, max_error=0.04, n_draws=n_draws, seed=21)
        rows.append(
            {
                "scores": name,
                "looks": sizes,
                "violated": tally.violated,
                "refused": tally.refused,
                "coverage": round(tally.coverage, 4),
                "asked": round(tally.asked, 1),
                "sampled": round(tally.sampled, 1),
            }
        )
    return rows


def _surest_first(n_draws: int, n_pool: int) -> list[dict[str, Any]]:
    """Answers for the same outcome: all of the sample, or the surest first until it is over."""
    rows = []
    for name, (wrong, power) in _CURVES.items():
        for max_error in (0.02, 0.05):
            for n in (300, 600, 900):
                rng = np.random.default_rng(22)
                asked, coverage = [], []
                for _ in range(n_draws):
                    pool = photographs(n_pool, wrong, power, 0.005, rng)
                    sample = pools.with_looks(pool, [n], rng)
                    result = dataset_test(max_error, 0.05, 0.0)(sample)
                    accepted = sample.scores <= result.threshold
                    coverage.append(accepted.mean())
                    asked.append(min(n, (accepted & sample.checked).sum() + 1))
                rows.append(
                    {
                        "scores": name,
                        "max_error": max_error,
                        "sample": n,
                        "asked": round(float(np.mean(asked)), 1),
                        "coverage": round(float(np.mean(coverage)), 4),
                    }
                )
    return rows


def _accepted_part(n_draws: int, n_pool: int) -> list[dict[str, Any]]:
    """Coverage of the target for accepted labels by certify labels; it has to rise with them."""
    rows = []
    for name, (wrong, power) in _CURVES.items():
        for noise in (0.0, 0.005):
            for n in (400, 800, 1600, 3200):
                tally = pools.try_thresholds(
                    partial(photographs, n_pool, wrong, power, noise),
                    n_certify=n,
                    max_error=0.02,
                    n_draws=n_draws,
                    seed=23,
                )
                rows.append(
                    {
                        "scores": name,
                        "noise": noise,
                        "certify": n,
                        "coverage": round(tally.coverage, 4),
                        "oracle": round(tally.oracle, 4),
                        "refused": round(tally.refused / n_draws, 4),
                        "violated": tally.violated,
                    }
                )
    return rows


def _forecast(n_pools: int) -> list[dict[str, Any]]:
    """In how many pools the forecast's interval holds the coverage that is then reached."""
    tests = {"dataset": dataset_test(0.03, 0.05, 0.0), "accepted": accepted_test(0.03, 0.05)}
    rows = []
    for name, (wrong, power) in _CURVES.items():
        for scope, test in tests.items():
            for n_held in (100, 400):
                rng, n_covered = np.random.default_rng(24), 0
                for _ in range(n_pools):
                    pool = photographs(4000, wrong, power, 0.005, rng)
                    held = rng.integers(0, 4000, n_held)
                    (outlook,) = forecast(
                        pool.scores[held],
                        ~pool.wrong[held],
                        n_pool=4000,
                        sizes=(600,),
                        certify=test,
                        rng=rng,
                        n_draws=60 if n_pools > 1 else 5,
                    )
                    reached = (pool.scores <= test(pool.draw(600, rng)).threshold).mean()
                    n_covered += outlook.low <= reached <= outlook.high
                rows.append(
                    {
                        "scores": name,
                        "target": scope,
                        "held_out": n_held,
                        "covered": n_covered / n_pools,
                    }
                )
    return rows
