"""The exact upper bound on the number of wrong labels in a finite set, from a random sample of it.

A set of N labels has an unknown number K of wrong ones. n of them are drawn uniformly at random
without replacement, and x of those turn out to be wrong. Then x is hypergeometric whatever the
model did, and every bound here holds with probability at least 1 - delta over the draw. There is
no normal approximation anywhere.

The one assumption is the draw: every set of n labels was equally likely, and nothing that made the
labels knew which ones would be drawn. N and n count sampling units: images, or groups of images
where whole groups were drawn.

``scipy.stats`` is imported on first use because that takes a second.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from surelabel.types import BoolArray, IntArray


@lru_cache(maxsize=4096)
def wrong_upper_bound(n_all: int, n_drawn: int, n_wrong: int, delta: float) -> int:
    """The exact upper bound on the number wrong among all N, the drawn ones included.

    It is the largest K that the sample does not reject: P(X <= x | K) > delta. It is N when
    nothing was drawn, and x when everything was.
    """
    if not 0 <= n_wrong <= n_drawn <= n_all:
        raise ValueError(f"{n_wrong} wrong in {n_drawn} drawn of {n_all} cannot be")
    low, high = n_wrong, n_all - (n_drawn - n_wrong)
    while low < high:
        middle = (low + high) // 2
        if shows_at_most(middle, n_all, n_drawn, n_wrong, delta):
            high = middle
        else:
            low = middle + 1
    return low


def shows_at_most(
    allowed: IntArray | int,
    n_all: IntArray | int,
    n_drawn: IntArray | int,
    n_wrong: IntArray | int,
    delta: float,
) -> BoolArray:
    """Whether the sample shows that at most ``allowed`` of N are wrong, at level delta.

    The hypothesis that there are more is rejected when P(X <= x | K = allowed + 1) <= delta. Takes
    numbers or arrays of one shape; one call for a hundred tests costs little more than one test.
    """
    from scipy.stats import hypergeom

    smallest_excess = np.minimum(np.asarray(allowed) + 1, n_all)
    tail = hypergeom.cdf(n_wrong, n_all, smallest_excess, n_drawn)
    shown: BoolArray = (np.asarray(allowed) >= n_all) | (tail <= delta)
    return shown


def zero_error_sample_size(max_error: float, delta: float, n_all: int | None = None) -> int:
    """The smallest sample that shows an error of at most ``max_error`` if none of it is wrong.

    Without ``n_all`` the set is unlimited: ln(delta) / ln(1 - max_error), so 299 for 1 %, 149 for
    2 % and 59 for 5 % at delta .05. A finite set needs no more than that.
    """
    if not 0 < max_error < 1:
        raise ValueError(f"max_error is {max_error}; it lies between 0 and 1")
    if n_all is None:
        return math.ceil(math.log(delta) / math.log1p(-max_error) - 1e-9)
    return smallest_sample(whole_share(max_error, n_all), n_all, delta)


@lru_cache(maxsize=4096)
def smallest_sample(n_allowed: int, n_all: int, delta: float) -> int:
    """The smallest sample that, without a mistake, shows that at most ``n_allowed`` are wrong."""
    low, high = 0, n_all
    while low < high:
        middle = (low + high) // 2
        if shows_at_most(n_allowed, n_all, middle, 0, delta):
            high = middle
        else:
            low = middle + 1
    return low


def whole_share(share: float, n: int) -> int:
    """The largest whole number within a share of n, safe from rounding: 2 % of 50 is 1."""
    return math.floor(share * n * (1 + 1e-12) + 1e-9)
