"""A bound that may be looked at after every check: sampling without replacement, any time.

An audit takes the N accepted labels in one random order and a person checks them one by one,
stopping when they like. A bound for a fixed number of checks is void then: who looks often enough
sees a lucky moment. This one holds at all moments at once.

With a prior over K, the number wrong, the ratio prior(K) / posterior(K) at the true K is a
martingale that starts at 1, so it ever reaches 1 / delta with probability delta at most (Ville;
Waudby-Smith and Ramdas, *Confidence sequences for sampling without replacement*, 2020). By Bayes'
rule the ratio is P(x in n) / P(x in n | K): the marginal is beta-binomial for a beta-binomial
prior, the other hypergeometric. The prior shapes how tight the bound is, never whether it holds.

Assumption: every order of the N labels was equally likely and was fixed before the first check.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaln

from surelabel.guarantees.bounds import log_chance_of, log_choose
from surelabel.types import BoolArray, FloatArray, IntArray

#: Beta(1, 50): about 2 % wrong, less rather than more.
PRIOR = (1.0, 50.0)


def most_wrong_any_time(n_all: int, wrong: BoolArray, delta: float) -> IntArray:
    """(n,) after each of n checks: at most so many of N are wrong, jointly with 1 - delta.

    ``wrong`` (n,) are the checks in the order of the permutation. Each entry counts the ones
    already found. The bound after n checks is the least of all until then, as all hold at once.
    """
    n_seen = np.cumsum(wrong, dtype=np.int64)
    n_drawn = np.arange(1, len(wrong) + 1)
    uppers = _upper(n_all, n_drawn, n_seen, delta)
    bounds: IntArray = np.maximum(n_seen, np.minimum.accumulate(uppers))
    return bounds


def log_marginal(n_seen: IntArray, n_drawn: IntArray) -> FloatArray:
    """Log of P(x wrong in n) before K is known: beta-binomial, (n,)."""
    a, b = PRIOR
    beta: FloatArray = betaln(a + n_seen, b + n_drawn - n_seen) - betaln(a, b)
    return log_choose(n_drawn, n_seen) + beta


def _upper(n_all: int, n_drawn: IntArray, n_seen: IntArray, delta: float) -> IntArray:
    """(n,) the largest K with prior / posterior below 1 / delta after each check.

    The chance of x rises in K up to its best value and falls from there, so the K that are not
    ruled out are an interval, and its upper end is found by halving.
    """
    limit = log_marginal(n_seen, n_drawn) + math.log(delta)
    high = n_all - (n_drawn - n_seen)
    low: IntArray = np.maximum(np.minimum(high, n_seen * (n_all + 1) // n_drawn), n_seen)
    while (low < high).any():
        middle = (low + high + 1) // 2
        possible = log_chance_of(n_seen, n_all, middle, n_drawn) > limit
        low, high = np.where(possible, middle, low), np.where(possible, high, middle - 1)
        high = np.maximum(low, high)
    return low
