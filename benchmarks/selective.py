"""How good labels with a score are: 1 - kappa by images left, and the areas of selective risk."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from surelabel.inference.selective_risk import augrc, aurc
from surelabel.types import FloatArray, IntArray

LEFT = (17_828, 4_092, 762, 0)
"""Images left unlabeled in the paper's rows DBST-3, DBST-2, DBST-4; and none."""
_PAPER_POOL = 54_500


def curve(score: FloatArray, guess: IntArray, truth: IntArray) -> dict[str, float]:
    """1 - kappa of the surest guesses, by how many are left: {"17828": ..., "0": ...}.

    In a pool much smaller than the paper's, the same shares are left. Ties are broken at random.
    """
    from sklearn.metrics import cohen_kappa_score

    n = len(score)
    order = np.lexsort((np.random.default_rng(0).random(n), score))
    shrink = 1.0 if n >= 0.9 * _PAPER_POOL else n / _PAPER_POOL
    points = {}
    for left in (round(shrink * point) for point in LEFT):
        taken = order[: n - left]
        kappa = cohen_kappa_score(truth[taken], guess[taken], labels=np.arange(10))
        points[str(left)] = round(1 - float(kappa), 5)
    return points


def figures(score: npt.ArrayLike, wrong: npt.ArrayLike) -> dict[str, float]:
    """AURC, AUGRC and error rate."""
    rate = float(np.mean(np.asarray(wrong, dtype=np.float64)))
    return {
        "aurc": round(aurc(score, wrong), 7),
        "augrc": round(augrc(score, wrong), 7),
        "error": round(rate, 5),
    }


def mean_and_spread(values: list[float]) -> dict[str, Any]:
    """The values themselves, their mean and their sample deviation."""
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return {
        "each": [round(v, 7) for v in values],
        "mean": round(float(np.mean(values)), 7),
        "deviation": None if spread is None else round(spread, 7),
    }
