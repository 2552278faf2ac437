"""Pools whose truth is known, to see how often a promise is broken. The tests use them small."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surelabel.guarantees.certification import (
    CertifySample,
    bound_at,
    candidates,
    certified_threshold,
)
from surelabel.guarantees.confidence_sequence import most_wrong_any_time
from surelabel.types import BoolArray, FloatArray, IntArray

#: Of 2,000 bounds at 95 % more than this many are violated in one experiment of a thousand.
MOST_VIOLATED = 131


@dataclass(frozen=True)
class World:
    """A pool: scores, which guesses are wrong, and the sampling unit of each image."""

    scores: FloatArray
    wrong: BoolArray
    units: IntArray

    def draw(self, n_units: int, rng: np.random.Generator) -> CertifySample:
        """Certify images: ``n_units`` whole units, drawn uniformly."""
        chosen = rng.permutation(int(self.units.max()) + 1)[:n_units]
        return CertifySample(self.scores, self.units, np.isin(self.units, chosen), self.wrong)


def informative(n: int, error: float, power: float, rng: np.random.Generator) -> World:
    """Wrong with probability proportional to rank^power, ``error`` on average."""
    rank = (np.arange(n) + 0.5) / n
    chance = np.minimum(1.0, error * (power + 1) * rank**power)
    return World(rank, rng.random(n) < chance, np.arange(n))


def at_the_limit(n: int, max_error: float, rng: np.random.Generator) -> World:
    """Scores that tell nothing and one wrong image more than is allowed: the hardest pool."""
    wrong = np.zeros(n, dtype=bool)
    wrong[rng.permutation(n)[: int(max_error * n + 1e-9) + 1]] = True
    return World((np.arange(n) + 0.5) / n, wrong, np.arange(n))


def in_groups(n_groups: int, size: int, error: float, rng: np.random.Generator) -> World:
    """Groups of up to ``size`` images that are wrong together."""
    units = np.repeat(np.arange(n_groups), rng.integers(1, size + 1, n_groups))
    bad = rng.random(n_groups) < error
    scores = rng.random(len(units)) + 0.3 * bad[units]
    return World(scores, bad[units], units.astype(np.int64))


def is_broken(world: World, accepted: BoolArray, max_error: float) -> bool:
    """Whether more than the promised share of the accepted is wrong."""
    return bool(world.wrong[accepted].sum() > max_error * accepted.sum() + 1e-9)


@dataclass(frozen=True)
class Tally:
    """What many draws came to."""

    n: int
    broken: int
    refused: int
    coverage: float
    """Mean share of the pool that was accepted."""
    oracle: float
    """The same with all labels known, among the same candidates."""


def try_thresholds(
    make: Callable[[np.random.Generator], World],
    *,
    n_certify: int,
    max_error: float,
    n_draws: int,
    seed: int,
    delta: float = 0.05,
) -> Tally:
    """Certify a threshold in ``n_draws`` pools and count the broken promises."""
    rng = np.random.default_rng(seed)
    broken = refused = 0
    coverage, oracle = [], []
    for _ in range(n_draws):
        world = make(rng)
        verdict = certified_threshold(world.draw(n_certify, rng), max_error, delta)
        accepted = world.scores <= verdict.threshold
        refused += not accepted.any()
        broken += is_broken(world, accepted, max_error)
        coverage.append(accepted.mean())
        oracle.append(_oracle(world, max_error))
    return Tally(n_draws, broken, refused, float(np.mean(coverage)), float(np.mean(oracle)))


def _oracle(world: World, max_error: float) -> float:
    """The largest coverage of a candidate that keeps the error."""
    order = np.argsort(world.scores)
    n = np.searchsorted(world.scores[order], candidates(world.scores), side="right")
    wrong = np.cumsum(world.wrong[order])[n - 1]
    good = n[wrong <= max_error * n + 1e-9]
    return float(good.max(initial=0)) / len(order)


def try_fences(
    make: Callable[[np.random.Generator], World], *, n_certify: int, n_draws: int, seed: int
) -> int:
    """How often the bound at a fixed fence is below the truth, at 95 %."""
    rng = np.random.default_rng(seed)
    broken = 0
    for _ in range(n_draws):
        world = make(rng)
        accepted = world.scores <= 0.7
        most = bound_at(world.draw(n_certify, rng), accepted, 0.05)
        broken += bool(world.wrong[accepted].sum() > most)
    return broken


def try_audits(n_all: int, n_wrong: int, n_checks: int, *, n_draws: int, seed: int) -> int:
    """How often an auditor who looks after every check ever sees a bound below the truth."""
    rng = np.random.default_rng(seed)
    broken = 0
    for _ in range(n_draws):
        wrong = rng.permutation(n_all)[:n_checks] < n_wrong
        broken += bool((most_wrong_any_time(n_all, wrong, 0.05) < n_wrong).any())
    return broken
