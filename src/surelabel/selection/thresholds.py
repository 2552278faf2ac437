"""Thresholds under which a guess becomes a label.

Every rule takes scores where higher is more uncertain and accepts ``score <= threshold``.
Held-out predictions set thresholds: training images look too easy, and the test set is not ours
to look at. The default, ``target``, counts their errors; the quantiles of the other rules are of
the *correct* ones. Paper: § Inverse Uncertainty Weighting, last part.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from surelabel.errors import OptionError
from surelabel.types import BoolArray, FloatArray, IntArray

#: Accepts nothing: there was no correct held-out prediction to learn a threshold from.
NOTHING = -math.inf
#: Of held-out guesses that ``tukey`` would accept: a fence of correct scores alone lets everything
#: pass where the nets know little.
MOST_WRONG = 0.1


class RuleKind(StrEnum):
    """The families of acceptance rules."""

    TUKEY = "tukey"
    """Upper Tukey fence, q3 + 1.5 (q3 - q1); less where held-out guesses are too often wrong."""
    QUANTILE = "quantile"
    """A quantile; q2 and q3 are .5 and .75."""
    TOP = "top"
    """A fixed number each round, the surest first."""
    CONFIDENCE = "confidence"
    """Probability at least this, whatever the held-out scores are."""
    TARGET = "target"
    """Tukey's fence, and less where the estimated share of wrong labels is above this."""


@dataclass(frozen=True)
class Rule:
    """One acceptance rule: its family and its number (unused by ``TUKEY``).

    The number of ``TARGET`` is the setting ``target_error``.
    """

    kind: RuleKind
    value: float = 0.0


def parse_rule(text: str, target_error: float = 0.0) -> Rule:
    """``target``, ``tukey``, ``q1`` to ``q3``, ``quantile:.9``, ``top:500``, ``confidence:.99``.

    ``target_error`` is the number of the rule ``target``.
    """
    plain = text.strip().lower()
    if plain == "target":
        return Rule(RuleKind.TARGET, target_error)
    if plain == "tukey":
        return Rule(RuleKind.TUKEY)
    if plain in {"q1", "q2", "q3"}:
        return Rule(RuleKind.QUANTILE, int(plain[1]) / 4)
    match = re.fullmatch(r"(quantile|top|confidence):([0-9]*\.?[0-9]+)", plain)
    if match:
        kind, value = RuleKind(match[1]), float(match[2])
        if kind is RuleKind.TOP and value >= 1 and value == int(value):
            return Rule(kind, value)
        if kind is not RuleKind.TOP and 0 < value <= 1:
            return Rule(kind, value)
    raise OptionError(
        f"accept is '{text}'; it can be target, tukey, q2, q3, quantile:Q with 0 < Q <= 1, "
        "top:N with a whole N, or confidence:P with 0 < P <= 1."
    )


def quantile(scores: FloatArray, q: float) -> float:
    """The q-quantile (linear between order statistics), or ``NOTHING`` without scores."""
    return float(np.quantile(scores, q)) if len(scores) else NOTHING


def tukey_fence(scores: FloatArray, reach: float = 1.5) -> float:
    """q3 + reach (q3 - q1): beyond it a score is an outlier among the correct ones."""
    if not len(scores):
        return NOTHING
    q1, q3 = np.quantile(scores, [0.25, 0.75])
    return float(q3 + reach * (q3 - q1))


def error_limit(scores: FloatArray, correct: BoolArray, most: float = MOST_WRONG) -> float:
    """The highest held-out score up to which at most the share ``most`` is wrong, (N,), (N,)."""
    ranked, n, n_wrong = _counts_by_score(scores, correct)
    fits = np.flatnonzero(n_wrong <= most * n)
    return float(ranked[fits[-1]]) if len(fits) else NOTHING


def lowest_error(scores: FloatArray, correct: BoolArray) -> float | None:
    """The lowest estimated error of any threshold on held-out scores (N,); None without any."""
    _, n, n_wrong = _counts_by_score(scores, correct)
    return float(estimated_error(n_wrong, n).min()) if len(n) else None


def estimated_error(n_wrong: Any, n: Any) -> Any:
    """Laplace's rule of succession, (n_wrong + 1) / (n + 2): careful where labels are few.

    It is the posterior mean of the error if every error was equally likely before. Numbers or
    arrays of any shape.
    """
    return (n_wrong + 1) / (n + 2)


