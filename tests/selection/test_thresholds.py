from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from surelabel.errors import OptionError
from surelabel.selection.thresholds import (
    NOTHING,
    Rule,
    RuleKind,
    class_balanced,
    estimated_error,
    held_out_threshold,
    lowest_error,
    parse_rule,
    quantile,
    select,
    target_limit,
    tukey_fence,
)
from surelabel.types import BoolArray, FloatArray, IntArray

#: Scores with many ties.
scores_with_ties = st.lists(st.integers(0, 4).map(float), max_size=20).map(
    lambda values: np.array(values, dtype=np.float64)
)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("target", Rule(RuleKind.TARGET)),
        ("tukey", Rule(RuleKind.TUKEY)),
        (" Tukey ", Rule(RuleKind.TUKEY)),
        ("q1", Rule(RuleKind.QUANTILE, 0.25)),
        ("q2", Rule(RuleKind.QUANTILE, 0.5)),
        ("Q3", Rule(RuleKind.QUANTILE, 0.75)),
        ("quantile:.9", Rule(RuleKind.QUANTILE, 0.9)),
        ("quantile:1", Rule(RuleKind.QUANTILE, 1.0)),
        ("top:500", Rule(RuleKind.TOP, 500)),
        ("top:1", Rule(RuleKind.TOP, 1)),
        ("confidence:.99", Rule(RuleKind.CONFIDENCE, 0.99)),
        ("confidence:0.999", Rule(RuleKind.CONFIDENCE, 0.999)),
    ],
)
def test_each_rule_is_read_from_its_text(text: str, rule: Rule) -> None:
    assert parse_rule(text) == rule


@pytest.mark.parametrize(
    "text",
    [
        "",
        "q4",
        "q0",
        "threshold",
        "tukey:2",
        "quantile",
        "quantile:",
        "quantile:0",
        "quantile:1.01",
        "quantile:-.5",
        "quantile:nan",
        "top",
        "top:0",
        "top:2.5",
        "top:-3",
        "top:many",
        "confidence:0",
        "confidence:99",
        "confidence:.9 .9",
    ],
)
def test_each_malformed_rule_is_refused_with_a_sentence_that_quotes_it(text: str) -> None:
    with pytest.raises(OptionError) as refusal:
        parse_rule(text)
    sentence = str(refusal.value)
    assert f"accept is '{text}'" in sentence
    for family in ("target", "tukey", "q2", "q3", "quantile:", "top:", "confidence:"):
        assert family in sentence
    assert sentence.endswith(".")


def test_quantiles_are_linear_between_order_statistics() -> None:
    scores = np.array([4.0, 1.0, 3.0, 2.0])
    assert quantile(scores, 0.5) == 2.5
    assert quantile(scores, 0.75) == 3.25
    assert quantile(scores, 1.0) == 4.0


def test_tukey_fence_is_q3_plus_one_and_a_half_interquartile_ranges() -> None:
    scores = np.arange(9.0)
    assert tukey_fence(scores) == 6 + 1.5 * (6 - 2)
    assert tukey_fence(scores, reach=3.0) == 6 + 3 * (6 - 2)
    assert tukey_fence(np.array([0.7])) == 0.7


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 10), min_size=1, max_size=12), st.floats(0.1, 10), st.floats(-5, 5))
def test_tukey_fence_moves_and_stretches_with_the_scores(
    values: list[float], factor: float, offset: float
) -> None:
    scores = np.array(values)
    moved = tukey_fence(scores * factor + offset)
    assert moved == pytest.approx(tukey_fence(scores) * factor + offset, abs=1e-9)


def test_without_scores_every_held_out_threshold_accepts_nothing() -> None:
    none = np.array([])
    assert quantile(none, 0.5) == NOTHING
    assert tukey_fence(none) == NOTHING
    scores = np.array([0.0, 0.1])
    for text in ("tukey", "q2", "quantile:1"):
        rule = parse_rule(text)
        threshold = held_out_threshold(rule, scores, np.zeros(2, dtype=bool))
        assert threshold == NOTHING
        chosen, _ = select(rule, scores, 1 - scores, threshold)
        assert not chosen.any()


def test_tukey_accepts_no_more_than_a_tenth_of_wrong_held_out_guesses() -> None:
    scores = np.arange(20.0)
    rule = parse_rule("tukey")
    assert held_out_threshold(rule, scores, np.ones(20, dtype=bool)) > 19
    late = scores < 15
    assert held_out_threshold(rule, scores, late) == 15, "one of sixteen is wrong, two of seventeen"
    assert held_out_threshold(rule, scores, scores > 15) == NOTHING
    tied = np.zeros(20)
    assert held_out_threshold(rule, tied, late) == NOTHING, "five of twenty, and none without them"
    assert held_out_threshold(parse_rule("q3"), scores, late) == np.quantile(scores[late], 0.75)


