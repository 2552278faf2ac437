"""Labels saved beside *Probably Approximately Correct Labels* (Candès, Ilyas and Zrnic, 2025).

Their published predictions: ImageNet V2 (10,000 images) and stance (2,299 texts). With uniform
expert labels they bound, for each threshold u, the mean loss over all items where only items with
uncertainty below u keep the model's label, and take the largest u whose bound is within epsilon.
Their bounds are written here from the paper: a normal approximation, which is asymptotic, and the
betting bound of Waudby-Smith and Ramdas (2024), which is not. Ours are exact. Saved are items that
keep the model's label and that no expert labeled. Experts' labels count as right in all of them.
Confidences of stance have few values, so ties are broken at random for every method alike.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from settings import Settings
from surelabel.guarantees.certification import CertifySample, certified_dataset_threshold
from surelabel.types import BoolArray, FloatArray, IntArray

DATA = Path(__file__).resolve().parents[2] / "shared/data/pac-labels"
SETS = {"imagenetv2": 1000, "stance": 500}
"""Expert labels that the paper took."""
_EPSILON = _ALPHA = 0.05

Bound = Callable[[FloatArray, float], float]


def main(settings: Settings) -> dict[str, Any]:
    if not DATA.exists():
        return {"skipped": f"needs {DATA}"}
    n_draws = 2 if settings.tiny else 100
    results: dict[str, Any] = {"epsilon": _EPSILON, "alpha": _ALPHA, "draws": n_draws}
    for name, n_labels in SETS.items():
        uncertainty, wrong = _read(DATA / f"{name}.csv")
        rng = np.random.default_rng(settings.seed)
        rows: dict[str, list[tuple[float, bool, int]]] = {}
        for _ in range(n_draws):
            ranks = np.argsort(np.lexsort((rng.random(len(wrong)), uncertainty))).astype(float)
            with_replacement = rng.integers(0, len(wrong), n_labels)
            drawn = rng.permutation(len(wrong))[:n_labels]
            for method, bound in (("PAC, normal", _normal), ("PAC, betting", _betting)):
                rows.setdefault(method, []).append(_pac(ranks, wrong, with_replacement, bound))
            for method, n in (
                ("exact", n_labels),
                ("exact, surest first", n_labels),
                ("exact, surest first, sample half as large", n_labels // 2),
            ):
                outcome = _exact(ranks, wrong, drawn[:n], all_labels=method == "exact")
                rows.setdefault(method, []).append(outcome)
        results[name] = {method: _summary(each) for method, each in rows.items()}
    return results


def _read(path: Path) -> tuple[FloatArray, BoolArray]:
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    wrong = np.array([row["Y"] != row["Yhat"] for row in rows])
    return 1 - np.array([float(row["confidence"]) for row in rows]), wrong


def _summary(rows: list[tuple[float, bool, int]]) -> dict[str, float]:
    saved, violated, asked = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    return {
        "saved": round(float(saved.mean()), 4),
        "spread": round(float(saved.std()), 4),
        "violated": int(violated.sum()),
        "expert_labels_to_certify": round(float(asked.mean()), 1),
    }


def _pac(
    uncertainty: FloatArray, wrong: BoolArray, drawn: IntArray, bound: Bound
) -> tuple[float, bool, int]:
    accepted = uncertainty < first_above(uncertainty, wrong, drawn, _EPSILON, bound)
    accepted[drawn] = False
    return _outcome(accepted, wrong, len(np.unique(drawn)))


def first_above(
    uncertainty: FloatArray,
    wrong: BoolArray,
    drawn: IntArray,
    epsilon: float,
    bound: Bound | None = None,
) -> float:
    """Their procedure: the first uncertainty whose bound, by default the normal one, is above."""
    values = np.unique(uncertainty)
    low, high = 0, len(values)
    while low < high:
        # The losses, and so their bound, only grow with the threshold.
        middle = (low + high) // 2
        losses = (wrong[drawn] & (uncertainty[drawn] <= values[middle])).astype(float)
        if (bound or _normal)(losses, _ALPHA) <= epsilon:
            low = middle + 1
        else:
            high = middle
    return float(values[low]) if low < len(values) else float("inf")


def _normal(losses: FloatArray, alpha: float) -> float:
    from scipy.stats import norm

    spread = float(losses.std(ddof=1)) / np.sqrt(len(losses))
    return float(losses.mean() + norm.isf(alpha) * spread)


def _betting(losses: FloatArray, alpha: float) -> float:
    """The smallest mean at or above which the capital of a bet that it is smaller passes 1 / alpha.

    Predictable plug-in bets of Waudby-Smith and Ramdas, for a mean of values in [0, 1] from above.
    """
    n, i = len(losses), np.arange(1, len(losses) + 1)
    means = (0.5 + np.cumsum(losses)) / (i + 1)
    variances = (0.25 + np.cumsum((losses - means) ** 2)) / (i + 1)
    before = np.concatenate([[0.25], variances[:-1]])
    bets = np.sqrt(2 * np.log(1 / alpha) / (n * before))

    def is_rejected(mean: float) -> bool:
        stakes = np.minimum(bets, 0.5 / (1 - mean))
        return bool(np.cumsum(np.log1p(-stakes * (losses - mean))).max() >= np.log(1 / alpha))

    low, high = float(losses.mean()), 1.0 - 1e-9
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if is_rejected(middle) else (middle, high)
    return high


def _exact(
    uncertainty: FloatArray, wrong: BoolArray, drawn: IntArray, *, all_labels: bool
) -> tuple[float, bool, int]:
    """Ours. Surest first, experts label only sampled items that are accepted, and one more."""
    checked = np.isin(np.arange(len(wrong)), drawn)
    sample = CertifySample(uncertainty, np.arange(len(wrong)), checked, wrong)
    result = certified_dataset_threshold(sample, _EPSILON, _ALPHA, n_labels=len(wrong))
    accepted = uncertainty <= result.threshold
    asked = len(drawn) if all_labels else min(len(drawn), int((accepted & checked).sum()) + 1)
    return _outcome(accepted & ~checked, wrong, asked)


def _outcome(by_model: BoolArray, wrong: BoolArray, asked: int) -> tuple[float, bool, int]:
    violated = wrong[by_model].sum() > _EPSILON * len(wrong) + 1e-9
    return float(by_model.mean()), bool(violated), asked
