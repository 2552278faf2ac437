"""Probabilities that mean what they say, for people to read; scores are taken before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from surelabel.types import BoolArray, FloatArray, IntArray

_SMALLEST = 1e-12
_LOG_TEMPERATURES = (-3.0, 3.0)
_MIN_LABELS = 10
_MIN_GAIN = 0.001
"""Nats per label. Where nearly all labels are right, a smaller gain is mere confidence."""


def temper(probabilities: FloatArray, temperature: float) -> FloatArray:
    """p^(1/T), summing to 1 again, (N, K) -> (N, K). Above 1 less sure, below 1 surer."""
    logs = np.log(np.maximum(probabilities.astype(np.float64), _SMALLEST)) / temperature
    powers = np.exp(logs - logs.max(axis=1, keepdims=True))
    tempered: FloatArray = powers / powers.sum(axis=1, keepdims=True)
    return tempered


def fit_temperature(probabilities: FloatArray, labels: IntArray) -> float:
    """The T that makes held-out labels (N,) most likely under (N, K); 1 with too few of them."""
    if len(labels) < _MIN_LABELS:
        return 1.0

    def loss(log_temperature: float) -> float:
        tempered = temper(probabilities, float(np.exp(log_temperature)))
        chosen = tempered[np.arange(len(labels)), labels]
        return float(-np.log(np.maximum(chosen, _SMALLEST)).mean())

    best = minimize_scalar(loss, bounds=_LOG_TEMPERATURES, method="bounded")
    return float(np.exp(best.x))


def losses_at_best_temperature(
    probabilities: FloatArray, labels: IntArray, coolest: float = 0.0
) -> FloatArray:
    """(N,) -ln p of the labels (N,) under (N, K), at the temperature that fits them best.

    The temperature is at least ``coolest``. So compared, being more or less sure is no merit.
    """
    tempered = temper(probabilities, max(coolest, fit_temperature(probabilities, labels)))
    losses: FloatArray = -np.log(np.maximum(tempered[np.arange(len(labels)), labels], _SMALLEST))
    return losses


def is_clear_gain(gains: FloatArray) -> bool:
    """Whether the mean gain in nats, (N,), exceeds its standard error and is worth having."""
    error = float(gains.std() / np.sqrt(len(gains)))
    return float(gains.mean()) > max(error, _MIN_GAIN)


@dataclass(frozen=True)
class Bin:
    """Guesses with about the same probability: how sure they are, and how often right."""

    low: float
    high: float
    n: int
    mean_probability: float
    accuracy: float


def reliability(probability: FloatArray, correct: BoolArray, n_bins: int = 10) -> list[Bin]:
    """Bins of equal width over the probability of the guess, (N,); empty ones are left out."""
    edges = np.linspace(0, 1, n_bins + 1)
    at = np.clip(np.ceil(probability * n_bins).astype(np.int64) - 1, 0, n_bins - 1)
    bins = []
    for i in np.unique(at):
        inside = at == i
        mean = float(probability[inside].mean())
        right = float(correct[inside].mean())
        bins.append(Bin(float(edges[i]), float(edges[i + 1]), int(inside.sum()), mean, right))
    return bins


def expected_calibration_error(
    probability: FloatArray, correct: BoolArray, n_bins: int = 10
) -> float:
    """Mean gap between probability and accuracy over the bins of ``reliability``; nan if empty."""
    bins = reliability(probability, correct, n_bins)
    if not bins:
        return float("nan")
    gaps = sum(b.n * abs(b.accuracy - b.mean_probability) for b in bins)
    return float(gaps / sum(b.n for b in bins))
