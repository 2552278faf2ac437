from __future__ import annotations

import numpy as np
import pytest

from surelabel.guarantees.forecast import forecast

RNG = np.random.default_rng(3)


def test_more_certify_labels_give_no_less_coverage() -> None:
    scores = RNG.random(400)
    correct = RNG.random(400) > 0.08 * scores**4
    rng = np.random.default_rng(1)
    sizes = (50, 400, 2000)
    outlooks = forecast(
        scores, correct, n_pool=4000, sizes=sizes, max_error=0.02, delta=0.05, rng=rng
    )
    assert [o.n_certify for o in outlooks] == list(sizes)
    assert outlooks[0].refused == 1
    assert outlooks[0].middle <= outlooks[1].middle <= outlooks[2].middle
    assert all(o.low <= o.middle <= o.high for o in outlooks)
    assert outlooks[2].middle > 0.5


def test_too_few_held_out_labels_give_no_forecast() -> None:
    few, rng = np.ones(5), np.random.default_rng(2)
    assert not forecast(few, few > 0, n_pool=9, sizes=(5,), max_error=0.02, delta=0.05, rng=rng)


def test_images_that_are_never_accepted_are_not_covered() -> None:
    scores, correct = np.linspace(0, 1, 400), np.ones(400, dtype=bool)
    scores[::2] = np.inf
    (outlook,) = forecast(
        scores,
        correct,
        n_pool=4000,
        sizes=(2000,),
        max_error=0.02,
        delta=0.05,
        rng=np.random.default_rng(3),
    )
    assert outlook.middle == pytest.approx(0.5, abs=0.06)
