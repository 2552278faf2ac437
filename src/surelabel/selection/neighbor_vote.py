"""What images that look alike say of each other's labels.

A net that mistakes one way of drawing a class for another class is sure of each such image, and
training on its own guesses makes it surer. Other images that look like it, by their pixels and not
by what the net sees, are often guessed right: where they disagree, the guess is doubtful. That
counts a little unless held-out labels tell against it, and more where they tell for it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from surelabel.config.choices import Measure
from surelabel.inference.measures import measure
from surelabel.selection.calibration import is_clear, losses_at_best
from surelabel.selection.matrix_scaling import MatrixScaling, fit_matrix_scaling
from surelabel.types import FloatArray, IntArray, Prediction

_USUAL = 0.25
"""The power where held-out labels are too few, or too rarely mistaken, to choose another."""
_MORE = (0.5, 0.75)
_LEAST = 1e-3
"""Twenty images that agree are no proof: no class has less than this."""
_OWN_LEAST = 1e-30
_FEWEST = 40
"""With fewer held-out images or groups nothing can be told from them."""


@dataclass(frozen=True)
class Adjustment:
    """How much neighbors have a say (0: none), and what held-out labels correct of it."""

    power: float
    scaling: MatrixScaling | None = None

    @property
    def is_identity(self) -> bool:
        """Whether guesses stay as they are."""
        return not self.power and self.scaling is None

    def __call__(self, own: FloatArray, alike: FloatArray) -> FloatArray:
        """Probabilities own * alike^power, summing to 1 again, corrected; all are (N, K)."""
        product = _voted(own, alike, self.power)
        return product if self.scaling is None else self.scaling(product, own, alike)


def adjust(prediction: Prediction, alike: FloatArray, adjustment: Adjustment) -> Prediction:
    """``prediction`` with the say of its neighbors, (N, K)."""
    if adjustment.is_identity:
        return prediction
    return with_probabilities(prediction, adjustment(_own(prediction), alike))


def with_probabilities(prediction: Prediction, probabilities: FloatArray) -> Prediction:
    """``prediction`` with other probabilities, (N, K).

    Of the total uncertainty the samples' disagreement keeps its share.
    """
    adjusted = replace(prediction, probabilities=probabilities)
    entropies, traces = (
        [measure(each, total) for each in (prediction, adjusted)]
        for total in (Measure.PREDICTIVE_ENTROPY, Measure.TOTAL_TRACE)
    )
    inside = 1 - prediction.expected_square.astype(np.float64)
    return replace(
        adjusted,
        expected_entropy=_in_proportion(prediction.expected_entropy, *entropies),
        expected_square=1 - _in_proportion(inside, *traces),
    )


def fit_adjustment(
    prediction: Prediction,
    alike: FloatArray,
    labels: IntArray,
    units: IntArray,
    mix: FloatArray | None,
) -> tuple[Prediction, Adjustment]:
    """Held-out images with the say of their neighbors (N, K), and how much they say.

    That is decided by these labels (N,), so each image is corrected by the others' alone. ``units``
    (N,) are equal where images are of one group, ``mix`` (K,) is how frequent classes are in the
    pool; None corrects nothing.
    """
    own = _own(prediction)
    power = choose_power(own, alike, labels, units)
    product = _voted(own, alike, power)
    found = None
    if mix is not None:
        found = fit_matrix_scaling(product, own, alike, labels, units, mix)
    if found is None:
        return adjust(prediction, alike, Adjustment(power)), Adjustment(power)
    scaling, out_of_fold = found
    return with_probabilities(prediction, out_of_fold), Adjustment(power, scaling)


def _own(prediction: Prediction) -> FloatArray:
    own: FloatArray = prediction.probabilities.astype(np.float64)
    return own


def choose_power(own: FloatArray, alike: FloatArray, labels: IntArray, units: IntArray) -> float:
    """How much neighbors have a say, by held-out labels (N,), given (N, K) twice; 0 for none.

    The usual power, unless labels are clearly less likely under it; a higher one where they are
    likelier by more than two standard errors, and likeliest. Each is compared at its own best
    temperature: asking others must not win by mere doubt. Errors are over the ``units`` (N,), of
    which there is one for each image or group.
    """
    _, unit, sizes = np.unique(units, return_inverse=True, return_counts=True)
    if len(sizes) < _FEWEST:
        return _USUAL
    alone = losses_at_best(own, labels)

    def gains(power: float) -> FloatArray:
        each = alone - losses_at_best(_voted(own, alike, power), labels)
        by_unit: FloatArray = np.bincount(unit, each) / sizes
        return by_unit

    usual = gains(_USUAL)
    best, most = 0.0 if is_clear(-usual) else _USUAL, usual.mean()
    for power in _MORE:
        more = gains(power)
        if more.mean() > max(most, 2 * more.std() / np.sqrt(len(more))):
            best, most = power, more.mean()
    return best


def _voted(own: FloatArray, alike: FloatArray, power: float) -> FloatArray:
    product = np.maximum(own, _OWN_LEAST) * np.maximum(alike, _LEAST) ** power
    adjusted: FloatArray = product / product.sum(axis=1, keepdims=True)
    return adjusted


def _in_proportion(part: FloatArray, before: FloatArray, after: FloatArray) -> FloatArray:
    """The part (N,) of a total that went from ``before`` to ``after``; all of it if it was 0."""
    share = np.divide(part, before, where=before > 0, out=np.ones(len(before)))
    scaled: FloatArray = np.clip(share, 0, 1) * after
    return scaled
