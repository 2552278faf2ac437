from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surelabel.config.choices import Measure
from surelabel.inference.measures import MEASURES, all_measures, entropy, measure
from surelabel.types import FloatArray, Prediction

LN2 = math.log(2)


def reduce_samples(samples: FloatArray, noise: float = 0.0) -> Prediction:
    """(T, N, K) sampled probabilities, reduced the slow and obvious way."""
    n = samples.shape[1]
    return Prediction(
        ids=np.array([f"item-{i}" for i in range(n)]),
        probabilities=samples.mean(axis=0),
        expected_entropy=entropy(samples).mean(axis=0),
        expected_square=(samples**2).sum(axis=-1).mean(axis=0),
        aleatoric_variance=np.full(n, noise),
    )


def one_item(*samples: list[float], noise: float = 0.0) -> Prediction:
    return reduce_samples(np.array(samples)[:, None, :], noise)


@st.composite
def predictions(draw: st.DrawFn) -> Prediction:
    """Any reduced prediction of 1 to 4 samples, 1 to 3 items and 2 to 5 classes."""
    t, n, k = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(2, 5))
    numbers = st.lists(st.floats(0, 1), min_size=t * n * k, max_size=t * n * k)
    raw = np.array(draw(numbers)).reshape(t, n, k) + 1e-9
    return reduce_samples(raw / raw.sum(axis=-1, keepdims=True), draw(st.floats(0, 10)))


CLOSED_FORMS: list[tuple[str, Prediction, dict[Measure, float]]] = [
    (
        "two opposite one-hots: each sample is sure, together they know nothing",
        one_item([1.0, 0.0], [0.0, 1.0], noise=0.25),
        {
            Measure.LEAST_CONFIDENCE: 1 / 2,
            Measure.MARGIN: 1.0,
            Measure.PREDICTIVE_ENTROPY: LN2,
            Measure.EXPECTED_ENTROPY: 0.0,
            Measure.MUTUAL_INFORMATION: LN2,
            Measure.ALEATORIC_VARIANCE: 0.25,
            Measure.VARIANCE_TRACE: 1 / 2,
            Measure.TOTAL_TRACE: 1 / 2,
            Measure.TOTAL_VARIANCE: 0.25 + LN2,
        },
    ),
    (
        "two equal uniforms over four classes: all of it is noise",
        one_item([0.25] * 4, [0.25] * 4, noise=2.0),
        {
            Measure.LEAST_CONFIDENCE: 3 / 4,
            Measure.MARGIN: 1.0,
            Measure.PREDICTIVE_ENTROPY: 2 * LN2,
            Measure.EXPECTED_ENTROPY: 2 * LN2,
            Measure.MUTUAL_INFORMATION: 0.0,
            Measure.ALEATORIC_VARIANCE: 2.0,
            Measure.VARIANCE_TRACE: 0.0,
            Measure.TOTAL_TRACE: 3 / 4,
            Measure.TOTAL_VARIANCE: 2.0 + 2 * LN2,
        },
    ),
    (
        "two equal one-hots: nothing is uncertain",
        one_item([0.0, 1.0, 0.0], [0.0, 1.0, 0.0]),
        dict.fromkeys(Measure, 0.0),
    ),
    (
        "a one-hot and a uniform: half of each",
        one_item([1.0, 0.0], [0.5, 0.5]),
        {
            Measure.LEAST_CONFIDENCE: 1 / 4,
            Measure.MARGIN: 1 / 2,
            Measure.PREDICTIVE_ENTROPY: 2 * LN2 - 0.75 * math.log(3),
            Measure.EXPECTED_ENTROPY: LN2 / 2,
            Measure.MUTUAL_INFORMATION: 1.5 * LN2 - 0.75 * math.log(3),
            Measure.ALEATORIC_VARIANCE: 0.0,
            Measure.VARIANCE_TRACE: 1 / 8,
            Measure.TOTAL_TRACE: 3 / 8,
            Measure.TOTAL_VARIANCE: 2 * LN2 - 0.75 * math.log(3),
        },
    ),
]


