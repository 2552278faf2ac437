"""How many wrong certify images a threshold may accept and still pass: exact, for all at once.

**Setting.** N images are ordered by score. k of them are drawn at random and checked. A threshold
accepts the first ones. Drawn images get the right label from a person, so what remains wrong is
what is accepted, wrong and *not drawn*; call its number Y. ``allowed`` is how large Y may be. A
threshold passes when at most c of the drawn images that it accepts are wrong. The critical counts
c here are such that, with probability at least 1 - delta over the draw, no threshold passes while
Y exceeds what is allowed.

**Why it is exact.** Number the wrong images by score. If a threshold passes and Y > allowed, then
at most c of the first ``m = allowed + c + 1`` wrong images were drawn: if the threshold accepts
fewer than m wrong ones, more than ``allowed`` of these are undrawn, so at most c of all m are
drawn; if it accepts m or more, at most c of the accepted ones are drawn. (If there are fewer than
m wrong images at all, count right ones as wrong: that only raises Y.) How many of the first m
wrong images are drawn does not depend on the model. It is a Markov chain in m: given x of m, the
next wrong image is among the drawn with probability (k - x) / (N - m). So the probability that
*any* threshold passes wrongly is computed by walking along the chain and removing what has passed.
Nothing is approximated, and no correction for the number of thresholds is needed.

``spending`` says how much of delta may be used up to each candidate. It has to be fixed before
labels are read.

**Looks.** The same holds when the sample grows: put all N images in one random order, and look
when the first k1, k2, ... of them are checked, numbers that are fixed before. If a threshold passes
wrongly at a look with count c, then at most c of the first ``allowed + c + 1`` wrong images are
among the first k. Going from k to k' adds hypergeometrically many of those; so the same chain gives
the probability that *any threshold passes wrongly at any look*. What passed once stays true, since
checking more images only makes fewer wrong. And which labels are read is free: the statement is
about all thresholds and looks at once, so whoever reads only some of the labels, in an order that
depends on the answers, and stops when they like, reads a part of what is true anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from surelabel.types import FloatArray, IntArray

NEVER = -1
"""The critical count of a candidate that cannot pass, however few are wrong."""
_NO_CHANCE = 1e-20
"""Cases that are less likely are left out when a sample grows, and counted as used up."""


class _Chain:
    """How many of the first m wrong images are drawn: chances of all cases that did not pass."""

    def __init__(self, n_all: int, n_drawn: int) -> None:
        self.n_all, self.n_drawn, self.n_wrong = n_all, n_drawn, 0
        self.chances: FloatArray = np.zeros(n_drawn + 1)
        self.chances[0] = 1.0
        self._counts = np.arange(n_drawn + 1)

    def draw_more(self, n_drawn: int) -> float:
        """Enlarge the sample; returns the chance of the cases that were left out."""
        from scipy.stats import hypergeom

        before = self.chances
        likely = np.flatnonzero(before > _NO_CHANCE)
        self.chances, self._counts = np.zeros(n_drawn + 1), np.arange(n_drawn + 1)
        n_more, n_rest = n_drawn - self.n_drawn, self.n_all - self.n_drawn
        for x in likely.tolist():
            n_wrong = self.n_wrong - x
            more = np.arange(min(n_wrong, n_more) + 1)
            self.chances[x + more] += before[x] * hypergeom.pmf(more, n_rest, n_wrong, n_more)
        self.n_drawn = n_drawn
        return max(0.0, float(before.sum() - self.chances.sum()))

    def add_wrong(self) -> None:
        """Count one more wrong image: drawn or not."""
        drawn = np.clip((self.n_drawn - self._counts) / (self.n_all - self.n_wrong), 0.0, 1.0)
        moved = self.chances * drawn
        self.chances = self.chances * (1 - drawn)
        self.chances[1:] += moved[:-1]
        self.n_wrong += 1

    def raise_count(self, count: int, budget: float) -> tuple[int, float]:
        """Raise the critical count as far as ``budget`` allows; what passes leaves the chain.

        Returns the new count and what it cost. A count of c goes with c + 1 more wrong images than
        are allowed, so every step adds one.
        """
        cost = 0.0
        while count + 1 <= self.n_drawn and self.n_wrong < self.n_all:
            before = self.chances
            self.add_wrong()
            more = float(self.chances[: count + 2].sum())
            if cost + more > budget:
                self.chances, self.n_wrong = before, self.n_wrong - 1
                break
            self.chances[: count + 2] = 0.0
            count, cost = count + 1, cost + more
        return count, cost


def critical_counts(
    n_all: int, n_drawn: int, n_allowed: IntArray, spending: FloatArray
) -> IntArray:
    """(C,) for candidate thresholds from strict to loose: wrong drawn images that may be accepted.

    ``n_allowed`` (C,) is how many undrawn wrong images a candidate may accept; ``spending`` (C,)
    is the part of delta that may be used up to each. Neither may fall. With the same number for
    all candidates, one with all of delta is enough: the count holds for every threshold.
    """
    chain, count, spent = _Chain(n_all, n_drawn), NEVER, 0.0
    counts: IntArray = np.full(len(n_allowed), NEVER, dtype=np.int64)
    for i, (allowed, limit) in enumerate(zip(n_allowed.tolist(), spending.tolist(), strict=True)):
        if allowed >= n_all - n_drawn:
            counts[i:] = n_drawn
            break
        while chain.n_wrong < allowed + count + 1:
            chain.add_wrong()
        count, cost = chain.raise_count(count, limit - spent)
        spent += cost
        counts[i] = count
    return counts


@lru_cache(maxsize=1024)
def critical_count(n_all: int, n_drawn: int, n_allowed: int, delta: float) -> int:
    """The critical count for every threshold at once, where each may leave ``n_allowed`` wrong."""
    return int(critical_counts(n_all, n_drawn, np.array([n_allowed]), np.array([delta]))[0])


def look_counts(n_all: int, sizes: Sequence[int], n_allowed: int, spending: FloatArray) -> IntArray:
    """(L,) the critical count for every threshold at each look, when ``sizes`` (L,) are checked.

    ``spending`` (L,) is the part of delta that may be used up to each look. The sizes rise. The
    counts are needed after each answer, so they are remembered.
    """
    limits = tuple(spending.tolist())
    return np.array(_look_counts(n_all, tuple(sizes), n_allowed, limits), dtype=np.int64)


@lru_cache(maxsize=256)
def _look_counts(
    n_all: int, sizes: tuple[int, ...], n_allowed: int, spending: tuple[float, ...]
) -> tuple[int, ...]:
    chain, count, spent = _Chain(n_all, sizes[0] if len(sizes) else 0), NEVER, 0.0
    counts: list[int] = []
    for i, (n_drawn, limit) in enumerate(zip(sizes, spending, strict=True)):
        if n_allowed >= n_all - n_drawn:
            return (*counts, *sizes[i:])
        if i:
            spent += chain.draw_more(n_drawn)
        while chain.n_wrong < n_allowed + count + 1:
            chain.add_wrong()
        count, cost = chain.raise_count(count, limit - spent)
        spent += cost
        counts.append(count)
    return tuple(counts)
