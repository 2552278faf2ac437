from __future__ import annotations

import numpy as np
import pytest

from surelabel.guarantees.certification import CertifySample
from surelabel.guarantees.forecast import accepted_test, dataset_test, forecast

RNG = np.random.default_rng(3)


def test_more_certify_labels_give_no_less_coverage() -> None:
    scores = RNG.random(400)
    correct = RNG.random(400) > 0.08 * scores**4
    rng = np.random.default_rng(1)
    sizes = (50, 400, 2000)
    outlooks = forecast(
        scores, correct, n_pool=4000, sizes=sizes, certify=accepted_test(0.02, 0.05), rng=rng
    )
    assert [o.n_certify for o in outlooks] == list(sizes)
    assert outlooks[0].refused == 1
    assert outlooks[0].middle <= outlooks[1].middle <= outlooks[2].middle
    assert all(o.low <= o.middle <= o.high for o in outlooks)
    assert outlooks[2].middle > 0.5


def test_too_few_held_out_labels_give_no_forecast() -> None:
    few, rng = np.ones(5), np.random.default_rng(2)
    assert not forecast(
        few, few > 0, n_pool=9, sizes=(5,), certify=accepted_test(0.02, 0.05), rng=rng
    )


def test_images_that_are_never_accepted_are_not_covered() -> None:
    scores, correct = np.linspace(0, 1, 400), np.ones(400, dtype=bool)
    scores[::2] = np.inf
    (outlook,) = forecast(
        scores,
        correct,
        n_pool=4000,
        sizes=(2000,),
        certify=accepted_test(0.02, 0.05),
        rng=np.random.default_rng(3),
    )
    assert outlook.middle == pytest.approx(0.5, abs=0.06)


def test_the_range_covers_what_then_happens() -> None:
    """Pools with a known share of wrong labels by score, forecast from 150 held-out labels."""
    rng = np.random.default_rng(11)
    n, n_certify, n_pools = 3000, 300, 30
    test = dataset_test(0.03, 0.05, 0.0)
    n_covered = 0
    for _ in range(n_pools):
        scores = np.arange(n) / n
        wrong = rng.random(n) < 0.3 * scores**3
        held = rng.integers(0, n, 150)
        (outlook,) = forecast(
            scores[held], ~wrong[held], n_pool=n, sizes=(n_certify,), certify=test, rng=rng
        )
        checked = np.zeros(n, dtype=bool)
        checked[rng.permutation(n)[:n_certify]] = True
        result = test(CertifySample(scores, np.arange(n), checked, wrong))
        n_covered += outlook.low <= (scores <= result.threshold).mean() <= outlook.high
    assert n_covered >= 0.9 * n_pools