def test_estimated_error_is_the_mean_of_the_posterior_after_a_flat_prior() -> None:
    for n_wrong, n in ((0, 0), (0, 48), (3, 100)):
        posterior = stats.beta(1 + n_wrong, 1 + n - n_wrong)
        assert estimated_error(n_wrong, n) == pytest.approx(posterior.mean())


def _ranked(n: int, *wrong: int) -> tuple[FloatArray, BoolArray]:
    """Scores 0 to n - 1, with wrong guesses at these ranks."""
    return np.arange(n, dtype=float), ~np.isin(np.arange(n), wrong)


def test_target_accepts_up_to_the_last_rank_within_the_estimate() -> None:
    pool = np.linspace(0, 200, 2001)
    assert target_limit(*_ranked(47), pool, 0.02) == NOTHING, "47 right: 1 / 49 is above 2 %"
    assert target_limit(*_ranked(48), pool * 48 / 200, 0.02) == 47, "48 right: 1 / 50"
    scores, correct = _ranked(200, 120)
    assert target_limit(scores, correct, pool, 0.02) == 199, "one of 200 wrong: 2 / 202"
    scores, correct = _ranked(200, *range(120, 200))
    assert target_limit(scores, correct, pool, 0.02) == 120, "two of 122 would be 3 / 124"
    assert target_limit(scores, correct, pool, 0.05) == 124, "6 / 127"


def test_target_accepts_no_larger_share_of_the_pool_than_of_held_out_labels() -> None:
    scores, correct = _ranked(100, *range(60, 100))
    surer = np.arange(1000) / 20  # a net that is surer of the whole pool than of held-out images
    threshold = target_limit(scores, correct, surer, 0.02)
    assert (surer <= threshold).mean() == pytest.approx(0.60, abs=0.002)
    tied = np.zeros(1000)
    assert target_limit(scores, correct, tied, 0.02) == NOTHING


def test_target_stays_within_tukeys_fence() -> None:
    scores, correct = _ranked(200)
    far = np.append(scores, 1e6)
    threshold = target_limit(far, np.append(correct, True), far, 0.02)
    assert threshold == tukey_fence(far) < 1e6


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.02, 0.05, 0.2]))
def test_target_keeps_its_estimate_and_grows_with_the_target(seed: int, target: float) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, 50, 150).astype(float)
    correct = rng.random(150) > scores / 60
    pool = rng.integers(0, 50, 1000).astype(float)
    threshold = target_limit(scores, correct, pool, target)
    assert threshold <= target_limit(scores, correct, pool, 2 * target)
    lowest = lowest_error(scores, correct)
    assert lowest is not None
    assert (threshold == NOTHING) or lowest <= target


def test_few_labels_rarely_mislead_the_target() -> None:
    """Whole errors of pools with known truth: the estimate has to hold up on average."""
    rng = np.random.default_rng(0)
    rank = (np.arange(4000) + 0.5) / 4000
    for error in (0.6 * rank**14, 0.7 * rank**5):
        found = []
        for _ in range(200):
            drawn = rng.choice(4000, 200, replace=False)
            correct = rng.random(200) > error[drawn]
            inside = rank <= target_limit(rank[drawn], correct, rank, 0.02)
            found.append((inside.mean(), error[inside].mean() if inside.any() else 0.0))
        share, wrong = np.array(found).T
        assert (share * wrong).sum() / share.sum() <= 0.02
        assert (wrong > 0.04).mean() <= 0.05


def test_held_out_threshold_looks_only_at_correct_predictions() -> None:
    scores = np.array([1.0, 100.0, 2.0, 100.0, 3.0])
    correct = np.array([True, False, True, False, True])
    assert held_out_threshold(parse_rule("q2"), scores, correct) == 2.0
    assert held_out_threshold(parse_rule("tukey"), scores, correct) == 2.5 + 1.5 * (2.5 - 1.5)
    assert held_out_threshold(parse_rule("quantile:1"), scores, correct) == 3.0


def test_a_score_at_the_threshold_is_accepted_and_one_above_is_not() -> None:
    scores = np.array([0.5, np.nextafter(0.5, 1), 0.2])
    chosen, threshold = select(parse_rule("q3"), scores, 1 - scores, 0.5)
    assert chosen.tolist() == [True, False, True]
    assert threshold == 0.5


