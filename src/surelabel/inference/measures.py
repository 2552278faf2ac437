"""Measures of uncertainty of a reduced prediction. Higher is more uncertain, always.

Symbols: p is the (K,) softmax output of one sampled network, E the mean over the T samples,
H the entropy in nats, s the predicted log noise variance. Every function takes a
``Prediction`` of N items and returns (N,). Paper: § Inverse Uncertainty Weighting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from surelabel.config.choices import Measure
from surelabel.types import FloatArray, Prediction


def entropy(probabilities: FloatArray) -> FloatArray:
    """H[p] = -sum_k p_k ln p_k over the last axis, with 0 ln 0 = 0. (..., K) -> (...)."""
    p = np.asarray(probabilities, dtype=np.float64)
    logs = np.log(p, where=p > 0, out=np.zeros_like(p))
    total: FloatArray = -(p * logs).sum(axis=-1)
    return np.maximum(total, 0.0)


def least_confidence(prediction: Prediction) -> FloatArray:
    """1 - max_k E[p]_k, as the sum over the other classes, so that it does not round to 0."""
    p = prediction.probabilities.astype(np.float64)
    others = np.where(np.arange(p.shape[1]) == prediction.guess[:, None], 0.0, p)
    total: FloatArray = others.sum(axis=1)
    return total


def margin(prediction: Prediction) -> FloatArray:
    """1 - (highest - second highest of E[p])."""
    top = np.partition(prediction.probabilities.astype(np.float64), -2, axis=1)[:, -2:]
    gap: FloatArray = 1.0 - (top[:, 1] - top[:, 0])
    return gap


def predictive_entropy(prediction: Prediction) -> FloatArray:
    """H[E p]: the entropy of the mean output, aleatoric and epistemic together."""
    return entropy(prediction.probabilities)


def expected_entropy(prediction: Prediction) -> FloatArray:
    """E H[p]: the uncertainty that would remain if the weights were known."""
    return prediction.expected_entropy.astype(np.float64)


def mutual_information(prediction: Prediction) -> FloatArray:
    """H[E p] - E H[p] >= 0: how much the sampled networks disagree."""
    return np.maximum(predictive_entropy(prediction) - expected_entropy(prediction), 0.0)


def aleatoric_variance(prediction: Prediction) -> FloatArray:
    """E[exp(s)]: the noise variance that the network predicts for the image."""
    return prediction.aleatoric_variance.astype(np.float64)


def variance_trace(prediction: Prediction) -> FloatArray:
    """sum_k (E[p_k^2] - E[p_k]^2) >= 0: the epistemic part of the trace."""
    spread = prediction.expected_square.astype(np.float64) - _squared_norm(prediction)
    return np.maximum(spread, 0.0)


def total_trace(prediction: Prediction) -> FloatArray:
    """1 - sum_k E[p_k]^2: the paper's first total, aleatoric 1 - E[sum p^2] plus epistemic."""
    return 1.0 - _squared_norm(prediction)


def total_variance(prediction: Prediction) -> FloatArray:
    """E[exp(s)] + H[E p]: the paper's second total, the one in Algorithm 1."""
    return aleatoric_variance(prediction) + predictive_entropy(prediction)


def _squared_norm(prediction: Prediction) -> FloatArray:
    total: FloatArray = (prediction.probabilities.astype(np.float64) ** 2).sum(axis=1)
    return total


MEASURES: Mapping[Measure, Callable[[Prediction], FloatArray]] = {
    Measure.LEAST_CONFIDENCE: least_confidence,
    Measure.MARGIN: margin,
    Measure.PREDICTIVE_ENTROPY: predictive_entropy,
    Measure.EXPECTED_ENTROPY: expected_entropy,
    Measure.MUTUAL_INFORMATION: mutual_information,
    Measure.ALEATORIC_VARIANCE: aleatoric_variance,
    Measure.VARIANCE_TRACE: variance_trace,
    Measure.TOTAL_TRACE: total_trace,
    Measure.TOTAL_VARIANCE: total_variance,
}


def measure(prediction: Prediction, which: Measure) -> FloatArray:
    """One measure by name, (N,)."""
    return MEASURES[which](prediction)


def all_measures(prediction: Prediction) -> dict[Measure, FloatArray]:
    """Every measure, in the order of ``Measure``."""
    return {name: function(prediction) for name, function in MEASURES.items()}
