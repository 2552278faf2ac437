"""Held-out labels correct the guesses: which class the nets take for which, and when.

Nets that learn from their own guesses take some ways of drawing a class for another class, all of
them alike. A few thousand held-out labels show where. With x = (1, ln p, ln q), p of the nets and
q of the neighbors, and h their product, the corrected probabilities are softmax(a ln h + x M):
matrix scaling (Guo et al., *On calibration of modern neural networks*, 2017) around what stands.
Priors hold M near 0, so that few labels change little; cross-validation decides whether anything
is changed. Products are sums of ``einsum``, which do not depend on how many threads there are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax

from surelabel.selection.calibration import fit_temperature, temper
from surelabel.types import FloatArray, IntArray

_OWN_LEAST = 1e-5
_ALIKE_LEAST = 1e-3
_OFFSET_DEVIATION = 0.3
"""Prior standard deviation of what is added to a class for every image."""
_WEIGHT_DEVIATION = 0.07
"""The same of the weight of a logarithm of a probability."""
_FOLDS = 5
_FEWEST = 100
"""With fewer held-out images or groups nothing is corrected."""
_FEWEST_A_CLASS = 10
"""With fewer held-out labels of any class the others would take its images."""
_LARGEST_SHIFT = 2.0
"""How many times as often a class may be guessed in the pool as among held-out images, or there as
in the pool: they would correct towards their own mix."""
_DOUBT = 3
"""So many guesses of a class more in either make no difference."""
_MOST_CLASSES = 30
"""With more the matrix is too large for the labels there are."""


@dataclass(frozen=True)
class MatrixScaling:
    """``scale`` is a, ``matrix`` (2K + 1, K) is M above."""

    scale: float
    matrix: FloatArray

    def __call__(self, product: FloatArray, own: FloatArray, alike: FloatArray) -> FloatArray:
        """Corrected probabilities; all are (N, K)."""
        return _corrected(self.scale, self.matrix, np.log(product), _evidence(own, alike))


def fit_matrix_scaling(
    product: FloatArray,
    own: FloatArray,
    alike: FloatArray,
    labels: IntArray,
    units: IntArray,
    mix: FloatArray,
) -> tuple[MatrixScaling, FloatArray] | None:
    """The scaling by held-out labels (N,), and these images corrected without their own label.

    None where the gain in cross-validation, over what is there at its best temperature, does not
    exceed its standard error, or where the labels are too few or their classes others than in the
    pool, where ``mix`` (K,) are the shares of the guesses. ``units`` (N,) are never divided between
    folds.
    """
    _, unit, sizes = np.unique(units, return_inverse=True, return_counts=True)
    if len(sizes) < _FEWEST or not _speaks_for(labels, own.argmax(axis=1), mix):
        return None
    base, evidence = np.log(product), _evidence(own, alike)
    fold = np.random.default_rng(0).permutation(len(sizes))[unit] % _FOLDS
    corrected, plain = np.empty_like(base), np.empty_like(base)
    for k in range(_FOLDS):
        rest, here = fold != k, fold == k
        found = _fit(base[rest], evidence[rest], labels[rest])
        corrected[here] = _corrected(found.scale, found.matrix, base[here], evidence[here])
        plain[here] = temper(product[here], fit_temperature(product[rest], labels[rest]))
    at = np.arange(len(labels))
    gain = np.log(np.maximum(corrected[at, labels], 1e-12)) - np.log(
        np.maximum(plain[at, labels], 1e-12)
    )
    each = np.bincount(unit, gain) / sizes
    if each.mean() <= each.std() / np.sqrt(len(each)):
        return None
    return _fit(base, evidence, labels), corrected


def _speaks_for(labels: IntArray, guess: IntArray, mix: FloatArray) -> bool:
    """Whether held-out images (N,) are of the same classes as the pool, about as often.

    Guesses are compared with guesses: what the nets take for another class they do in both.
    """
    counts, guessed = (np.bincount(each, minlength=len(mix)) for each in (labels, guess))
    if len(mix) > _MOST_CLASSES or counts.min() < _FEWEST_A_CLASS:
        return False
    shift = (mix * len(guess) + _DOUBT) / (guessed + _DOUBT)
    return bool((shift <= _LARGEST_SHIFT).all() and (shift >= 1 / _LARGEST_SHIFT).all())


def _evidence(own: FloatArray, alike: FloatArray) -> FloatArray:
    """(N, 2K + 1): 1, ln p, ln q."""
    logs = np.log(np.maximum(own, _OWN_LEAST)), np.log(np.maximum(alike, _ALIKE_LEAST))
    return np.concatenate([np.ones((len(own), 1)), *logs], axis=1)


def _corrected(
    scale: float, matrix: FloatArray, base: FloatArray, evidence: FloatArray
) -> FloatArray:
    probabilities: FloatArray = softmax(_moved(scale, matrix, base, evidence), axis=1)
    return probabilities


def _moved(scale: float, matrix: FloatArray, base: FloatArray, evidence: FloatArray) -> FloatArray:
    """(N, K) logits."""
    moved: FloatArray = scale * base + np.einsum("nd,dk->nk", evidence, matrix)
    return moved


def _fit(base: FloatArray, evidence: FloatArray, labels: IntArray) -> MatrixScaling:
    """The most probable scale and matrix, given the labels and the priors."""
    n, n_classes = base.shape
    shape = (evidence.shape[1], n_classes)
    deviation = np.full((shape[0], 1), _WEIGHT_DEVIATION)
    deviation[0] = _OFFSET_DEVIATION
    truth = np.eye(n_classes)[labels]

    def loss(flat: FloatArray) -> tuple[float, FloatArray]:
        scale, matrix = flat[0], flat[1:].reshape(shape)
        logs = log_softmax(_moved(scale, matrix, base, evidence), axis=1)
        miss = np.exp(logs) - truth
        value = -(truth * logs).sum() + ((matrix / deviation) ** 2).sum() / 2
        slope = np.einsum("nd,nk->dk", evidence, miss) + matrix / deviation**2
        return value / n, np.concatenate([[(miss * base).sum()], slope.ravel()]) / n

    start = np.zeros(1 + shape[0] * shape[1])
    start[0] = 1.0
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    return MatrixScaling(float(found[0]), found[1:].reshape(shape))
