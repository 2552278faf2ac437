"""How well a score separates right from wrong guesses: risk by coverage, and the area below it.

N guesses are accepted from the lowest score up; w_i is 1 where guess i is wrong. With
W(k) = the sum of w over the k surest guesses, k = 1 .. N:

- coverage k / N, selective risk W(k) / k: the share of accepted guesses that are wrong;
- generalized risk W(k) / N: the probability that a guess is accepted and wrong.

Ties in the score are broken at random, and W(k) is the expected value over that: among m tied
guesses of which v are wrong, it grows by v / m with each guess. So no figure depends on the order
of the items, and a constant score is worth exactly as much as chance. Lower is always better.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from surelabel.types import FloatArray


def risk_coverage(score: npt.ArrayLike, wrong: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Coverage k / N and selective risk W(k) / k for k = 1 .. N. (N,), (N,) -> (N,), (N,)."""
    n_wrong = _expected_wrong(score, wrong)
    k = np.arange(1, len(n_wrong) + 1)
    return k / len(n_wrong), n_wrong / k


def aurc(score: npt.ArrayLike, wrong: npt.ArrayLike) -> float:
    """Area under the risk-coverage curve, (1 / N) sum_k W(k) / k. (N,), (N,) -> scalar.

    With an error rate e, a constant score gives e. A perfect score, which ranks all E wrong
    guesses last, gives (1 / N) sum_j j / (N - E + j), j = 1 .. E: about e + (1 - e) ln(1 - e).
    """
    _, risk = risk_coverage(score, wrong)
    return float(risk.mean())


def augrc(score: npt.ArrayLike, wrong: npt.ArrayLike) -> float:
    """Area under the generalized risk-coverage curve, by trapezoids from W(0) = 0.

    (1 / N) sum_k (W(k - 1) + W(k)) / (2 N), (N,), (N,) -> scalar: the probability that of two
    guesses drawn at random the first is wrong and has the lower score, ties counting half. Equal
    to (1 - AUROC) e (1 - e) + e^2 / 2: a constant score gives e / 2, a perfect one e^2 / 2.
    Unlike the AURC it does not overweigh the few surest guesses (Traub et al. 2024).
    """
    n_wrong = _expected_wrong(score, wrong)
    n = len(n_wrong)
    return float((n_wrong.sum() - n_wrong[-1] / 2) / n**2)


def _expected_wrong(score: npt.ArrayLike, wrong: npt.ArrayLike) -> FloatArray:
    """W(k) for k = 1 .. N, (N,)."""
    scores, flags = np.asarray(score, dtype=np.float64), np.asarray(wrong, dtype=np.float64)
    if scores.ndim != 1 or scores.shape != flags.shape or not len(scores):
        raise ValueError(
            "score and wrong must have the same shape (N,) with N > 0; "
            f"they have {scores.shape} and {flags.shape}"
        )
    if np.isnan(scores).any():
        raise ValueError("a score is not a number: it cannot be ranked")
    if not np.isin(flags, (0, 1)).all():
        raise ValueError("wrong must hold only true or false (1 or 0)")
    _, tie, size = np.unique(scores, return_inverse=True, return_counts=True)
    wrong_share = np.bincount(tie, weights=flags) / size
    total: FloatArray = np.cumsum(np.repeat(wrong_share, size))
    return total
