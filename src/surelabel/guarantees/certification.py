"""The loosest threshold whose error is shown to be small enough, or an honest no.

**What is random.** The certify images are a uniform random part of the pool. They are guessed,
scored and trained on like every other pool image, and their labels were unread until now. So the
scores and the guesses do not depend on which images are certify images, and in every set of pool
images that scores and guesses define, the certify images are a uniform random sample.

**What is promised.** That among all accepted images of the pool, certify images included, at most
``max_error`` have a wrong guess; with probability at least 1 - delta over the draw. In the result
certify images carry their human label, so the result is no worse than that.

**How.** Candidate thresholds are quantiles of the pool's scores, fixed before a label is read.
They are tested from strict to loose and the first failure ends it: a looser threshold is tested
only when all before it have passed, so a false promise needs the first bad one of them to pass,
which happens with probability delta at most. No correction for the number of candidates is due.
The first candidate is the strictest that zero errors could pass. It is found from the *expected*
number of certify images below it, less three deviations, and not from the number that fell there:
a start that follows the draw would no longer be fixed before it.

**Groups.** Where people drew groups (lots, bursts), images of a group share their fate and the
group is the unit: a unit is bad when one of its accepted images is wrong. At most B bad units are
at most as many wrong images as the B largest units hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from surelabel.guarantees.bounds import most_wrong, rules_out, share_of, zero_error_sample
from surelabel.types import BoolArray, FloatArray, IntArray

_CANDIDATES = 100
_DEVIATIONS = 3.0


@dataclass(frozen=True)
class CertifySample:
    """A pool of N images and the certify images among them."""

    scores: FloatArray
    """(N,) higher is more uncertain; inf for an image that may never be accepted."""
    units: IntArray
    """(N,) the sampling unit of each image, numbered from 0: itself, or its group."""
    checked: BoolArray
    """(N,) the certify images: their label is known."""
    wrong: BoolArray
    """(N,) whether the guess differs from the label; read where ``checked`` only."""

    def part(self, chosen: BoolArray) -> CertifySample:
        """The pool restricted to some images, by a rule that knows no certify label."""
        _, units = np.unique(self.units[chosen], return_inverse=True)
        return CertifySample(
            self.scores[chosen],
            units.astype(np.int64),
            self.checked[chosen],
            self.wrong[chosen],
        )

    @cached_property
    def drawn(self) -> BoolArray:
        """(U,) the units that were drawn."""
        n_units = int(self.units.max(initial=-1)) + 1
        drawn: BoolArray = np.bincount(self.units[self.checked], minlength=n_units) > 0
        return drawn


class Finding(StrEnum):
    """What the test of a target came to."""

    CERTIFIED = "certified"
    """The threshold is shown to keep the promise."""
    TOO_FEW = "too_few"
    """Even without an error there would be too few certify images."""
    TOO_WRONG = "too_wrong"
    """The strictest candidate failed: there were errors, or fewer images than expected."""


@dataclass(frozen=True)
class Count:
    """What the certify images say about one set of accepted images."""

    n_accepted: int
    """Images, certify images included."""
    n_units: int
    """Sampling units among them."""
    n_checked: int
    """Units that were drawn, so that their labels are known."""
    n_wrong: int
    """Drawn units with a wrong guess; images of a drawn group without a label count as wrong."""


@dataclass(frozen=True)
class Verdict:
    """The outcome for one target."""

    finding: Finding
    max_error: float
    delta: float
    threshold: float
    """Accept scores up to it; -inf when nothing is promised."""
    count: Count
    """At the threshold; at the first candidate when that failed; when there are too few, of the
    whole pool, with ``n_wrong`` 0: then no label is read."""
    least_error: float
    """The smallest error that zero mistakes could show with these certify images."""
    n_needed: int
    """Units that have to be accepted and checked, without an error, for this target."""


def count_at(sample: CertifySample, accepted: BoolArray) -> Count:
    """Count one set of accepted images, (N,)."""
    n_units = len(sample.drawn)
    there = np.bincount(sample.units[accepted], minlength=n_units) > 0
    bad = np.bincount(sample.units[accepted & _blamed(sample)], minlength=n_units) > 0
    checked = int((there & sample.drawn).sum())
    return Count(int(accepted.sum()), int(there.sum()), checked, int(bad.sum()))


def bound_at(sample: CertifySample, accepted: BoolArray, delta: float) -> int:
    """At most so many of the accepted images are wrong, with probability 1 - delta.

    ``accepted`` (N,) must be fixed without a look at the certify labels, as a fence from tune
    labels is. The labels of drawn units are known and counted as they are.
    """
    count = count_at(sample, accepted)
    most = most_wrong(count.n_units, count.n_checked, count.n_wrong, delta)
    sizes = np.bincount(sample.units[accepted], minlength=len(sample.drawn))
    unseen = np.sort(sizes[~sample.drawn])[::-1]
    known = int((accepted & _blamed(sample)).sum())
    return known + int(unseen[: most - count.n_wrong].sum())


def certified_threshold(sample: CertifySample, max_error: float, delta: float) -> Verdict:
    """Test candidates from strict to loose and keep the last that passed; see the module."""
    sample = sample.part(np.isfinite(sample.scores))
    n_units, n_drawn = len(sample.drawn), int(sample.drawn.sum())
    verdict = Verdict(
        Finding.TOO_FEW,
        max_error,
        delta,
        -math.inf,
        Count(len(sample.scores), n_units, n_drawn, 0),
        least_error=least_error(n_units, n_drawn, delta),
        n_needed=zero_error_sample(max_error, delta, n_units),
    )
    for threshold, count, allowed in _ladder(sample, max_error):
        started = verdict.finding is not Finding.TOO_FEW
        if not started and not _can_pass(count.n_units, n_units, n_drawn, allowed, delta):
            continue
        if not rules_out(count.n_units, count.n_checked, count.n_wrong, allowed, delta):
            return verdict if started else _with(verdict, Finding.TOO_WRONG, -math.inf, count)
        verdict = _with(verdict, Finding.CERTIFIED, threshold, count)
    return verdict


def candidates(scores: FloatArray) -> FloatArray:
    """Thresholds at a hundred even quantiles of the scores, (N,), strict to loose."""
    ordered = np.sort(scores)
    if not len(ordered):
        return ordered
    ranks = np.ceil(np.arange(1, _CANDIDATES + 1) * len(ordered) / _CANDIDATES).astype(np.int64)
    return np.unique(ordered[ranks - 1])


def least_error(n_all: int, n_drawn: int, delta: float) -> float:
    """The smallest error that zero mistakes among the drawn could show; 1 without any."""
    return most_wrong(n_all, n_drawn, 0, delta) / n_all if n_all else 1.0


def _ladder(sample: CertifySample, max_error: float) -> Iterator[tuple[float, Count, int]]:
    """Each candidate, what it accepts, and how many units may be bad for it to pass."""
    thresholds = candidates(sample.scores)
    if len(sample.drawn) < len(sample.scores):
        for threshold in thresholds.tolist():
            accepted = sample.scores <= threshold
            sizes = np.bincount(sample.units[accepted])
            allowed = _units_within(sizes, share_of(max_error, int(accepted.sum())))
            yield threshold, count_at(sample, accepted), allowed
        return
    order = np.argsort(sample.scores, kind="stable")
    n = np.searchsorted(sample.scores[order], thresholds, side="right")
    checked = np.cumsum(sample.checked[order])[n - 1]
    wrong = np.cumsum(_blamed(sample)[order])[n - 1]
    columns = (thresholds.tolist(), n.tolist(), checked.tolist(), wrong.tolist())
    for threshold, accepted, seen, bad in zip(*columns, strict=True):
        yield threshold, Count(accepted, accepted, seen, bad), share_of(max_error, accepted)


def _with(verdict: Verdict, finding: Finding, threshold: float, count: Count) -> Verdict:
    kept = (verdict.least_error, verdict.n_needed)
    return Verdict(finding, verdict.max_error, verdict.delta, threshold, count, *kept)


def _blamed(sample: CertifySample) -> BoolArray:
    """(N,) images of drawn units whose guess is wrong, or that nobody labeled."""
    blamed: BoolArray = sample.drawn[sample.units] & (sample.wrong | ~sample.checked)
    return blamed


def _units_within(sizes: IntArray, n_images: int) -> int:
    """How many units, however large, hold at most ``n_images`` accepted images together."""
    totals = np.cumsum(np.sort(sizes[sizes > 0])[::-1])
    return int(np.searchsorted(totals, n_images, side="right"))


def _can_pass(there: int, n_units: int, n_drawn: int, allowed: int, delta: float) -> bool:
    """Whether zero errors would pass with as many drawn units as are nearly sure to be there."""
    share = there / n_units
    rest = (n_units - n_drawn) / max(1, n_units - 1)
    expected = n_drawn * share
    deviation = math.sqrt(expected * (1 - share) * rest)
    sure = min(math.floor(expected - _DEVIATIONS * deviation + 1e-9), there)
    return sure > 0 and rules_out(there, sure, 0, allowed, delta)
