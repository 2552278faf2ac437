"""What images that look alike say of each other's labels.

A net that mistakes one way of drawing a class for another class is sure of each such image, and
training on its own guesses makes it surer. Other images that look like it, by their pixels and not
by what the net sees, are often guessed right: where they disagree, the guess is doubtful. Held-out
labels decide how much that counts, or that it does not.
"""

from __future__ import annotations

import numpy as np

from surelabel.accept.calibration import fit_temperature, temper
from surelabel.types import FloatArray, IntArray

N_ALIKE = 20
"""How many of the most similar images are asked."""
_POWERS = (0.25, 0.5, 0.75)
_LEAST = 1e-3
"""Twenty images that agree are no proof: no class has less than this."""
_FEWEST = 40
"""With fewer held-out labels nothing can be told from them."""


def heed(own: FloatArray, alike: FloatArray, power: float) -> FloatArray:
    """The product own * alike^power, summing to 1 again, (N, K); a power of 0 heeds nothing."""
    if not power:
        return own
    said = np.maximum(alike, _LEAST) ** power
    product = np.maximum(own, 1e-12) * said
    heeded: FloatArray = product / product.sum(axis=1, keepdims=True)
    return heeded


def heed_power(own: FloatArray, alike: FloatArray, labels: IntArray) -> float:
    """The power that makes held-out labels (N,) most likely, given (N, K) twice; 0 for none.

    Each is compared at its own best temperature: asking others must not win by mere doubt. The
    gain has to exceed twice its standard error.
    """
    if len(labels) < _FEWEST:
        return 0.0
    alone = _losses(own, labels)
    best, most = 0.0, 0.0
    for power in _POWERS:
        gain = alone - _losses(heed(own, alike, power), labels)
        mean, error = float(gain.mean()), float(gain.std() / np.sqrt(len(gain)))
        if mean > max(most, 2 * error):
            best, most = power, mean
    return best


def _losses(probabilities: FloatArray, labels: IntArray) -> FloatArray:
    """(N,) -ln p of the labels, at the temperature that suits them best."""
    tempered = temper(probabilities, fit_temperature(probabilities, labels))
    losses: FloatArray = -np.log(np.maximum(tempered[np.arange(len(labels)), labels], 1e-12))
    return losses
