"""Why an image is left for people: unlike what was learned, ambiguous, or of no class."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from surelabel.selection.thresholds import tukey_fence
from surelabel.types import BoolArray, FloatArray


class Reason(StrEnum):
    """The reasons, as they stand in the result."""

    UNFAMILIAR = "unfamiliar"
    """The nets disagree: they have not seen enough like it. A label of it teaches much."""
    AMBIGUOUS = "ambiguous"
    """The nets agree that they cannot tell: it is between classes, or a poor picture."""
    BORDERLINE = "borderline"
    """The guess is clear, but not as sure as the threshold asks for."""
    OUTLIER = "outlier"
    """It looks like none of the classes."""
    SUSPICIOUS = "suspicious"
    """A person's label that a net which had not seen it contradicts with confidence."""


def reasons_left(
    mutual_information: FloatArray,
    expected_entropy: FloatArray,
    aleatoric_variance: FloatArray,
    outlier: BoolArray,
    probability: FloatArray,
    usual: tuple[FloatArray, FloatArray, FloatArray],
) -> list[Reason]:
    """One reason for each of N images, from measures (N,) and those of held-out labels.

    Measures have no common scale, so each is compared with its own fence among the held-out ones
    in ``usual``: what sticks out most is the reason. But a guess with a high ``probability`` (N,)
    is neither between classes nor unlike what was learned, however strict the threshold is.
    """
    values = (mutual_information, expected_entropy, aleatoric_variance)
    weights = [v / _fence(known) for v, known in zip(values, usual, strict=True)]
    ambiguous = np.maximum(weights[1], weights[2]) > weights[0]
    chosen = np.where(ambiguous, Reason.AMBIGUOUS, Reason.UNFAMILIAR)
    chosen = np.where(probability >= _CLEAR, Reason.BORDERLINE, chosen)
    return [Reason(name) for name in np.where(outlier, Reason.OUTLIER, chosen).tolist()]


_CLEAR = 0.9
"""A guess of at least this probability is clear."""


def _fence(known: FloatArray) -> float:
    return max(tukey_fence(known), 1e-12) if len(known) else 1.0
