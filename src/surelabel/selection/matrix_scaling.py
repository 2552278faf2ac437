"""Matrix scaling: held-out labels show which class the nets mistake for which, and when.

Nets that learn from their own guesses mistake some ways of drawing a class for another class,
consistently. A few thousand held-out labels show where. With x = (1, ln p, ln q), p of the nets, q
of the neighbors and h their product after the vote, the scaled probabilities are
softmax(a ln h + x M): matrix scaling (Guo et al., *On calibration of modern neural networks*,
2017) around the present prediction. Priors keep M near 0, so few labels change little, and
cross-validation decides whether anything is changed at all. Products are sums by ``einsum``, which
do not depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from surelabel.selection.calibration import fit_temperature, temper
from surelabel.types import FloatArray, IntArray

SMALLEST_PROBABILITY = 1e-5
_SMALLEST_VOTE = 1e-3
_OFFSET_DEVIATION = 0.3
"""Prior standard deviation of the offset of a class."""
_WEIGHT_DEVIATION = 0.07
"""Prior standard deviation of the weight of a log-probability."""
_FOLDS = 5
_MIN_HELD_OUT = 100
"""With fewer held-out images or groups nothing is scaled."""
_MIN_PER_CLASS = 10
"""With fewer held-out labels of a class, the other classes would take its images."""
_LARGEST_SHIFT = 2.0
"""Largest ratio between the shares of a class among the guesses of the pool and of the held-out
images: beyond it scaling would pull the pool towards the class shares of the held-out images."""
_PSEUDO_COUNT = 3
"""Added to both counts of that ratio, so that rare classes do not decide."""
_MAX_CLASSES = 30
"""With more, the matrix is too large for the labels there are."""


@dataclass(frozen=True)
class MatrixScaling:
    """``scale`` is a, ``matrix`` (2K + 1, K) is M above."""

    scale: float
    matrix: FloatArray

    def __call__(self, voted: FloatArray, own: FloatArray, votes: FloatArray) -> FloatArray:
        """Scaled probabilities; all are (N, K)."""
        return _scaled(self.scale, self.matrix, np.log(voted), _inputs(own, votes))


def fit_matrix_scaling(
    voted: FloatArray,
    own: FloatArray,
    votes: FloatArray,
    labels: IntArray,
    units: IntArray,
    pool_shares: FloatArray,
) -> tuple[MatrixScaling, FloatArray] | None:
    """The scaling fitted to held-out labels (N,), and out-of-fold scaled probabilities (N, K).

    None where the cross-validated gain over the same probabilities at their best temperature does
    not exceed its standard error, where labels are too few, or where the held-out images are of
    other classes than the pool, whose guesses have the shares ``pool_shares`` (K,). ``units`` (N,)
    are never divided between folds.
    """
    _, unit, sizes = np.unique(units, return_inverse=True, return_counts=True)
    if len(sizes) < _MIN_HELD_OUT or not _represents_pool(labels, own.argmax(axis=1), pool_shares):
        return None
    base, inputs = np.log(voted), _inputs(own, votes)
    fold = np.random.default_rng(0).permutation(len(sizes))[unit] % _FOLDS
    scaled, plain = np.empty_like(base), np.empty_like(base)
    for k in range(_FOLDS):
        rest, here = fold != k, fold == k
        fitted = _fit(base[rest], inputs[rest], labels[rest])
        scaled[here] = _scaled(fitted.scale, fitted.matrix, base[here], inputs[here])
        plain[here] = temper(voted[here], fit_temperature(voted[rest], labels[rest]))
    at = np.arange(len(labels))
    gain = np.log(np.maximum(scaled[at, labels], 1e-12)) - np.log(
        np.maximum(plain[at, labels], 1e-12)
    )
    per_unit = np.bincount(unit, gain) / sizes
    if per_unit.mean() <= per_unit.std() / np.sqrt(len(per_unit)):
        return None
    return _fit(base, inputs, labels), scaled


def _represents_pool(labels: IntArray, guess: IntArray, pool_shares: FloatArray) -> bool:
    """Whether held-out images (N,) are of the same classes as the pool, about as often.

    Guesses are compared with guesses: the nets make the same mistakes in both.
    """
    counts, guessed = (np.bincount(each, minlength=len(pool_shares)) for each in (labels, guess))
    if len(pool_shares) > _MAX_CLASSES or counts.min() < _MIN_PER_CLASS:
        return False
    shift = (pool_shares * len(guess) + _PSEUDO_COUNT) / (guessed + _PSEUDO_COUNT)
    return bool((shift <= _LARGEST_SHIFT).all() and (shift >= 1 / _LARGEST_SHIFT).all())


def _inputs(own: FloatArray, votes: FloatArray) -> FloatArray:
    """(N, 2K + 1): 1, ln p, ln q."""
    logs = np.log(np.maximum(own, SMALLEST_PROBABILITY)), np.log(np.maximum(votes, _SMALLEST_VOTE))
    return np.concatenate([np.ones((len(own), 1)), *logs], axis=1)


def _scaled(scale: float, matrix: FloatArray, base: FloatArray, inputs: FloatArray) -> FloatArray:
    probabilities: FloatArray = softmax(_logits(scale, matrix, base, inputs), axis=1)
    return probabilities


def _logits(scale: float, matrix: FloatArray, base: FloatArray, inputs: FloatArray) -> FloatArray:
    logits: FloatArray = scale * base + np.einsum("nd,dk->nk", inputs, matrix)
    return logits


def _fit(base: FloatArray, inputs: FloatArray, labels: IntArray) -> MatrixScaling:
    """The most probable scale and matrix, given the labels and the priors."""
    n, n_classes = base.shape
    shape = (inputs.shape[1], n_classes)
    deviation = np.full((shape[0], 1), _WEIGHT_DEVIATION)
    deviation[0] = _OFFSET_DEVIATION
    truth = np.eye(n_classes)[labels]

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        scale, matrix = flat[0], flat[1:].reshape(shape)
        logs = log_softmax(_logits(scale, matrix, base, inputs), axis=1)
        miss = np.exp(logs) - truth
        value = -(truth * logs).sum() + ((matrix / deviation) ** 2).sum() / 2
        slope = np.einsum("nd,nk->dk", inputs, miss) + matrix / deviation**2
        return value / n, np.concatenate([[(miss * base).sum()], slope.ravel()]) / n

    start = np.zeros(1 + shape[0] * shape[1])
    start[0] = 1.0
    best = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    return MatrixScaling(float(best[0]), best[1:].reshape(shape))
