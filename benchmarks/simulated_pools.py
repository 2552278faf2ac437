"""Simulated pools with known labels, to count how often a bound is violated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surelabel.guarantees.certification import (
    CertifySample,
    candidate_thresholds,
    certified_threshold,
    wrong_images_upper_bound,
)
from surelabel.guarantees.confidence_sequence import anytime_upper_bound
from surelabel.types import BoolArray, FloatArray, IntArray

#: Of 2,000 bounds at 95 % more than this many are violated in one experiment of a thousand.
MOST_VIOLATED = 131


@dataclass(frozen=True)
class SimulatedPool:
    """A pool: scores, which predictions are wrong, and the sampling unit of each image."""

    scores: FloatArray
    wrong: BoolArray
    units: IntArray

    def draw(self, n_units: int, rng: np.random.Generator) -> CertifySample:
        """Certify images: ``n_units`` whole units, drawn uniformly."""
        chosen = rng.permutation(int(self.units.max()) + 1)[:n_units]
        return CertifySample(self.scores, self.units, np.isin(self.units, chosen), self.wrong)


def informative(n: int, error: float, power: float, rng: np.random.Generator) -> SimulatedPool:
    """Wrong with probability proportional to rank^power, ``error`` on average."""
    rank = (np.arange(n) + 0.5) / n
    chance = np.minimum(1.0, error * (power + 1) * rank**power)
    return SimulatedPool(rank, rng.random(n) < chance, np.arange(n))


def at_the_limit(n: int, max_error: float, rng: np.random.Generator) -> SimulatedPool:
    """Worthless scores, and one wrong image more than is allowed: the hardest pool."""
    wrong = np.zeros(n, dtype=bool)
    wrong[rng.permutation(n)[: int(max_error * n + 1e-9) + 1]] = True
    return SimulatedPool((np.arange(n) + 0.5) / n, wrong, np.arange(n))


def in_groups(n_groups: int, size: int, error: float, rng: np.random.Generator) -> SimulatedPool:
    """Groups of up to ``size`` images that are wrong together."""
    units = np.repeat(np.arange(n_groups), rng.integers(1, size + 1, n_groups))
    bad = rng.random(n_groups) < error
    scores = rng.random(len(units)) + 0.3 * bad[units]
    return SimulatedPool(scores, bad[units], units.astype(np.int64))


def is_violated(pool: SimulatedPool, accepted: BoolArray, max_error: float) -> bool:
    """Whether more than ``max_error`` of the accepted images are wrong."""
    return bool(pool.wrong[accepted].sum() > max_error * accepted.sum() + 1e-9)


@dataclass(frozen=True)
class Tally:
    """Results of many draws."""

    n: int
    violated: int
    refused: int
    coverage: float
    """Mean share of the pool that was accepted."""
    oracle: float
    """The same with all labels known, among the same candidate thresholds."""


def try_thresholds(
    make: Callable[[np.random.Generator], SimulatedPool],
    *,
    n_certify: int,
    max_error: float,
    n_draws: int,
    seed: int,
    delta: float = 0.05,
) -> Tally:
    """Certify a threshold in ``n_draws`` pools and count the violated targets."""
    rng = np.random.default_rng(seed)
    violated = refused = 0
    coverage, oracle = [], []
    for _ in range(n_draws):
        pool = make(rng)
        result = certified_threshold(pool.draw(n_certify, rng), max_error, delta)
        accepted = pool.scores <= result.threshold
        refused += not accepted.any()
        violated += is_violated(pool, accepted, max_error)
        coverage.append(accepted.mean())
        oracle.append(_oracle(pool, max_error))
    return Tally(n_draws, violated, refused, float(np.mean(coverage)), float(np.mean(oracle)))


def _oracle(pool: SimulatedPool, max_error: float) -> float:
    """The largest coverage of a candidate threshold that keeps the target."""
    order = np.argsort(pool.scores)
    n = np.searchsorted(pool.scores[order], candidate_thresholds(pool.scores), side="right")
    wrong = np.cumsum(pool.wrong[order])[n - 1]
    good = n[wrong <= max_error * n + 1e-9]
    return float(good.max(initial=0)) / len(order)


def try_fixed_thresholds(
    make: Callable[[np.random.Generator], SimulatedPool], *, n_certify: int, n_draws: int, seed: int
) -> int:
    """How often the bound at a fixed threshold is below the truth, at 95 %."""
    rng = np.random.default_rng(seed)
    violated = 0
    for _ in range(n_draws):
        pool = make(rng)
        accepted = pool.scores <= 0.7
        most = wrong_images_upper_bound(pool.draw(n_certify, rng), accepted, 0.05)
        violated += bool(pool.wrong[accepted].sum() > most)
    return violated


def try_audits(n_all: int, n_wrong: int, n_checks: int, *, n_draws: int, seed: int) -> int:
    """How often an auditor who reads the bound after every check ever sees it below the truth."""
    rng = np.random.default_rng(seed)
    violated = 0
    for _ in range(n_draws):
        wrong = rng.permutation(n_all)[:n_checks] < n_wrong
        violated += bool((anytime_upper_bound(n_all, wrong, 0.05) < n_wrong).any())
    return violated
