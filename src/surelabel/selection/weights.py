"""How much a pseudo-label counts. Paper: § Inverse Uncertainty Weighting."""

from __future__ import annotations

import math

import numpy as np

from surelabel.types import FloatArray

#: Of a weight: what is larger would overflow the loss.
_LARGEST_EXPONENT = 30.0


def phi(round_number: int, gamma: float, bias: float) -> float:
    """(1 - e^(gamma r + b)) / (1 + e^(gamma r + b)) = -tanh((gamma r + b) / 2), in (-1, 1).

    Near +1 the sure count more; near -1 the unsure do. It starts at trust and ends at
    exploration when bias < 0 < gamma.
    """
    return -math.tanh((gamma * round_number + bias) / 2)


def inverse_uncertainty_weights(
    uncertainty: FloatArray, round_number: int, gamma: float, bias: float, cap: float = 0.0
) -> FloatArray:
    """Weights lambda = exp(-uncertainty * phi(r)), (N,) -> (N,).

    Once phi < 0 the weights exceed 1; ``cap`` > 0 holds them down, so that no machine label
    outweighs a person's.
    """
    exponent = -uncertainty * phi(round_number, gamma, bias)
    weights: FloatArray = np.exp(np.minimum(exponent, _LARGEST_EXPONENT))
    return np.minimum(weights, cap) if cap > 0 else weights
