"""An upper bound that may be read after every check: a confidence sequence for an audit.

An audit puts the N accepted labels in one random order, and a person checks them one by one and
stops whenever they like. A bound for a fixed number of checks does not hold then: somebody who
reads it after every check will sooner or later see a lucky moment. This bound holds after all
checks at once (it is *anytime-valid*).

With a prior over K, the number wrong, the ratio prior(K) / posterior(K) at the true K is a
martingale that starts at 1, so the probability that it ever reaches 1 / delta is at most delta
(Ville; Waudby-Smith and Ramdas, *Confidence sequences for sampling without replacement*, 2020). By
Bayes' rule the ratio is P(x in n) / P(x in n | K). The first is beta-binomial for a beta-binomial
prior, the second hypergeometric. The prior decides how tight the bound is, never whether it holds.

Assumption: every order of the N labels was equally likely and was fixed before the first check.
"""

from __future__ import annotations

import math

import numpy as np

from surelabel.types import BoolArray, IntArray

#: Beta(1, 50): about 2 % wrong, less rather than more.
PRIOR = (1.0, 50.0)


def anytime_upper_bound(n_all: int, wrong: BoolArray, delta: float) -> IntArray:
    """(n,) after each of n checks, the upper bound on the number wrong among all N labels.

    ``wrong`` (n,) are the checks in the order of the permutation. All bounds hold together with
    probability 1 - delta, so each is the smallest one so far. None is below the number already
    seen to be wrong.
    """
    n_wrong = np.cumsum(wrong, dtype=np.int64)
    n_checked = np.arange(1, len(wrong) + 1)
    bounds: IntArray = np.minimum.accumulate(_upper(n_all, n_checked, n_wrong, delta))
    return np.maximum(n_wrong, bounds)


def _upper(n_all: int, n_checked: IntArray, n_wrong: IntArray, delta: float) -> IntArray:
    """(n,) the largest K with prior / posterior below 1 / delta after each check.

    The probability of x rises in K up to its mode and falls from there, so the K that are not
    rejected are an interval, and bisection finds its upper end.
    """
    from scipy.stats import betabinom, hypergeom

    limit = betabinom.logpmf(n_wrong, n_checked, *PRIOR) + math.log(delta)
    high = n_all - (n_checked - n_wrong)
    low: IntArray = np.maximum(np.minimum(high, n_wrong * (n_all + 1) // n_checked), n_wrong)
    while (low < high).any():
        middle = (low + high + 1) // 2
        possible = hypergeom.logpmf(n_wrong, n_all, middle, n_checked) > limit
        low, high = np.where(possible, middle, low), np.where(possible, high, middle - 1)
        high = np.maximum(low, high)
    return low
