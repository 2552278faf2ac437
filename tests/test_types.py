from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.types import FloatArray, Prediction, derive_seed

P = np.array([[0.2, 0.5, 0.3], [0.9, 0.05, 0.05]])


def prediction(n: int = 2, probabilities: FloatArray = P) -> Prediction:
    ids = np.array([f"item-{i}" for i in range(n)])
    return Prediction(ids, probabilities, np.zeros(2), np.ones(2), np.zeros(2))


def test_the_guess_is_the_class_of_the_highest_mean_probability() -> None:
    assert prediction().guess.tolist() == [1, 0]
    assert prediction().guess.dtype == np.int64
    assert prediction().probability.tolist() == [0.5, 0.9]
    assert len(prediction()) == 2


def test_a_prediction_whose_fields_do_not_match_is_refused() -> None:
    with pytest.raises(ValueError, match="3 items"):
        prediction(n=3)
    with pytest.raises(ValueError, match="2 items"):
        Prediction(np.array(["a", "b"]), P, np.zeros(2), np.ones(2), np.zeros(1))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_prediction_that_is_not_finite_is_refused_instead_of_repaired(bad: float) -> None:
    broken = P.copy()
    broken[1, 1] = bad
    with pytest.raises(ValueError, match="not finite"):
        prediction(probabilities=broken)


def test_derived_seeds_are_the_same_on_every_machine_and_in_every_version() -> None:
    assert derive_seed(0, 1, "masks") == 6407349941475510294


def test_names_are_kept_apart() -> None:
    seeds = [
        derive_seed(0),
        derive_seed(1),
        derive_seed(0, "a"),
        derive_seed(0, "a", "b"),
        derive_seed(0, "b", "a"),
        derive_seed(0, "ab"),
        derive_seed(0, 1, "a"),
        derive_seed(0, 11, "a"),
        derive_seed(0, 1, 1, "a"),
    ]
    assert len(set(seeds)) == len(seeds)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**62), st.lists(st.text() | st.integers(), max_size=3))
def test_a_derived_seed_fits_every_generator_and_can_be_derived_from(
    seed: int, path: list[str | int]
) -> None:
    derived = derive_seed(seed, *path)
    assert 0 <= derived < 2**63
    assert derived == derive_seed(seed, *path)
    assert derive_seed(derived, "next") != derived
