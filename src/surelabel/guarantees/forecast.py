"""Forecast how many certify labels give how much coverage, from held-out predictions of a run.

Held-out predictions (score, right or wrong) stand in for the pool. A pool is drawn from them many
times, certify images are drawn from it, and a threshold is certified as in a real run. The
held-out predictions are resampled with replacement first (bootstrap), together with one prediction
more that is wrong half of the time and stands anywhere: so the range of the forecast shows how
little a small number of held-out labels tells, above all where none of them is wrong. A forecast
guarantees nothing: it assumes that the nets stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from surelabel.guarantees.certification import (
    CertificationResult,
    CertifySample,
    certified_dataset_threshold,
    certified_threshold,
)
from surelabel.types import BoolArray, FloatArray

_MIN_HELD_OUT = 20
_LARGEST_POOL = 20_000
_RANGE = (0.01, 0.99)

Certify = Callable[[CertifySample], CertificationResult]


@dataclass(frozen=True)
class Outlook:
    """The coverage to expect from a number of certify labels: shares of the pool, 0 if refused."""

    n_certify: int
    low: float
    """One forecast in a hundred is below."""
    middle: float
    high: float
    """One forecast in a hundred is above."""
    refused: float
    """Share of forecasts in which nothing could be certified."""
    n_surest: float = 0.0
    """Mean number of certify images that are accepted: the answers that are needed."""
    n_left: float = 0.0
    """Mean number of images that are then left to people, in a pool of the real size."""


def forecast(
    scores: FloatArray,
    correct: BoolArray,
    *,
    n_pool: int,
    sizes: tuple[int, ...],
    certify: Certify,
    rng: np.random.Generator,
    n_draws: int = 100,
) -> list[Outlook]:
    """One ``Outlook`` for each number of certify labels in ``sizes``; none with too few held out.

    ``scores`` and ``correct`` (N,) are those of held-out labels; a score of inf marks a prediction
    that is never accepted. ``certify`` is the test that the run will make.
    """
    if len(scores) < _MIN_HELD_OUT:
        return []
    whole, n_pool = n_pool, min(n_pool, _LARGEST_POOL)
    outlooks = []
    for n_certify in (size for size in sizes if size <= n_pool):
        coverage, surest = np.zeros(n_draws), np.zeros(n_draws)
        for i in range(n_draws):
            sample = _simulate(scores, correct, n_pool, n_certify, rng)
            accepted = sample.scores <= certify(sample).threshold
            coverage[i], surest[i] = accepted.mean(), (accepted & sample.checked).sum()
        low, middle, high = np.quantile(coverage, [_RANGE[0], 0.5, _RANGE[1]]).tolist()
        refused, n_left = float((coverage == 0).mean()), whole * (1 - float(coverage.mean()))
        outlooks.append(
            Outlook(n_certify, low, middle, high, refused, float(surest.mean()), n_left)
        )
    return outlooks


def accepted_test(max_error: float, delta: float) -> Certify:
    """The test of the accepted labels."""
    return lambda sample: certified_threshold(sample, max_error, delta)


def dataset_test(max_error: float, delta: float, settled_share: float) -> Certify:
    """The test of the finished dataset; ``settled_share`` of images have a human label before,
    as a share of the pool.
    """

    def test(sample: CertifySample) -> CertificationResult:
        n_labels = round(len(sample.scores) * (1 + settled_share))
        return certified_dataset_threshold(sample, max_error, delta, n_labels=n_labels)

    return test


def _simulate(
    scores: FloatArray, correct: BoolArray, n_pool: int, n_certify: int, rng: np.random.Generator
) -> CertifySample:
    """A pool drawn from the held-out predictions, and certify images drawn from it."""
    extra = scores[rng.integers(0, len(scores))]
    scores, correct = np.append(scores, extra), np.append(correct, rng.random() < 0.5)
    bootstrap = rng.integers(0, len(scores), len(scores))
    rows = bootstrap[rng.integers(0, len(bootstrap), n_pool)]
    checked = np.zeros(n_pool, dtype=bool)
    checked[rng.permutation(n_pool)[:n_certify]] = True
    # Copies of a prediction have equal scores: break the ties, or many candidates become one.
    place = np.unique(scores, return_inverse=True)[1]
    ranks = np.empty(n_pool)
    ranks[np.argsort(place[rows] + rng.random(n_pool))] = np.arange(n_pool)
    ranks[np.isinf(scores)[rows]] = np.inf
    return CertifySample(ranks, np.arange(n_pool, dtype=np.int64), checked, ~correct[rows])
