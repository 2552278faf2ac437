"""Certify with few answers: ask about sure images first, and stop when it is shown or hopeless.

**How it works.** The pool is put in one random order, and the first n units of it are the sample.
To certify a threshold, only sampled images that it accepts have to be checked: the others are left
to people anyway. So people are asked about the sampled images in the order of their scores, the
surest first. Every right answer certifies a part more of the pool, about N / n images. When more
sampled images are wrong than the critical count allows, the look is over: no label above that score
is needed. The outcome is to the image the same as if all n labels had been read. If more is wanted,
a second look doubles the sample, a third doubles it again.

**Why that is valid.** The critical counts hold for all thresholds and all looks at once
(``critical_counts``). It does not matter in which order labels are read, nor when somebody stops;
sampled images without an answer count as wrong. What has to be fixed before the first answer: the
random order, the size of the first look, scores, predictions and the target.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from surelabel.guarantees.certification import (
    CertificationResult,
    CertifySample,
    certified_dataset_threshold,
    dataset_critical_counts,
    units_allowed,
)
from surelabel.types import FloatArray, IntArray


@dataclass(frozen=True)
class PlanStatus:
    """What the answers so far show, and what more of them could."""

    result: CertificationResult
    n_answered: int
    """Sampled images with an answer."""
    n_wrong: int
    """Sampled units with an answer that differs from the prediction, up to where people are."""
    n_may_be_wrong: int
    """As many may be wrong before the look is over; -1 if the sample is too small."""
    to_ask: IntArray
    """(M,) positions of the images that may still be asked about in this look, surest first."""
    images_per_answer: float
    """How many images one more right answer certifies, about."""

    @property
    def is_over(self) -> bool:
        """Whether no further answer of this look can change what is certified."""
        return not len(self.to_ask)


def plan_status(
    sample: CertifySample, max_error: float, delta: float, *, n_labels: int
) -> PlanStatus:
    """Where a certification by looks stands; ``n_labels`` counts the finished dataset."""
    result = certified_dataset_threshold(sample, max_error, delta, n_labels=n_labels)
    possible = np.isfinite(sample.scores)
    inside = sample.restrict(possible)
    n_allowed = units_allowed(inside, max_error, n_labels)
    critical = dataset_critical_counts(inside, n_allowed, delta)
    count = int(critical[-1]) if len(critical) else -1
    first_wrong = first_wrong_scores(inside)
    limit = float(first_wrong[count]) if -1 < count < len(first_wrong) else math.inf
    if count < 0:
        limit = -math.inf
    drawn = np.zeros(len(sample.scores), dtype=bool)
    drawn[possible] = inside.drawn[inside.units]
    open_rows = np.flatnonzero(drawn & ~sample.checked & (sample.scores < limit))
    n_drawn = int(inside.drawn.sum())
    return PlanStatus(
        result=result,
        n_answered=int(sample.checked.sum()),
        n_wrong=int((first_wrong <= limit).sum()),
        n_may_be_wrong=count,
        to_ask=open_rows[np.argsort(sample.scores[open_rows], kind="stable")],
        images_per_answer=len(inside.scores) / n_drawn if n_drawn else 0.0,
    )


def first_wrong_scores(sample: CertifySample) -> FloatArray:
    """The scores of the surest wrong image of each unit with a wrong answer, from low to high."""
    first = np.full(len(sample.drawn), np.inf)
    wrong = sample.checked & sample.wrong
    np.minimum.at(first, sample.units[wrong], sample.scores[wrong])
    return np.sort(first[np.isfinite(first)])