def target_limit(
    scores: FloatArray, correct: BoolArray, pool_scores: FloatArray, target_error: float
) -> float:
    """The highest score up to which the estimated error of accepted labels is within the target.

    ``scores`` and ``correct`` (N,) are of held-out labels. No larger share of the pool, (M,), is
    accepted than of those: nets are surer of images that they were trained on, right or wrong.
    Beyond Tukey's fence nothing is accepted: too few held-out labels are there to judge by.
    """
    ranked, n, n_wrong = _counts_by_score(scores, correct)
    fits = np.flatnonzero(estimated_error(n_wrong, n) <= target_error)
    if not len(fits) or not len(pool_scores):
        return NOTHING
    share = n[fits[-1]] / len(scores)
    n_pool = math.floor(share * len(pool_scores))
    fence = tukey_fence(scores[correct])
    return min(fence, float(ranked[fits[-1]]), _limit_of_share(pool_scores, n_pool))


def _limit_of_share(scores: FloatArray, n: int) -> float:
    """The highest score up to which there are at most ``n`` of the scores."""
    ranked, counts, _ = _counts_by_score(scores, np.ones(len(scores), dtype=bool))
    fits = np.flatnonzero(counts <= n)
    return float(ranked[fits[-1]]) if len(fits) else NOTHING


def _counts_by_score(
    scores: FloatArray, correct: BoolArray
) -> tuple[FloatArray, IntArray, IntArray]:
    """The different scores in ascending order, how many are up to each, and how many are wrong."""
    order = np.argsort(scores, kind="stable")
    ends = np.flatnonzero(np.diff(np.append(scores[order], np.inf)) > 0)
    n_wrong = np.cumsum(~correct[order], dtype=np.int64)[ends]
    return scores[order][ends], (ends + 1).astype(np.int64), n_wrong


def held_out_threshold(rule: Rule, scores: FloatArray, correct: BoolArray) -> float:
    """The threshold of a rule that rests on held-out scores, (N,) with (N,) correct or not.

    Rules that do not rest on them get ``NOTHING``; ``select`` finds their threshold in the pool.
    """
    right = scores[correct]
    if rule.kind is RuleKind.TUKEY:
        fence = tukey_fence(right)
        inside = scores <= fence
        if (~correct[inside]).sum() <= MOST_WRONG * inside.sum():
            return fence
        return error_limit(scores[inside], correct[inside])
    return quantile(right, rule.value) if rule.kind is RuleKind.QUANTILE else NOTHING


def select(
    rule: Rule, scores: FloatArray, probability: FloatArray, threshold: float
) -> tuple[BoolArray, float]:
    """Which of N items are accepted, and the threshold on the score that says so.

    ``TOP`` takes exactly its number (ties by position) and reports the score of the last one
    taken; ``CONFIDENCE`` looks at the probability, and its threshold is the highest score taken.
    The accepted are the surest: no item left has a lower score than an accepted one, except
    under ``CONFIDENCE``, where the same holds of the probability.
    """
    if rule.kind is RuleKind.TOP:
        order = np.argsort(scores, kind="stable")[: int(rule.value)]
        chosen = np.zeros(len(scores), dtype=bool)
        chosen[order] = True
        return chosen, float(scores[order[-1]]) if len(order) else NOTHING
    if rule.kind is RuleKind.CONFIDENCE:
        chosen = probability >= rule.value
        return chosen, float(scores[chosen].max()) if chosen.any() else NOTHING
    return scores <= threshold, threshold


def judge(rule: Rule, scores: FloatArray, probability: FloatArray, threshold: float) -> BoolArray:
    """Which other items, (N,), the threshold of a finished selection would have accepted."""
    if rule.kind is RuleKind.CONFIDENCE:
        return probability >= rule.value
    return scores <= threshold


def class_balanced(
    chosen: BoolArray, scores: FloatArray, guess: IntArray, shares: FloatArray
) -> BoolArray:
    """The subset of ``chosen`` in which no class exceeds its share; the surest of each are kept.

    ``shares`` (K,) sums to 1: the class shares among human labels. The cap of class k is
    shares[k] times the number that leaves the scarcest chosen class whole, so a class that the
    model does not find yet does not cap the others to zero: classes with nothing chosen are
    passed over.
    """
    counts = np.bincount(guess[chosen], minlength=len(shares)).astype(float)
    present = (counts > 0) & (shares > 0)
    if not present.any():
        return chosen
    total = float((counts[present] / shares[present]).min())
    kept = np.zeros_like(chosen)
    for k in np.flatnonzero(counts > 0):
        members = np.flatnonzero(chosen & (guess == k))
        cap = math.ceil(round(shares[k] * total, 6))
        kept[members[np.argsort(scores[members], kind="stable")[:cap]]] = True
    return kept