@settings(max_examples=80, deadline=None)
@given(
    scores_with_ties,
    st.sampled_from(["tukey", "q2", "quantile:.9", "top:1", "top:5", "top:100"]),
    st.floats(0, 4),
)
def test_the_selected_are_the_surest(scores: FloatArray, text: str, threshold: float) -> None:
    chosen, reported = select(parse_rule(text), scores, 1 - scores / 5, threshold)
    if chosen.any() and not chosen.all():
        assert scores[chosen].max() <= scores[~chosen].min()
    if chosen.any():
        assert scores[chosen].max() <= reported


@settings(max_examples=60, deadline=None)
@given(scores_with_ties, st.integers(1, 25))
def test_top_n_takes_exactly_n_even_under_ties(scores: FloatArray, n: int) -> None:
    chosen, threshold = select(Rule(RuleKind.TOP, n), scores, 1 - scores / 5, 0.0)
    assert chosen.sum() == min(n, len(scores))
    assert threshold == (scores[chosen].max() if len(scores) else NOTHING)


def test_top_n_breaks_ties_by_position() -> None:
    chosen, threshold = select(parse_rule("top:2"), np.full(4, 0.3), np.full(4, 0.7), 0.0)
    assert chosen.tolist() == [True, True, False, False]
    assert threshold == 0.3


def test_confidence_asks_for_the_probability_whatever_the_held_out_threshold() -> None:
    probability = np.array([0.99, 0.9899, 1.0, 0.5])
    scores = np.array([7.0, 0.0, 9.0, 0.0])
    rule = parse_rule("confidence:.99")
    chosen, threshold = select(rule, scores, probability, NOTHING)
    assert chosen.tolist() == [True, False, True, False]
    assert threshold == 9.0
    assert select(rule, scores, probability * 0.9, math.inf)[1] == NOTHING


@st.composite
def choices(draw: st.DrawFn) -> tuple[BoolArray, FloatArray, IntArray, list[int]]:
    """Chosen or not, scores and guesses of up to 40 items, and human label counts of K classes."""
    k = draw(st.integers(1, 4))
    n = draw(st.integers(0, 40))
    guess = draw(st.lists(st.integers(0, k - 1), min_size=n, max_size=n))
    scores = draw(st.lists(st.integers(0, 9), min_size=n, max_size=n))
    chosen = draw(st.lists(st.booleans(), min_size=n, max_size=n))
    humans = draw(st.lists(st.integers(1, 50), min_size=k, max_size=k))
    return (
        np.array(chosen, dtype=bool),
        np.array(scores, dtype=np.float64),
        np.array(guess, dtype=np.int64),
        humans,
    )


@settings(max_examples=150, deadline=None)
@given(choices())
def test_class_balance_keeps_the_surest_of_each_class_up_to_its_share(
    case: tuple[BoolArray, FloatArray, IntArray, list[int]],
) -> None:
    chosen, scores, guess, humans = case
    kept = class_balanced(chosen, scores, guess, np.array(humans) / sum(humans))
    counts = [int((chosen & (guess == k)).sum()) for k in range(len(humans))]
    found = [Fraction(c, h) for c, h in zip(counts, humans, strict=True) if c]
    assert not (kept & ~chosen).any()
    for k, (count, human) in enumerate(zip(counts, humans, strict=True)):
        cap = math.ceil(human * min(found)) if found else 0
        members = guess == k
        assert (kept & members).sum() == min(count, cap)
        left = chosen & ~kept & members
        if left.any() and (kept & members).any():
            assert scores[kept & members].max() <= scores[left].min()


def test_class_balance_leaves_the_scarcest_class_whole_and_cuts_the_rest_to_it() -> None:
    guess = np.array([0] * 8 + [1] * 2)
    scores = np.arange(10.0)[::-1].copy()
    kept = class_balanced(np.ones(10, dtype=bool), scores, guess, np.array([0.5, 0.5]))
    assert np.flatnonzero(kept).tolist() == [6, 7, 8, 9]


def test_a_cap_that_is_a_whole_number_is_not_raised_by_rounding_errors() -> None:
    guess = np.array([0] + [1] * 49)
    shares = np.array([1, 48]) / 49
    kept = class_balanced(np.ones(50, dtype=bool), np.arange(50.0), guess, shares)
    assert (kept & (guess == 1)).sum() == 48


def test_a_class_that_is_not_found_yet_does_not_cap_the_others() -> None:
    guess = np.array([0, 0, 1, 1])
    kept = class_balanced(
        np.ones(4, dtype=bool), np.arange(4.0), guess, np.array([0.25, 0.25, 0.5])
    )
    assert kept.all()


def test_a_class_without_human_labels_has_no_share() -> None:
    guess = np.array([0, 0, 1])
    kept = class_balanced(np.ones(3, dtype=bool), np.arange(3.0), guess, np.array([1.0, 0.0]))
    assert kept.tolist() == [True, True, False]