@pytest.mark.parametrize("which", list(Measure))
@pytest.mark.parametrize(("prediction", "expected"), [c[1:] for c in CLOSED_FORMS])
def test_each_measure_has_its_closed_form_value(
    prediction: Prediction, expected: dict[Measure, float], which: Measure
) -> None:
    assert measure(prediction, which) == pytest.approx([expected[which]], abs=1e-12)


def test_every_measure_by_name_and_no_other() -> None:
    assert list(MEASURES) == list(Measure)
    everything = all_measures(one_item([0.9, 0.1], [0.6, 0.4]))
    assert list(everything) == list(Measure)
    assert len({round(float(values[0]), 9) for values in everything.values()}) > 5


def test_entropy_takes_zero_log_zero_as_zero_without_a_warning() -> None:
    assert entropy(np.array([[1.0, 0.0], [0.5, 0.5]])) == pytest.approx([0.0, LN2])
    assert not np.signbit(entropy(np.array([1.0, 0.0])))


def test_entropy_is_over_the_last_axis_whatever_comes_before() -> None:
    stack = np.full((2, 3, 4), 0.25)
    assert entropy(stack).shape == (2, 3)
    assert entropy(stack) == pytest.approx(2 * LN2)


def test_least_confidence_does_not_round_to_zero_near_certainty() -> None:
    tiny = 1e-20
    p = np.array([[1.0, tiny, tiny], [1.0, tiny, 5 * tiny]])
    prediction = Prediction(np.array(["a", "b"]), p, np.zeros(2), np.ones(2), np.zeros(2))
    assert 1 - p.max() == 0
    np.testing.assert_allclose(
        measure(prediction, Measure.LEAST_CONFIDENCE), [2 * tiny, 6 * tiny], rtol=1e-12
    )


def test_measures_are_computed_in_double_precision_from_single_precision_input() -> None:
    p = np.array([[0.7, 0.2, 0.1]], dtype=np.float32)
    prediction = Prediction(np.array(["a"]), p, p[:, 0], p[:, 1], p[:, 2])
    assert all(values.dtype == np.float64 for values in all_measures(prediction).values())


@settings(max_examples=60, deadline=None)
@given(predictions())
def test_aleatoric_and_epistemic_trace_add_up_to_the_total_trace(prediction: Prediction) -> None:
    aleatoric = 1 - prediction.expected_square
    epistemic = measure(prediction, Measure.VARIANCE_TRACE)
    total = measure(prediction, Measure.TOTAL_TRACE)
    np.testing.assert_allclose(aleatoric + epistemic, total, atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(predictions())
def test_expected_entropy_and_mutual_information_add_up_to_predictive_entropy(
    prediction: Prediction,
) -> None:
    parts = measure(prediction, Measure.EXPECTED_ENTROPY) + measure(
        prediction, Measure.MUTUAL_INFORMATION
    )
    np.testing.assert_allclose(parts, measure(prediction, Measure.PREDICTIVE_ENTROPY), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(predictions())
def test_no_measure_is_negative_or_above_its_ceiling(prediction: Prediction) -> None:
    k = prediction.probabilities.shape[1]
    ceilings = {
        Measure.LEAST_CONFIDENCE: 1 - 1 / k,
        Measure.MARGIN: 1.0,
        Measure.PREDICTIVE_ENTROPY: math.log(k),
        Measure.EXPECTED_ENTROPY: math.log(k),
        Measure.MUTUAL_INFORMATION: math.log(k),
        Measure.VARIANCE_TRACE: 1 - 1 / k,
        Measure.TOTAL_TRACE: 1 - 1 / k,
    }
    for which, values in all_measures(prediction).items():
        assert (values >= 0).all(), which
        assert (values <= ceilings.get(which, math.inf) + 1e-9).all(), which


@settings(max_examples=30, deadline=None)
@given(predictions())
def test_no_measure_depends_on_the_names_of_the_classes(prediction: Prediction) -> None:
    turned = Prediction(
        prediction.ids,
        prediction.probabilities[:, ::-1],
        prediction.expected_entropy,
        prediction.expected_square,
        prediction.aleatoric_variance,
    )
    for which in Measure:
        np.testing.assert_allclose(
            measure(turned, which), measure(prediction, which), atol=1e-12, err_msg=which
        )
