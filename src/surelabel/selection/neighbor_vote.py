"""The neighbor vote: predictions of similar images correct an image's own.

A net that mistakes one way of drawing a class for another class is sure of each such image, and
training on its own guesses makes it surer. Other images that look similar, by their pixels and not
by the net's features, are often predicted right: where they disagree, the guess is doubtful. The
vote counts a little unless held-out labels speak against it, and more where they speak for it.

With p the net's probabilities and q the mean prediction for the nearest neighbors, the vote is
p q^power, normalized, with the power chosen by held-out labels. Matrix scaling may follow.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from surelabel.config.choices import Measure
from surelabel.inference.measures import measure
from surelabel.selection.calibration import is_clear_gain, losses_at_best_temperature
from surelabel.selection.matrix_scaling import MatrixScaling, fit_matrix_scaling
from surelabel.types import FloatArray, IntArray, Prediction

_DEFAULT_POWER = 0.25
"""Used where held-out labels are too few, or too rarely mispredicted, to choose another."""
_HIGHER_POWERS = (0.5, 0.75)
SMALLEST_VOTE = 1e-3
"""Twenty neighbors that agree are no proof: no class gets less than this."""
SMALLEST_OWN = 1e-30
_MIN_HELD_OUT = 40
"""With fewer held-out images or groups nothing can be decided by them."""


@dataclass(frozen=True)
class Adjustment:
    """What a round does to its predictions: a vote of neighbors, then matrix scaling."""

    power: float
    """Of the neighbors' mean prediction; 0 for no vote."""
    scaling: MatrixScaling | None = None

    @property
    def is_identity(self) -> bool:
        """Whether predictions stay as they are."""
        return not self.power and self.scaling is None

    def __call__(self, own: FloatArray, votes: FloatArray) -> FloatArray:
        """Probabilities of the net and of the neighbors -> adjusted ones; all (N, K)."""
        voted = _vote(own, votes, self.power)
        return voted if self.scaling is None else self.scaling(voted, own, votes)


NO_ADJUSTMENT = Adjustment(0.0)


def adjust(prediction: Prediction, votes: FloatArray, adjustment: Adjustment) -> Prediction:
    """``prediction`` adjusted by the neighbors' votes (N, K)."""
    if adjustment.is_identity:
        return prediction
    return with_probabilities(prediction, adjustment(_own(prediction), votes))


def with_probabilities(prediction: Prediction, probabilities: FloatArray) -> Prediction:
    """``prediction`` with other probabilities (N, K).

    The disagreement among the samples keeps its share of the total uncertainty.
    """
    adjusted = replace(prediction, probabilities=probabilities)
    entropies, traces = (
        [measure(each, total) for each in (prediction, adjusted)]
        for total in (Measure.PREDICTIVE_ENTROPY, Measure.TOTAL_TRACE)
    )
    aleatoric = 1 - prediction.expected_square.astype(np.float64)
    return replace(
        adjusted,
        expected_entropy=_in_proportion(prediction.expected_entropy, *entropies),
        expected_square=1 - _in_proportion(aleatoric, *traces),
    )


def fit_adjustment(
    prediction: Prediction,
    votes: FloatArray,
    labels: IntArray,
    units: IntArray,
    pool_shares: FloatArray | None,
) -> tuple[Prediction, Adjustment]:
    """Adjusted predictions of held-out images, and the adjustment that their labels choose.

    ``votes`` are (N, K), ``labels`` (N,); each image is scaled by a fit without its own label.
    ``units`` (N,) are equal within a group. ``pool_shares`` (K,) are the shares of the guesses in
    the pool; None switches matrix scaling off.
    """
    own = _own(prediction)
    power = choose_power(own, votes, labels, units)
    voted = _vote(own, votes, power)
    fitted = None
    if pool_shares is not None:
        fitted = fit_matrix_scaling(voted, own, votes, labels, units, pool_shares)
    if fitted is None:
        return adjust(prediction, votes, Adjustment(power)), Adjustment(power)
    scaling, out_of_fold = fitted
    return with_probabilities(prediction, out_of_fold), Adjustment(power, scaling)


def choose_power(own: FloatArray, votes: FloatArray, labels: IntArray, units: IntArray) -> float:
    """The power of the vote, by held-out labels (N,), for probabilities and votes (N, K).

    The default power, unless the labels are clearly less likely under it; a higher one where they
    are more likely by more than two standard errors, the most likely one. Each power is compared
    at its own best temperature, so that being less sure is no merit by itself. Standard errors
    are over ``units`` (N,): images, or groups of images.
    """
    _, unit, sizes = np.unique(units, return_inverse=True, return_counts=True)
    if len(sizes) < _MIN_HELD_OUT:
        return _DEFAULT_POWER
    alone = losses_at_best_temperature(own, labels)

    def gains(power: float) -> FloatArray:
        per_image = alone - losses_at_best_temperature(_vote(own, votes, power), labels)
        per_unit: FloatArray = np.bincount(unit, per_image) / sizes
        return per_unit

    default = gains(_DEFAULT_POWER)
    best, most = 0.0 if is_clear_gain(-default) else _DEFAULT_POWER, default.mean()
    for power in _HIGHER_POWERS:
        gain = gains(power)
        if gain.mean() > max(most, 2 * gain.std() / np.sqrt(len(gain))):
            best, most = power, gain.mean()
    return best


def _own(prediction: Prediction) -> FloatArray:
    own: FloatArray = prediction.probabilities.astype(np.float64)
    return own


def _vote(own: FloatArray, votes: FloatArray, power: float) -> FloatArray:
    product = np.maximum(own, SMALLEST_OWN) * np.maximum(votes, SMALLEST_VOTE) ** power
    voted: FloatArray = product / product.sum(axis=1, keepdims=True)
    return voted


def _in_proportion(part: FloatArray, before: FloatArray, after: FloatArray) -> FloatArray:
    """The part (N,) of a total that went from ``before`` to ``after``; all of it if it was 0."""
    share = np.divide(part, before, where=before > 0, out=np.ones(len(before)))
    scaled: FloatArray = np.clip(share, 0, 1) * after
    return scaled
