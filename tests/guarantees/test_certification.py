from __future__ import annotations

import math

import numpy as np
import pytest

from surelabel.guarantees.bounds import wrong_upper_bound
from surelabel.guarantees.certification import (
    CertificationStatus,
    CertifySample,
    candidate_thresholds,
    certified_threshold,
    count_accepted,
    wrong_images_upper_bound,
)

RNG = np.random.default_rng(5)


def pool(n: int, n_checked: int, wrong: list[int] | None = None) -> CertifySample:
    """Scores 0 to n - 1; the wrong ones at the given scores; checked images spread evenly."""
    checked = np.zeros(n, dtype=bool)
    checked[np.linspace(0, n - 1, n_checked).astype(int)] = True
    bad = np.zeros(n, dtype=bool)
    bad[wrong or []] = True
    return CertifySample(np.arange(n, dtype=float), np.arange(n), checked, bad)


def test_a_pool_without_an_error_is_accepted_whole() -> None:
    result = certified_threshold(pool(1000, 400), 0.02, 0.05)
    assert (result.status, result.threshold) == (CertificationStatus.CERTIFIED, 999)
    assert (result.counts.n_accepted, result.counts.n_checked) == (1000, 400)


def test_errors_among_the_uncertain_set_the_threshold_below_them() -> None:
    everything = pool(1000, 500, list(range(600, 1000)))
    result = certified_threshold(everything, 0.02, 0.05)
    assert result.status is CertificationStatus.CERTIFIED
    assert 580 <= result.threshold <= 615


def test_too_few_certify_images_are_reported_without_reading_a_label() -> None:
    sample = pool(2000, 40)
    no_labels = CertifySample(sample.scores, sample.units, sample.checked, sample.checked)
    for each in (sample, no_labels):
        result = certified_threshold(each, 0.02, 0.05)
        assert (result.status, result.threshold) == (CertificationStatus.TOO_FEW, -math.inf)
        assert result.counts.n_wrong == 0
        assert result.smallest_error == wrong_upper_bound(2000, 40, 0, 0.05) / 2000 > 0.02
        assert 130 < result.n_needed < 150


def test_errors_among_the_most_certain_end_in_a_refusal() -> None:
    result = certified_threshold(pool(1000, 300, list(range(0, 1000, 10))), 0.02, 0.05)
    assert (result.status, result.threshold) == (CertificationStatus.TOO_WRONG, -math.inf)
    assert result.counts.n_wrong > 0


def test_the_first_candidate_does_not_depend_on_the_draw() -> None:
    """Same pool, same number drawn: the test starts at the same candidate."""
    starts = set()
    for seed in range(8):
        checked = np.zeros(3000, dtype=bool)
        checked[np.random.default_rng(seed).permutation(3000)[:400]] = True
        sample = CertifySample(np.arange(3000.0), np.arange(3000), checked, np.ones(3000, bool))
        result = certified_threshold(sample, 0.02, 0.05)
        assert result.status is CertificationStatus.TOO_WRONG
        starts.add(result.counts.n_accepted)
    assert len(starts) == 1


def test_an_image_that_may_never_be_accepted_is_not() -> None:
    sample = pool(1000, 400)
    scores = np.where(np.arange(1000) % 10 == 0, np.inf, sample.scores)
    result = certified_threshold(
        CertifySample(scores, sample.units, sample.checked, sample.wrong), 0.02, 0.05
    )
    assert result.counts.n_accepted == 900
    never = CertifySample(np.full(3, np.inf), np.arange(3), np.ones(3, bool), np.zeros(3, bool))
    assert certified_threshold(never, 0.02, 0.05).status is CertificationStatus.TOO_FEW


def test_a_threshold_depends_on_no_unchecked_label() -> None:
    checked = RNG.random(1500) < 0.3
    wrong = RNG.random(1500) < 0.01
    other = np.where(checked, wrong, ~wrong)
    scores = RNG.random(1500)
    one, two = (
        certified_threshold(CertifySample(scores, np.arange(1500), checked, w), 0.05, 0.05)
        for w in (wrong, other)
    )
    assert one == two


def test_images_that_are_their_own_group_are_counted_as_images() -> None:
    """The code for groups agrees with the faster code for single images."""
    scores, wrong = RNG.random(800), RNG.random(800) < 0.01
    checked = RNG.random(800) < 0.5
    single = CertifySample(scores, np.arange(800), checked, wrong)
    lonely = CertifySample(
        np.append(scores, np.inf),
        np.append(np.arange(800), 0),
        np.append(checked, False),
        np.append(wrong, False),
    )
    one, two = (certified_threshold(s, 0.05, 0.05) for s in (single, lonely))
    assert one.threshold == two.threshold
    accepted = scores <= one.threshold
    assert wrong_images_upper_bound(single, accepted, 0.05) == wrong_images_upper_bound(
        lonely, np.append(accepted, False), 0.05
    )


def test_groups_are_the_unit() -> None:
    """100 groups of 10: hundreds of labeled images are only 30 draws."""
    units = np.repeat(np.arange(100), 10)
    checked = units < 30
    sample = CertifySample(np.zeros(1000), units, checked, np.zeros(1000, dtype=bool))
    everything = np.ones(1000, dtype=bool)
    assert count_accepted(sample, everything).n_checked == 30
    assert wrong_images_upper_bound(sample, everything, 0.05) == 10 * wrong_upper_bound(
        100, 30, 0, 0.05
    )


def test_a_drawn_group_with_an_unlabeled_image_counts_as_wrong() -> None:
    units = np.repeat(np.arange(50), 2)
    checked = (units < 20) & (np.arange(100) != 1)
    sample = CertifySample(np.zeros(100), units, checked, np.zeros(100, dtype=bool))
    assert count_accepted(sample, np.ones(100, dtype=bool)).n_wrong == 1


def test_the_bound_of_large_groups_is_that_of_the_largest() -> None:
    units = np.concatenate([np.zeros(50, dtype=int), np.arange(1, 51)])
    checked = np.isin(units, np.arange(1, 41))
    sample = CertifySample(np.zeros(100), units, checked, np.zeros(100, dtype=bool))
    most = wrong_upper_bound(51, 40, 0, 0.05)
    assert wrong_images_upper_bound(sample, np.ones(100, dtype=bool), 0.05) == 50 + most - 1


@pytest.mark.parametrize("n", [1, 7, 99, 100, 1000])
def test_candidates_are_scores_of_the_pool_from_strict_to_loose(n: int) -> None:
    scores = RNG.random(n)
    thresholds = candidate_thresholds(scores)
    assert len(thresholds) == min(n, 100)
    assert (np.diff(thresholds) > 0).all()
    assert np.isin(thresholds, scores).all()
    assert thresholds[-1] == scores.max()
