"""How likely held-out labels are under this or that prediction, and whether it says anything."""

from __future__ import annotations

import numpy as np

from surelabel.accept.calibration import fit_temperature, temper
from surelabel.types import FloatArray, IntArray

_LOWEST = 1e-12
_MATTERS = 0.001
"""Nats a label. Where nearly all labels are right a smaller gain is mere sureness."""


def losses_at_best(probabilities: FloatArray, labels: IntArray, coolest: float = 0.0) -> FloatArray:
    """(N,) -ln p of the labels (N,) under (N, K), at the temperature that suits them best.

    It is ``coolest`` at least. Compared like this, being more or less sure is no merit by itself.
    """
    tempered = temper(probabilities, max(coolest, fit_temperature(probabilities, labels)))
    losses: FloatArray = -np.log(np.maximum(tempered[np.arange(len(labels)), labels], _LOWEST))
    return losses


def is_clear(gains: FloatArray) -> bool:
    """Whether the mean of these gains in nats, (N,), exceeds its standard error, and matters."""
    error = float(gains.std() / np.sqrt(len(gains)))
    return float(gains.mean()) > max(error, _MATTERS)
