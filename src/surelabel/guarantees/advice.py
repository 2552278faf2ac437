"""How many images to label, or labels to check, for a bound: numbers that know the collection."""

from __future__ import annotations

import numpy as np

from surelabel.guarantees.bounds import shows_at_most, whole_share
from surelabel.guarantees.confidence_sequence import anytime_upper_bound
from surelabel.types import BoolArray

DEFAULT_ERROR = 0.02
"""The share of wrong labels that advice is about where the user named none."""
_ALLOWED = 1
"""Wrong images among those drawn, or labels among those checked, that the bound should survive."""
_MOST_CHECKS = 4000
"""The bound of an audit is computed after each check up to this many."""


def certify_labels_advised(n_pool: int, n_labels: int, max_error: float, delta: float) -> int:
    """Certify labels that show ``max_error`` of all ``n_labels`` although one of them is wrong.

    They are drawn from the ``n_pool`` images that the run labels. If even that is not enough, as
    in a small collection, it is all of them.
    """
    allowed = whole_share(max_error, n_labels)
    low, high = 0, n_pool
    while low < high:
        middle = (low + high) // 2
        if middle > _ALLOWED and shows_at_most(allowed, n_pool, middle, _ALLOWED, delta):
            high = middle
        else:
            low = middle + 1
    return low


def checks_advised(n_accepted: int, max_error: float, delta: float) -> int:
    """Checks of accepted labels that show ``max_error`` of them although one label is wrong.

    All of them, where fewer cannot show it.
    """
    n = min(n_accepted, _MOST_CHECKS)
    if n <= _ALLOWED:
        return n
    wrong = np.zeros(n, dtype=bool)
    wrong[:_ALLOWED] = True
    bounds = anytime_upper_bound(n_accepted, wrong, delta)
    enough = np.flatnonzero(bounds <= whole_share(max_error, n_accepted))
    return int(enough[0]) + 1 if len(enough) else n


def right_checks_to_go(n_accepted: int, wrong: BoolArray, n_allowed: int, delta: float) -> int:
    """Further checks, all right, after which at most ``n_allowed`` labels are shown to be wrong.

    ``wrong`` (n,) are the checks so far, in the order of the audit. 0 where it is shown already,
    -1 where so few checks cannot show it any more.
    """
    more = min(n_accepted - len(wrong), _MOST_CHECKS)
    if more < 0 or wrong.sum() > n_allowed:
        return -1
    checks = np.concatenate([wrong, np.zeros(more, dtype=bool)])
    if not len(checks):
        return 0
    enough = np.flatnonzero(anytime_upper_bound(n_accepted, checks, delta) <= n_allowed)
    return max(0, int(enough[0]) + 1 - len(wrong)) if len(enough) else -1
