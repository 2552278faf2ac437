"""Certify a threshold: the loosest one whose error is shown to be small enough, or none.

**What is random.** The certify images are a uniform random part of the pool. They are predicted,
scored and trained on like every other pool image, and their labels were not read until now. So
scores and predictions do not depend on which images are certify images, and in every set of pool
images that scores and predictions define, the certify images are a uniform random sample.

**What is certified.** Among all accepted images of the pool, certify images included, at most
``max_error`` have a wrong prediction, with probability at least 1 - delta over the draw. In the
result the certify images carry their human label, so the result is no worse than that.

**How.** Candidate thresholds are quantiles of the pool's scores, fixed before any label is read.
They are tested from strict to loose until the first one fails (fixed-sequence testing). To certify
a bad threshold, the first bad candidate has to pass its test, which happens with probability delta
at most. So the number of candidates needs no Bonferroni correction. The first candidate tested is
the strictest one that a sample without errors could pass. It is chosen from the *expected* number
of certify images below it, minus three standard deviations, and not from the number actually
there: a start that depends on the draw would not be fixed before it.

**Groups.** Where people drew groups (lots, bursts), images of a group are right or wrong together,
and the group is the sampling unit: a unit is wrong when one of its accepted images is wrong. B
wrong units hold at most as many wrong images as the B largest units together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import numpy as np

from surelabel.guarantees.bounds import (
    shows_at_most,
    smallest_provable_error,
    whole_share,
    wrong_upper_bound,
    zero_error_sample_size,
)
from surelabel.types import BoolArray, FloatArray, IntArray

_N_CANDIDATES = 100
_START_DEVIATIONS = 3.0
"""Standard deviations below the expected number of certify images at the first candidate."""


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
    """(N,) whether prediction and label differ; read only where ``checked``."""

    def restrict(self, chosen: BoolArray) -> CertifySample:
        """The same for some images of the pool, chosen (N,) without any certify label."""
        _, units = np.unique(self.units[chosen], return_inverse=True)
        return CertifySample(
            self.scores[chosen],
            units.astype(np.int64),
            self.checked[chosen],
            self.wrong[chosen],
        )

    @cached_property
    def drawn(self) -> BoolArray:
        """(U,) the sampling units that were drawn."""
        n_units = int(self.units.max(initial=-1)) + 1
        drawn: BoolArray = np.bincount(self.units[self.checked], minlength=n_units) > 0
        return drawn

    @property
    def in_groups(self) -> bool:
        """Whether some sampling units hold more than one image."""
        return len(self.drawn) < len(self.scores)

    @property
    def counted_wrong(self) -> BoolArray:
        """(N,) images of drawn units with a wrong prediction, or that nobody labeled."""
        counted: BoolArray = self.drawn[self.units] & (self.wrong | ~self.checked)
        return counted


class CertificationStatus(StrEnum):
    """How the certification of a target ended."""

    CERTIFIED = "certified"
    """A threshold is shown to keep the target."""
    TOO_FEW = "too_few"
    """There are too few certify images even if none of them were wrong. No label was read."""
    TOO_WRONG = "too_wrong"
    """The strictest candidate failed: too many were wrong, or fewer checked than expected."""


@dataclass(frozen=True)
class AcceptedCounts:
    """What the certify images show about one set of accepted images."""

    n_accepted: int
    """Images, certify images included."""
    n_units: int
    """Sampling units among them."""
    n_checked: int
    """Units that were drawn, so that their labels are known."""
    n_wrong: int
    """Drawn units with a wrong image; an image of a drawn group without a label is wrong."""


@dataclass(frozen=True)
class CertificationResult:
    """The outcome for one target."""

    status: CertificationStatus
    max_error: float
    delta: float
    threshold: float
    """Accept scores up to it; -inf when nothing is certified."""
    counts: AcceptedCounts
    """At the threshold, or at the first candidate if that failed. With too few certify images:
    of the whole pool, with ``n_wrong`` 0 because no label was read."""
    smallest_error: float
    """The smallest error that these certify images could show if none of them were wrong."""
    n_needed: int
    """Units that have to be accepted and checked, with none wrong, for this target."""


def certified_threshold(
    sample: CertifySample, max_error: float, delta: float
) -> CertificationResult:
    """Test the candidates from strict to loose and keep the last that passed; see the module."""
    sample = sample.restrict(np.isfinite(sample.scores))
    n_units, n_drawn = len(sample.drawn), int(sample.drawn.sum())
    thresholds = candidate_thresholds(sample.scores)
    candidates = _count_candidates(sample, thresholds, max_error)

    def result(
        status: CertificationStatus, threshold: float, counts: AcceptedCounts
    ) -> CertificationResult:
        smallest_error = smallest_provable_error(n_units, n_drawn, delta)
        n_needed = zero_error_sample_size(max_error, delta, n_units)
        return CertificationResult(
            status, max_error, delta, threshold, counts, smallest_error, n_needed
        )

    could_pass = _could_pass_without_errors(candidates, n_units, n_drawn, delta)
    if not could_pass.any():
        counts = AcceptedCounts(len(sample.scores), n_units, n_drawn, 0)
        return result(CertificationStatus.TOO_FEW, -math.inf, counts)
    start = int(could_pass.argmax())
    passed = shows_at_most(
        candidates.n_allowed[start:],
        candidates.n_units[start:],
        candidates.n_checked[start:],
        candidates.n_wrong[start:],
        delta,
    )
    n_passed = len(passed) if passed.all() else int(passed.argmin())
    if not n_passed:
        return result(CertificationStatus.TOO_WRONG, -math.inf, candidates.at(start))
    last = start + n_passed - 1
    return result(CertificationStatus.CERTIFIED, float(thresholds[last]), candidates.at(last))


def candidate_thresholds(scores: FloatArray) -> FloatArray:
    """Thresholds at a hundred even quantiles of the scores, (N,), strict to loose."""
    ordered = np.sort(scores)
    if not len(ordered):
        return ordered
    steps = np.arange(1, _N_CANDIDATES + 1) * len(ordered) / _N_CANDIDATES
    return np.unique(ordered[np.ceil(steps).astype(np.int64) - 1])


def count_accepted(sample: CertifySample, accepted: BoolArray) -> AcceptedCounts:
    """Count one set of accepted images, (N,)."""
    n_units = len(sample.drawn)
    present = np.bincount(sample.units[accepted], minlength=n_units) > 0
    wrong = np.bincount(sample.units[accepted & sample.counted_wrong], minlength=n_units) > 0
    n_checked = int((present & sample.drawn).sum())
    return AcceptedCounts(int(accepted.sum()), int(present.sum()), n_checked, int(wrong.sum()))


def wrong_images_upper_bound(sample: CertifySample, accepted: BoolArray, delta: float) -> int:
    """The upper bound on the number of accepted images that are wrong.

    ``accepted`` (N,) must be fixed without reading certify labels, as a threshold from tune labels
    is. The labels of drawn units are known and counted as they are.
    """
    counts = count_accepted(sample, accepted)
    most_units = wrong_upper_bound(counts.n_units, counts.n_checked, counts.n_wrong, delta)
    sizes = np.bincount(sample.units[accepted], minlength=len(sample.drawn))
    largest_unchecked = np.sort(sizes[~sample.drawn])[::-1]
    known = int((accepted & sample.counted_wrong).sum())
    return known + int(largest_unchecked[: most_units - counts.n_wrong].sum())


@dataclass(frozen=True)
class _CandidateCounts:
    """``AcceptedCounts`` of every candidate threshold, as arrays (C,)."""

    n_accepted: IntArray
    n_units: IntArray
    n_checked: IntArray
    n_wrong: IntArray
    n_allowed: IntArray
    """Units that may be wrong while the target is kept."""

    def at(self, i: int) -> AcceptedCounts:
        columns = (self.n_accepted, self.n_units, self.n_checked, self.n_wrong)
        return AcceptedCounts(*(int(column[i]) for column in columns))


def _count_candidates(
    sample: CertifySample, thresholds: FloatArray, max_error: float
) -> _CandidateCounts:
    if sample.in_groups:
        return _count_candidates_in_groups(sample, thresholds, max_error)
    order = np.argsort(sample.scores, kind="stable")
    n = np.searchsorted(sample.scores[order], thresholds, side="right").astype(np.int64)
    n_checked = np.cumsum(sample.checked[order], dtype=np.int64)[n - 1]
    n_wrong = np.cumsum(sample.counted_wrong[order], dtype=np.int64)[n - 1]
    n_allowed = np.array([whole_share(max_error, each) for each in n.tolist()], dtype=np.int64)
    return _CandidateCounts(n, n, n_checked, n_wrong, n_allowed)


def _count_candidates_in_groups(
    sample: CertifySample, thresholds: FloatArray, max_error: float
) -> _CandidateCounts:
    rows = []
    for threshold in thresholds.tolist():
        accepted = sample.scores <= threshold
        counts = count_accepted(sample, accepted)
        sizes = np.bincount(sample.units[accepted])
        n_allowed = _units_within(sizes, whole_share(max_error, counts.n_accepted))
        rows.append(
            (counts.n_accepted, counts.n_units, counts.n_checked, counts.n_wrong, n_allowed)
        )
    columns = np.array(rows, dtype=np.int64).reshape(-1, 5).T
    return _CandidateCounts(*columns)


def _units_within(sizes: IntArray, n_images: int) -> int:
    """How many units, the largest first, hold at most ``n_images`` accepted images together."""
    totals = np.cumsum(np.sort(sizes[sizes > 0])[::-1])
    return int(np.searchsorted(totals, n_images, side="right"))


def _could_pass_without_errors(
    candidates: _CandidateCounts, n_units: int, n_drawn: int, delta: float
) -> BoolArray:
    """(C,) whether a candidate would pass with no error and as many drawn units as are nearly
    sure to be there.
    """
    share = candidates.n_units / n_units
    expected = n_drawn * share
    finite_population = (n_units - n_drawn) / max(1, n_units - 1)
    deviation = np.sqrt(expected * (1 - share) * finite_population)
    nearly_sure = np.floor(expected - _START_DEVIATIONS * deviation + 1e-9).astype(np.int64)
    n_checked = np.clip(nearly_sure, 0, candidates.n_units)
    shown = shows_at_most(candidates.n_allowed, candidates.n_units, n_checked, 0, delta)
    could_pass: BoolArray = (n_checked > 0) & shown
    return could_pass
