from __future__ import annotations

import math

import numpy as np
import pytest

from surelabel.guarantees.bounds import most_wrong
from surelabel.guarantees.certification import (
    CertifySample,
    Finding,
    bound_at,
    candidates,
    certified_threshold,
    count_at,
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
    verdict = certified_threshold(pool(1000, 400), 0.02, 0.05)
    assert (verdict.finding, verdict.threshold) == (Finding.CERTIFIED, 999)
    assert (verdict.count.n_accepted, verdict.count.n_checked) == (1000, 400)


def test_errors_among_the_unsure_set_the_threshold_before_them() -> None:
    everything = pool(1000, 500, list(range(600, 1000)))
    verdict = certified_threshold(everything, 0.02, 0.05)
    assert verdict.finding is Finding.CERTIFIED
    assert 580 <= verdict.threshold <= 615


def test_too_few_certify_images_are_said_without_reading_a_label() -> None:
    sample = pool(2000, 40)
    no_labels = CertifySample(sample.scores, sample.units, sample.checked, sample.checked)
    for each in (sample, no_labels):
        verdict = certified_threshold(each, 0.02, 0.05)
        assert (verdict.finding, verdict.threshold) == (Finding.TOO_FEW, -math.inf)
        assert verdict.count.n_wrong == 0
        assert verdict.least_error == most_wrong(2000, 40, 0, 0.05) / 2000 > 0.02
        assert 130 < verdict.n_needed < 150


def test_errors_among_the_surest_end_in_a_refusal() -> None:
    verdict = certified_threshold(pool(1000, 300, list(range(0, 1000, 10))), 0.02, 0.05)
    assert (verdict.finding, verdict.threshold) == (Finding.TOO_WRONG, -math.inf)
    assert verdict.count.n_wrong > 0


def test_the_start_does_not_follow_where_the_certify_images_fell() -> None:
    """Same pool, same number drawn: the first candidate that counts is the same, as it has to be
    fixed before the draw.
    """
    starts = set()
    for seed in range(8):
        checked = np.zeros(3000, dtype=bool)
        checked[np.random.default_rng(seed).permutation(3000)[:400]] = True
        sample = CertifySample(np.arange(3000.0), np.arange(3000), checked, np.ones(3000, bool))
        verdict = certified_threshold(sample, 0.02, 0.05)
        assert verdict.finding is Finding.TOO_WRONG
        starts.add(verdict.count.n_accepted)
    assert len(starts) == 1


def test_an_image_that_may_never_be_accepted_is_not() -> None:
    sample = pool(1000, 400)
    scores = np.where(np.arange(1000) % 10 == 0, np.inf, sample.scores)
    verdict = certified_threshold(
        CertifySample(scores, sample.units, sample.checked, sample.wrong), 0.02, 0.05
    )
    assert verdict.count.n_accepted == 900
    never = CertifySample(np.full(3, np.inf), np.arange(3), np.ones(3, bool), np.zeros(3, bool))
    assert certified_threshold(never, 0.02, 0.05).finding is Finding.TOO_FEW


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
    """The general way through groups agrees with the short way through single images."""
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
    assert bound_at(single, accepted, 0.05) == bound_at(lonely, np.append(accepted, False), 0.05)


def test_groups_are_the_unit() -> None:
    """100 groups of 10: hundreds of labeled images are only 30 draws."""
    units = np.repeat(np.arange(100), 10)
    checked = units < 30
    sample = CertifySample(np.zeros(1000), units, checked, np.zeros(1000, dtype=bool))
    everything = np.ones(1000, dtype=bool)
    assert count_at(sample, everything).n_checked == 30
    assert bound_at(sample, everything, 0.05) == 10 * most_wrong(100, 30, 0, 0.05)


def test_a_drawn_group_counts_as_wrong_where_nobody_looked() -> None:
    units = np.repeat(np.arange(50), 2)
    checked = (units < 20) & (np.arange(100) != 1)
    sample = CertifySample(np.zeros(100), units, checked, np.zeros(100, dtype=bool))
    assert count_at(sample, np.ones(100, dtype=bool)).n_wrong == 1


def test_the_bound_of_large_groups_is_that_of_the_largest() -> None:
    units = np.concatenate([np.zeros(50, dtype=int), np.arange(1, 51)])
    checked = np.isin(units, np.arange(1, 41))
    sample = CertifySample(np.zeros(100), units, checked, np.zeros(100, dtype=bool))
    most = most_wrong(51, 40, 0, 0.05)
    assert bound_at(sample, np.ones(100, dtype=bool), 0.05) == 50 + most - 1


@pytest.mark.parametrize("n", [1, 7, 99, 100, 1000])
def test_candidates_are_scores_of_the_pool_from_strict_to_loose(n: int) -> None:
    scores = RNG.random(n)
    found = candidates(scores)
    assert len(found) == min(n, 100)
    assert (np.diff(found) > 0).all()
    assert np.isin(found, scores).all()
    assert found[-1] == scores.max()
