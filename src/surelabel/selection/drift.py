"""Whether new images differ from those of the run: a two-sample test with an effect size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from surelabel.types import FloatArray

_LEVEL = 1e-3
_NOTICEABLE_GAP = 0.1
_MIN_IMAGES = 20


@dataclass(frozen=True)
class Drift:
    """How far two samples of one quantity lie apart."""

    gap: float
    """Kolmogorov-Smirnov: the largest difference of the two distribution functions, 0 to 1."""
    p_value: float
    """The probability of a gap at least this large if nothing has changed."""
    higher: bool
    """Whether the new values are the higher ones."""

    @property
    def is_clear(self) -> bool:
        """Too unlikely to be chance, and large enough to matter: with thousands of images any
        difference is significant.
        """
        return self.p_value < _LEVEL and self.gap > _NOTICEABLE_GAP


def drift(known: FloatArray, new: FloatArray) -> Drift:
    """Compare values of the run's images, (N,), with those of new images, (M,).

    Values that are not finite are left out; with fewer than 20 on a side there is no drift. The
    p-value is that of the limit distribution, which is a little too large for small samples.
    """
    from scipy.stats import ks_2samp, kstwobign

    known, new = known[np.isfinite(known)], new[np.isfinite(new)]
    if len(known) < _MIN_IMAGES or len(new) < _MIN_IMAGES:
        return Drift(0.0, 1.0, higher=False)
    gap = float(ks_2samp(known, new, method="asymp").statistic)
    effective_n = len(known) * len(new) / (len(known) + len(new))
    p_value = float(kstwobign.sf(gap * np.sqrt(effective_n)))
    return Drift(gap, p_value, bool(np.median(new) > np.median(known)))
