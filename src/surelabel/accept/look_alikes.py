"""What images that look alike say of each other's labels.

A net that mistakes one way of drawing a class for another class is sure of each such image, and
training on its own guesses makes it surer. Other images that look like it, by their pixels and not
by what the net sees, are often guessed right: where they disagree, the guess is doubtful. Held-out
labels decide how much that counts, or that it does not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from surelabel.accept.calibration import fit_temperature, temper
from surelabel.choices import Measure
from surelabel.types import FloatArray, IntArray, Prediction
from surelabel.uncertainty import measure

_POWERS = (0.25, 0.5, 0.75)
_LEAST = 1e-3
"""Twenty images that agree are no proof: no class has less than this."""
_OWN_LEAST = 1e-30
_FEWEST = 40
"""With fewer held-out images or groups nothing can be told from them."""


def heed(prediction: Prediction, alike: FloatArray, power: float) -> Prediction:
    """``prediction`` with probabilities p * alike^power, summing to 1 again; alike is (N, K).

    Of the total uncertainty the samples' disagreement keeps its share. A power of 0 heeds nothing.
    """
    if not power:
        return prediction
    own = prediction.probabilities.astype(np.float64)
    heeded = replace(prediction, probabilities=_heeded(own, alike, power))
    entropies, traces = (
        [measure(each, total) for each in (prediction, heeded)]
        for total in (Measure.PREDICTIVE_ENTROPY, Measure.TOTAL_TRACE)
    )
    inside = 1 - prediction.expected_square.astype(np.float64)
    return replace(
        heeded,
        expected_entropy=_in_proportion(prediction.expected_entropy, *entropies),
        expected_square=1 - _in_proportion(inside, *traces),
    )


def heed_power(own: FloatArray, alike: FloatArray, labels: IntArray, units: IntArray) -> float:
    """The power that makes held-out labels (N,) most likely, given (N, K) twice; 0 for none.

    Each is compared at its own best temperature: asking others must not win by mere doubt. The
    gain has to exceed twice its standard error over the ``units`` (N,), of which there is one for
    each image or group.
    """
    _, unit, sizes = np.unique(units, return_inverse=True, return_counts=True)
    if len(sizes) < _FEWEST:
        return 0.0
    alone = _losses(own, labels)
    best, most = 0.0, 0.0
    for power in _POWERS:
        each = alone - _losses(_heeded(own, alike, power), labels)
        gain = np.bincount(unit, each) / sizes
        mean, error = float(gain.mean()), float(gain.std() / np.sqrt(len(gain)))
        if mean > max(most, 2 * error):
            best, most = power, mean
    return best


def _heeded(own: FloatArray, alike: FloatArray, power: float) -> FloatArray:
    product = np.maximum(own, _OWN_LEAST) * np.maximum(alike, _LEAST) ** power
    heeded: FloatArray = product / product.sum(axis=1, keepdims=True)
    return heeded


def _in_proportion(part: FloatArray, before: FloatArray, after: FloatArray) -> FloatArray:
    """The part (N,) of a total that went from ``before`` to ``after``; all of it if it was 0."""
    share = np.divide(part, before, where=before > 0, out=np.ones(len(before)))
    scaled: FloatArray = np.clip(share, 0, 1) * after
    return scaled


def _losses(probabilities: FloatArray, labels: IntArray) -> FloatArray:
    """(N,) -ln p of the labels, at the temperature that suits them best."""
    tempered = temper(probabilities, fit_temperature(probabilities, labels))
    losses: FloatArray = -np.log(np.maximum(tempered[np.arange(len(labels)), labels], 1e-12))
    return losses
