"""About how many certify labels give what coverage at an error, from the run's own curve.

Held-out predictions (score, right or wrong) stand in for the pool: a pool is drawn from them again
and again, certify images are drawn from it, and the certified threshold is found as it would be in
earnest. Drawing the held-out predictions with replacement first shows how little a small tune
split tells. It is a forecast, not a promise: it takes the net as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surelabel.guarantees.certification import CertifySample, certified_threshold
from surelabel.types import BoolArray, FloatArray

_FEWEST = 20
_LARGEST_POOL = 20_000


@dataclass(frozen=True)
class Outlook:
    """What so many certify labels would give: coverage as shares of the pool, 0 for a refusal."""

    n_certify: int
    low: float
    """One forecast in ten is below."""
    middle: float
    high: float
    """One forecast in ten is above."""
    refused: float
    """Share of forecasts in which nothing could be certified."""


def forecast(
    scores: FloatArray,
    correct: BoolArray,
    *,
    n_pool: int,
    sizes: tuple[int, ...],
    max_error: float,
    delta: float,
    rng: np.random.Generator,
    n_draws: int = 40,
) -> list[Outlook]:
    """One ``Outlook`` for each number of certify labels in ``sizes``; none with too few held out.

    ``scores`` and ``correct`` (N,) are of held-out labels, inf where a guess is never accepted;
    ``rng`` draws.
    """
    if len(scores) < _FEWEST:
        return []
    n_pool = min(n_pool, _LARGEST_POOL)
    outlooks = []
    for n_certify in (size for size in sizes if size <= n_pool):
        coverage = np.array(
            [
                _coverage(scores, correct, n_pool, n_certify, max_error, delta, rng)
                for _ in range(n_draws)
            ]
        )
        low, middle, high = np.quantile(coverage, [0.1, 0.5, 0.9])
        refused = float((coverage == 0).mean())
        outlooks.append(Outlook(n_certify, float(low), float(middle), float(high), refused))
    return outlooks


def _coverage(
    scores: FloatArray,
    correct: BoolArray,
    n_pool: int,
    n_certify: int,
    max_error: float,
    delta: float,
    rng: np.random.Generator,
) -> float:
    again = rng.integers(0, len(scores), len(scores))
    rows = again[rng.integers(0, len(again), n_pool)]
    checked = np.zeros(n_pool, dtype=bool)
    checked[rng.permutation(n_pool)[:n_certify]] = True
    # Equal scores would make one step of many candidates: spread them inside their ties.
    spread = np.argsort(np.lexsort((rng.random(n_pool), scores[rows]))).astype(float)
    spread[np.isinf(scores[rows])] = np.inf
    sample = CertifySample(spread, np.arange(n_pool, dtype=np.int64), checked, ~correct[rows])
    verdict = certified_threshold(sample, max_error, delta)
    return float((sample.scores <= verdict.threshold).mean())
