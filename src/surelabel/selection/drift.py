"""Whether new images are like those of the run: a two-sample test with an effect size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surelabel.types import FloatArray

_LEVEL = 1e-3
_NOTICEABLE = 0.1
_FEWEST = 20


@dataclass(frozen=True)
class Drift:
    """How far two samples of one figure lie apart."""

    gap: float
    """Kolmogorov-Smirnov: the largest difference of the two distribution functions, 0 to 1."""
    p_value: float
    """How often so large a gap comes about when nothing has changed."""
    higher: bool
    """Whether the new values are the higher ones."""

    @property
    def is_clear(self) -> bool:
        """Too unlikely to be chance, and large enough to matter: thousands of images make any
        difference significant.
        """
        return self.p_value < _LEVEL and self.gap > _NOTICEABLE


def drift(known: FloatArray, new: FloatArray) -> Drift:
    """Compare (N,) figures of the run's images with (M,) of new ones; too few show nothing."""
    known, new = np.sort(known[np.isfinite(known)]), np.sort(new[np.isfinite(new)])
    if len(known) < _FEWEST or len(new) < _FEWEST:
        return Drift(0.0, 1.0, False)
    places = np.concatenate([known, new])
    below_known = np.searchsorted(known, places, side="right") / len(known)
    below_new = np.searchsorted(new, places, side="right") / len(new)
    gap = float(np.abs(below_known - below_new).max())
    size = len(known) * len(new) / (len(known) + len(new))
    p_value = _kolmogorov_tail(gap * np.sqrt(size))
    return Drift(gap, p_value, bool(np.median(new) > np.median(known)))


def _kolmogorov_tail(distance: float) -> float:
    """P(sup |Brownian bridge| > distance), the limit of the two-sample statistic."""
    from scipy.special import kolmogorov

    return float(kolmogorov(distance))
