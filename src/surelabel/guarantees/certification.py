"""Certify a threshold: the loosest one that is shown to leave few wrong labels, or none.

**What is random.** The certify images are a uniform random part of the pool. They are predicted,
scored and trained on like every other pool image, and their labels were not read until now. So
scores and predictions do not depend on which images are certify images, and in every set of pool
images that scores and predictions define, the certify images are a uniform random sample.

**What is certified.** Labels *in the result*, where certify images carry their human label and
count as right. Wrong are accepted images with a wrong prediction that are not certify images.

- The finished dataset: when people have labeled what is left, at most ``max_error`` of *all*
  labels are wrong. The number of wrong labels only grows with the threshold, so one critical count
  serves every threshold: accept up to the certify image that is one wrong too many.
- The accepted part: at most ``max_error`` of the labels of accepted images are wrong. Here a looser
  threshold may have a smaller share of wrong labels. Candidates are quantiles of the pool's scores,
  and the error probability is spent evenly along them.

Either way the chance that a threshold passes although too many labels are wrong is at most delta,
for all thresholds together (``critical_counts``), so the loosest one that passes is taken.

**Looks.** Certify images may also be taken one by one from a random order of the pool, surest
first, and people stop when they like: see ``certify_plan``.

**Groups.** Where people drew groups (lots, bursts), images of a group are right or wrong together,
and the group is the sampling unit: a unit is wrong when one of its accepted images is wrong. B
wrong units hold at most as many wrong images as the B largest units together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from surelabel.guarantees.bounds import (
    smallest_sample,
    whole_share,
    wrong_upper_bound,
)
from surelabel.guarantees.critical_counts import (
    NEVER,
    critical_count,
    critical_counts,
    look_counts,
)
from surelabel.types import BoolArray, FloatArray, IntArray

_N_CANDIDATES = 100


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
    looks: IntArray | None = None
    """(N,) of a sample that grows: the look, from 1, at which the unit of each image was drawn; 0
    for those that were not. Images of drawn units that are not ``checked`` count as wrong. None if
    there is one look, and units with checked images were drawn."""

    def restrict(self, chosen: BoolArray) -> CertifySample:
        """The same for some images of the pool, chosen (N,) without any certify label."""
        _, units = np.unique(self.units[chosen], return_inverse=True)
        return CertifySample(
            self.scores[chosen],
            units.astype(np.int64),
            self.checked[chosen],
            self.wrong[chosen],
            None if self.looks is None else self.looks[chosen],
        )

    def up_to(self, look: int) -> CertifySample:
        """The sample as it was at ``look``, with what is known of it now."""
        if self.looks is None:
            return self
        looks = np.where(self.looks <= look, self.looks, 0)
        return replace(self, looks=looks, checked=self.checked & (looks > 0))

    @cached_property
    def drawn(self) -> BoolArray:
        """(U,) the sampling units that were drawn."""
        n_units = int(self.units.max(initial=-1)) + 1
        of_drawn = self.checked if self.looks is None else self.looks > 0
        drawn: BoolArray = np.bincount(self.units[of_drawn], minlength=n_units) > 0
        return drawn

    @property
    def n_looks(self) -> int:
        """How often the sample was enlarged, the first draw included."""
        return 1 if self.looks is None else int(self.looks.max(initial=0))

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
    """No threshold passed: too many certify images were wrong."""


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
    """At the threshold, or at the strictest candidate that could have passed. With too few certify
    images: of the whole pool, with ``n_wrong`` 0 because no label was read."""
    smallest_error: float
    """The smallest error that these certify images could show if none of them were wrong."""
    n_needed: int
    """Units that have to be checked, with none wrong, for this target if all were accepted."""
    look: int = 1
    """The look at which the threshold passed; units that were drawn later are not counted."""


def certified_threshold(
    sample: CertifySample, max_error: float, delta: float, *, limit: float = math.inf
) -> CertificationResult:
    """The loosest candidate at which at most ``max_error`` of the accepted labels are wrong.

    Every candidate that passes is certified, so ``limit``, which no threshold may exceed, may come
    from the same certify labels.
    """
    sample = sample.restrict(np.isfinite(sample.scores))
    n_units, n_drawn = len(sample.drawn), int(sample.drawn.sum())
    thresholds = candidate_thresholds(sample.scores)
    candidates = _count_candidates(sample, thresholds, max_error)
    spending = delta * np.arange(1, len(thresholds) + 1) / max(1, len(thresholds))
    critical = critical_counts(n_units, n_drawn, candidates.n_allowed, spending)
    facts = _Facts(sample, max_error, len(sample.scores), delta)
    if not (critical > NEVER).any() or not n_drawn:
        return facts.too_few()
    passed = (candidates.n_wrong <= critical) & (thresholds <= limit)
    if not passed.any():
        return facts.too_wrong(candidates.at(int((critical > NEVER).argmax())))
    last = int(np.flatnonzero(passed)[-1])
    return facts.certified(float(thresholds[last]), candidates.at(last))


def certified_dataset_threshold(
    sample: CertifySample, max_error: float, delta: float, *, n_labels: int
) -> CertificationResult:
    """The loosest threshold at which at most ``max_error`` of all ``n_labels`` labels are wrong.

    ``n_labels`` counts the finished dataset: the pool of ``sample``, which people label where the
    threshold does not, and the images that had a human label before.
    """
    sample = sample.restrict(np.isfinite(sample.scores))
    facts = _Facts(sample, max_error, n_labels, delta)
    looks = [sample.up_to(look + 1) for look in range(sample.n_looks)]
    critical = dataset_critical_counts(sample, facts.n_allowed, delta)
    if not looks or critical[-1] == NEVER or not sample.drawn.any():
        return facts.too_few()
    thresholds = [
        _below_the_wrong(look, count) if count > NEVER else -math.inf
        for look, count in zip(looks, critical.tolist(), strict=True)
    ]
    best = int(np.argmax(thresholds))
    counts = count_accepted(looks[best], sample.scores <= thresholds[best])
    if not counts.n_accepted:
        strictest = sample.scores <= sample.scores.min()
        return facts.too_wrong(count_accepted(sample, strictest))
    return replace(facts.certified(thresholds[best], counts), look=best + 1)


def dataset_critical_counts(sample: CertifySample, n_allowed: int, delta: float) -> IntArray:
    """(L,) how many drawn units with a wrong image each look may accept, at any threshold.

    ``n_allowed`` is the number of undrawn units that may be wrong.
    """
    n_units = len(sample.drawn)
    if sample.looks is None:
        n_drawn = int(sample.drawn.sum())
        return np.array([critical_count(n_units, n_drawn, n_allowed, delta)])
    sizes = [int(sample.up_to(look + 1).drawn.sum()) for look in range(sample.n_looks)]
    return look_counts(n_units, sizes, n_allowed, delta * look_spending(len(sizes)))


def look_spending(n_looks: int) -> FloatArray:
    """(L,) the part of delta that may be used up to each look: three quarters of what is left.

    So there may always be another look, and the first one, whose size is chosen with care, costs
    little more than a sample of fixed size.
    """
    return 1 - 0.25 ** np.arange(1, n_looks + 1)


@dataclass(frozen=True)
class _Facts:
    """What every outcome for a target has in common."""

    sample: CertifySample
    max_error: float
    n_labels: int
    """Labels that ``max_error`` is a share of, if everything is accepted."""
    delta: float

    @property
    def n_allowed(self) -> int:
        """Undrawn units that may be wrong while the target is kept, if everything is accepted."""
        return units_allowed(self.sample, self.max_error, self.n_labels)

    def too_few(self) -> CertificationResult:
        sample = self.sample
        n_drawn = int(sample.drawn.sum())
        counts = AcceptedCounts(len(sample.scores), len(sample.drawn), n_drawn, 0)
        return self._result(CertificationStatus.TOO_FEW, -math.inf, counts)

    def too_wrong(self, counts: AcceptedCounts) -> CertificationResult:
        return self._result(CertificationStatus.TOO_WRONG, -math.inf, counts)

    def certified(self, threshold: float, counts: AcceptedCounts) -> CertificationResult:
        return self._result(CertificationStatus.CERTIFIED, threshold, counts)

    def _result(
        self, status: CertificationStatus, threshold: float, counts: AcceptedCounts
    ) -> CertificationResult:
        n_units, n_drawn = len(self.sample.drawn), int(self.sample.drawn.sum())
        most = wrong_upper_bound(n_units, n_drawn, 0, self.delta)
        smallest_error = most / self.n_labels if self.n_labels else 1.0
        n_needed = smallest_sample(self.n_allowed, n_units, self.delta)
        return CertificationResult(
            status, self.max_error, self.delta, threshold, counts, smallest_error, n_needed
        )


def _below_the_wrong(sample: CertifySample, n_wrong: int) -> float:
    """The loosest threshold that accepts at most ``n_wrong`` drawn units with a wrong image."""
    first_wrong = np.full(len(sample.drawn), np.inf)
    counted = sample.counted_wrong
    np.minimum.at(first_wrong, sample.units[counted], sample.scores[counted])
    ordered = np.sort(first_wrong[np.isfinite(first_wrong)])
    if len(ordered) <= n_wrong:
        return float(sample.scores.max())
    below = sample.scores[sample.scores < ordered[n_wrong]]
    return float(below.max(initial=-math.inf))


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
    """The upper bound on the number of accepted images that are wrong in the result.

    ``accepted`` (N,) must be fixed without reading certify labels, as a threshold from tune labels
    is. Drawn units carry their human labels in the result, so none of their images is wrong.
    """
    counts = count_accepted(sample, accepted)
    most_units = wrong_upper_bound(counts.n_units, counts.n_checked, counts.n_wrong, delta)
    sizes = np.bincount(sample.units[accepted], minlength=len(sample.drawn))
    largest_unchecked = np.sort(sizes[~sample.drawn])[::-1]
    return int(largest_unchecked[: most_units - counts.n_wrong].sum())


@dataclass(frozen=True)
class _CandidateCounts:
    """``AcceptedCounts`` of every candidate threshold, as arrays (C,)."""

    n_accepted: IntArray
    n_units: IntArray
    n_checked: IntArray
    n_wrong: IntArray
    n_allowed: IntArray
    """Undrawn units that may be wrong while the target is kept; more for a looser candidate."""

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
    never_falling = np.minimum.accumulate(columns[-1][::-1])[::-1]
    return _CandidateCounts(columns[0], columns[1], columns[2], columns[3], never_falling)


def units_allowed(sample: CertifySample, max_error: float, n_labels: int) -> int:
    """Undrawn units that may be wrong while at most ``max_error`` of ``n_labels`` images are."""
    sizes = np.bincount(sample.units, minlength=len(sample.drawn))
    return _units_within(sizes, whole_share(max_error, n_labels))


def _units_within(sizes: IntArray, n_images: int) -> int:
    """How many units, the largest first, hold at most ``n_images`` accepted images together."""
    totals = np.cumsum(np.sort(sizes[sizes > 0])[::-1])
    return int(np.searchsorted(totals, n_images, side="right"))
