"""Whether the measures of uncertainty mean what they should, where the truth is recorded."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from surelabel.choices import Measure
from surelabel.datasets.use_by_dates import BOUNDARY
from surelabel.studies.packaging_results import LeftOut, Ranking, Ranks
from surelabel.uncertainty.selective_risk import aurc

ALEATORIC = (Measure.ALEATORIC_VARIANCE, Measure.EXPECTED_ENTROPY)
"""Of E[exp s] and E H[p], the first is what the paper calls aleatoric."""

RANKING = (
    Measure.LEAST_CONFIDENCE,
    Measure.PREDICTIVE_ENTROPY,
    Measure.MUTUAL_INFORMATION,
    Measure.ALEATORIC_VARIANCE,
    Measure.TOTAL_VARIANCE,
)
"""Total variance is the paper's score: the sum of the predictive entropy and the aleatoric one."""


def ranking(
    model: str, seed: int, seen: pd.DataFrame, classes: Sequence[str], truth: pd.Series
) -> Ranking:
    """Of the guesses in ``seen``, which like ``truth`` goes by path."""
    guesses = np.asarray(classes)[seen["guess"].to_numpy(dtype=int)]
    wrong = guesses != truth.reindex(seen.index).to_numpy()
    areas = {str(measure): aurc(seen[str(measure)], wrong) for measure in RANKING}
    return Ranking(model, seed, float(wrong.mean()), areas)


def ranks(seed: int, seen: pd.DataFrame, difficulty: pd.Series) -> list[Ranks]:
    """For each aleatoric measure; ``seen`` and ``difficulty`` go by path."""
    hard = difficulty.reindex(seen.index).to_numpy(dtype=float)
    readable = hard < BOUNDARY
    found = []
    for measure in ALEATORIC:
        values = seen[str(measure)].to_numpy(dtype=float)
        found.append(
            Ranks(
                str(measure),
                seed,
                len(seen),
                spearman(values, hard),
                spearman(values[readable], hard[readable]),
                spearman(values[~readable], hard[~readable]),
                spearman(values, -np.abs(hard - BOUNDARY)),
            )
        )
    return found


def spearman(one: np.ndarray, two: np.ndarray) -> float:
    """Rank correlation; nan where one of them does not vary."""
    from scipy.stats import spearmanr

    if len(one) < 2 or np.ptp(one) == 0 or np.ptp(two) == 0:
        return math.nan
    return float(spearmanr(one, two).statistic)


def spearman_interval(rho: float, n: int) -> tuple[float, float]:
    """95 % interval by Fisher's z with the deviation of Bonett and Wright."""
    if n <= 3 or math.isnan(rho):
        return -1.0, 1.0
    reach = 1.96 * math.sqrt((1 + rho**2 / 2) / (n - 3))
    middle = math.atanh(max(-0.999999, min(0.999999, rho)))
    return math.tanh(middle - reach), math.tanh(middle + reach)


def left_out(
    location: str, seed: int, seen: pd.DataFrame, known: pd.DataFrame, locations: pd.Series
) -> LeftOut:
    """``seen`` by nets without labels of ``location``, ``known`` by nets with labels of all."""
    values = [auroc(table, locations, location) for table in (seen, known)]
    n = int((locations.reindex(seen.index) == location).sum())
    return LeftOut(location, seed, n, *values)


def auroc(seen: pd.DataFrame, locations: pd.Series, location: str) -> float:
    """Chance that an image of ``location`` has more mutual information than one of another."""
    from sklearn.metrics import roc_auc_score

    there = (locations.reindex(seen.index) == location).to_numpy()
    if there.all() or not there.any():
        return math.nan
    return float(roc_auc_score(there, seen[str(Measure.MUTUAL_INFORMATION)]))
