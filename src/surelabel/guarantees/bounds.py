"""How many of a finite set can be wrong, from a random sample of it. Exact; no normal curves.

A set of N labels has an unknown number K of wrong ones. n of them are drawn uniformly at random
without replacement, and a person finds x wrong. Then x is hypergeometric, whatever the model that
made the labels did, and every bound here holds with probability at least 1 - delta over the draw.

The one assumption is the draw: each set of n members was equally likely, and nothing that made
the labels knew which members would be drawn. N and n are counted in sampling units: images, or
groups of images where people drew groups.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from surelabel.types import FloatArray, IntArray


def log_choose(n: IntArray | int, k: IntArray | int) -> FloatArray:
    """Ln of n over k, -inf where k is outside 0 to n."""
    top, low = np.broadcast_arrays(np.asarray(n, dtype=float), np.asarray(k, dtype=float))
    inside = (low >= 0) & (low <= top)
    safe = np.where(inside, low, 0.0)
    value = gammaln(top + 1) - gammaln(safe + 1) - gammaln(top - safe + 1)
    return np.where(inside, value, -np.inf)


def log_chance_of(
    n_seen: IntArray | int, n_all: int, n_wrong: IntArray | int, n_drawn: IntArray | int
) -> FloatArray:
    """Log of P(X = n_seen) for X wrong among n_drawn of n_all, n_wrong of which are wrong."""
    right = np.asarray(n_drawn) - np.asarray(n_seen)
    ways = log_choose(n_wrong, n_seen) + log_choose(n_all - np.asarray(n_wrong), right)
    chance: FloatArray = ways - log_choose(n_all, n_drawn)
    return chance


def chance_of_at_most(n_seen: int, n_all: int, n_wrong: int, n_drawn: int) -> float:
    """P(X <= n_seen): how likely so few wrong ones are. Falls as n_wrong grows."""
    least = max(0, n_drawn - (n_all - n_wrong))
    if n_seen >= min(n_drawn, n_wrong):
        return 1.0
    if n_seen < least:
        return 0.0
    logs = log_chance_of(np.arange(least, n_seen + 1), n_all, n_wrong, n_drawn)
    return min(1.0, float(np.exp(logs).sum()))


def most_wrong(n_all: int, n_drawn: int, n_seen: int, delta: float) -> int:
    """The exact upper bound on the number wrong among all N, the drawn ones included.

    The largest K that the sample does not speak against: P(X <= x | K) > delta. It is N when
    nothing was drawn, and x when everything was.
    """
    _check(n_all, n_drawn, n_seen)
    low, high = n_seen, n_all - (n_drawn - n_seen)
    while low < high:
        middle = (low + high + 1) // 2
        if chance_of_at_most(n_seen, n_all, middle, n_drawn) > delta:
            low = middle
        else:
            high = middle - 1
    return low


def rules_out(n_all: int, n_drawn: int, n_seen: int, allowed: int, delta: float) -> bool:
    """Whether the sample shows that at most ``allowed`` of N are wrong: ``most_wrong`` <= it."""
    if allowed >= n_all:
        return True
    if n_seen > allowed:
        return False
    return chance_of_at_most(n_seen, n_all, allowed + 1, n_drawn) <= delta


def zero_error_sample(max_error: float, delta: float, n_all: int | None = None) -> int:
    """The fewest draws, all right, that show an error of at most ``max_error``.

    Without ``n_all`` the set is unlimited: ln(delta) / ln(1 - max_error), so 299 for 1 %, 149 for
    2 % and 59 for 5 % at delta .05. A finite set needs no more than that.
    """
    if not 0 < max_error < 1:
        raise ValueError(f"max_error is {max_error}; it lies between 0 and 1")
    if n_all is None:
        return _ceil(math.log(delta) / math.log1p(-max_error))
    allowed = share_of(max_error, n_all)
    low, high = 0, n_all
    while low < high:
        middle = (low + high) // 2
        if rules_out(n_all, middle, 0, allowed, delta):
            high = middle
        else:
            low = middle + 1
    return low


def share_of(share: float, n: int) -> int:
    """The whole number of things in a share of n, safe from rounding: 2 % of 50 is 1."""
    return math.floor(share * n * (1 + 1e-12) + 1e-9)


def _ceil(value: float) -> int:
    return math.ceil(value - 1e-9)


def _check(n_all: int, n_drawn: int, n_seen: int) -> None:
    if not 0 <= n_seen <= n_drawn <= n_all:
        raise ValueError(f"{n_seen} wrong in {n_drawn} drawn of {n_all} cannot be")
