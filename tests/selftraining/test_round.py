from __future__ import annotations

import itertools
import math
from pathlib import Path

import hypothesis
import numpy as np
import pandas as pd
import pytest
from fake_learner import (
    CLASSES,
    FakeLearner,
    Opinion,
    fickle,
    make_problem,
    names,
    opinions,
    settings,
    steady,
    sure_of,
)
from hypothesis import given
from hypothesis import strategies as st
from pandas.testing import assert_frame_equal

from surelabel.config.choices import Measure, Mode, Weighting
from surelabel.config.settings import Config
from surelabel.inference.measures import MEASURES
from surelabel.selection.weights import inverse_uncertainty_weights, phi
from surelabel.selftraining.learner import Learner
from surelabel.selftraining.round import RoundOutcome, run_round
from surelabel.selftraining.round_inputs import Problem, renumber_classes, round_inputs_from
from surelabel.types import Ids, no_progress

NOWHERE = Path("nowhere")


def one_round(
    learner: Learner,
    config: Config,
    problem: Problem | None = None,
    previous: pd.DataFrame | None = None,
    number: int = 1,
) -> RoundOutcome:
    round_inputs = round_inputs_from(number, problem or make_problem(), previous)
    return run_round(round_inputs, previous, learner, config, NOWHERE, no_progress)


def rounds(learner: Learner, config: Config, problem: Problem, n: int) -> list[RoundOutcome]:
    outcomes: list[RoundOutcome] = []
    for number in range(1, n + 1):
        previous = outcomes[-1].pool if outcomes else None
        outcomes.append(one_round(learner, config, problem, previous, number))
    return outcomes


def accepted_ids(table: pd.DataFrame) -> set[str]:
    return set(table.loc[table["accepted"], "id"])


@hypothesis.settings(deadline=None)
@given(
    scores=st.lists(st.floats(0, 0.6), min_size=30, max_size=30),
    accept=st.sampled_from(
        ["target", "tukey", "q2", "q3", "quantile:.9", "top:7", "confidence:.7"]
    ),
)
def test_the_accepted_are_the_surest(scores: list[float], accept: str) -> None:
    problem = make_problem(30)
    by_id = dict(zip(problem.pool_ids.tolist(), scores, strict=True))
    learner = FakeLearner(sure_of(by_id), held_out=steady)
    pool = one_round(learner, settings(accept=accept), problem).pool
    chosen = pool["accepted"]
    if chosen.any() and not chosen.all():
        assert pool.loc[chosen, "score"].max() <= pool.loc[~chosen, "score"].min()
    assert (pool.loc[chosen, "score"] <= pool.loc[chosen, "threshold"]).all()


def test_a_round_has_one_row_for_each_pool_image_in_the_order_of_the_pool() -> None:
    problem = make_problem(25)
    pool = one_round(FakeLearner(), settings(), problem).pool
    assert pool["id"].tolist() == problem.pool_ids.tolist()
    assert set(map(str, MEASURES)) <= set(pool.columns)


def test_a_label_is_the_guess_where_it_was_accepted_and_nothing_elsewhere() -> None:
    pool = one_round(FakeLearner(), settings()).pool
    chosen = pool["accepted"]
    assert chosen.any()
    assert not chosen.all()
    assert (pool.loc[chosen, "label"] == pool.loc[chosen, "guess"]).all()
    assert (pool.loc[~chosen, "label"] == -1).all()
    assert (pool.loc[~chosen, "weight"] == 0).all()
    assert (pool.loc[~chosen, "round"] == 0).all()


@pytest.mark.parametrize("mode", Mode)
def test_given_labels_are_trained_on_unchanged_and_are_never_in_the_pool(mode: Mode) -> None:
    problem, learner = make_problem(), FakeLearner(fickle, held_out=steady)
    labels = problem.human_labels.copy()
    for outcome in rounds(learner, settings(mode=mode), problem, 4):
        assert not set(outcome.pool["id"]) & set(problem.human_ids.tolist())
    for round_inputs in learner.inputs_seen:
        assert round_inputs.problem.human_ids.tolist() == problem.human_ids.tolist()
        assert round_inputs.problem.human_labels.tolist() == labels.tolist()
        assert not set(round_inputs.pseudo_ids.tolist()) & set(problem.human_ids.tolist())


def test_the_threshold_rests_on_correct_held_out_predictions_only() -> None:
    scores = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    problem = make_problem(
        tune_ids=names("tune", 6), tune_labels=np.array([0, 0, 0, 1, 1, 1], dtype=np.int64)
    )
    by_id = dict(zip(problem.tune_ids.tolist(), scores, strict=True))
    outcome = one_round(FakeLearner(held_out=sure_of(by_id, guess=0)), settings(), problem)
    assert outcome.metrics.threshold == pytest.approx(0.2), "the median of .1, .2, .3"
    assert outcome.held_out["correct"].tolist() == [True] * 3 + [False] * 3
    wrong = {**by_id, "tune003": 0.0, "tune004": 0.0, "tune005": 0.0}
    same = one_round(FakeLearner(held_out=sure_of(wrong, guess=0)), settings(), problem)
    assert same.metrics.threshold == outcome.metrics.threshold
    right = {**by_id, "tune001": 0.25}
    other = one_round(FakeLearner(held_out=sure_of(right, guess=0)), settings(), problem)
    assert other.metrics.threshold == pytest.approx(0.25)


@pytest.mark.parametrize("accept", ["tukey", "q2", "quantile:.9"])
def test_what_is_said_of_the_pool_and_of_trained_images_does_not_move_the_threshold(
    accept: str,
) -> None:
    config = settings(accept=accept)

    def all_sure(number: int, item: str) -> tuple[int, float]:
        return 1, 1e-9

    one = one_round(FakeLearner(steady, held_out=steady), config)
    other = one_round(FakeLearner(all_sure, held_out=steady), config)
    assert one.metrics.threshold == other.metrics.threshold
    assert_frame_equal(one.held_out, other.held_out)
    assert other.pool["score"].max() < one.pool["score"].min()
    assert other.metrics.n_accepted == 30


def test_target_delivers_part_of_what_the_next_round_is_trained_on() -> None:
    def opinion(number: int, item: str) -> tuple[int, float]:
        rank = int(item[-3:])
        return 0, (rank % 100) / 200

    tune = names("tune", 100)
    labels = np.where(np.arange(100) < 60, 0, 1)  # the 40 least sure guesses are wrong
    problem = make_problem(100, tune_ids=tune, tune_labels=labels)
    learner = FakeLearner(opinion)
    first = one_round(learner, settings(accept="target", target_error=0.02), problem)
    looser = one_round(learner, settings(accept="tukey"), problem)
    assert accepted_ids(first.pool) < accepted_ids(looser.pool)
    assert first.metrics.held_out_accepted_errors == 0
    assert first.metrics.target_error == 0.02
    assert first.metrics.estimated_error <= 0.02
    assert looser.metrics.target_error is None
    trained = [round_inputs_from(2, problem, each.pool) for each in (first, looser)]
    assert trained[0].pseudo_ids.tolist() == trained[1].pseudo_ids.tolist()
    assert trained[0].pseudo_labels.tolist() == trained[1].pseudo_labels.tolist()
    assert first.metrics.n_changed == looser.metrics.n_changed, "the stop rules watch training"
    assert (first.pool.loc[~first.pool["accepted"], "label"] == -1).all()


def test_in_keep_mode_the_next_round_is_trained_on_what_target_delivers() -> None:
    config = settings(accept="target", target_error=0.5, mode=Mode.KEEP)
    pool = one_round(FakeLearner(), config, make_problem()).pool
    assert (pool["weight"] > 0).tolist() == pool["accepted"].tolist()


def test_a_target_out_of_reach_accepts_nothing_and_says_what_was_reached() -> None:
    metrics = one_round(FakeLearner(), settings(accept="target", target_error=0.01)).metrics
    assert metrics.n_accepted == 0
    assert metrics.lowest_error is not None
    assert metrics.lowest_error > 0.01


def test_out_of_fold_predictions_of_human_labels_take_the_place_of_tune_labels() -> None:
    problem = make_problem(cross_fit=True)
    outcome = one_round(FakeLearner(), settings(), problem)
    guesses = opinions(steady, problem.human_ids)
    right = guesses == problem.human_labels
    scores = np.array([steady(1, item)[1] for item in problem.human_ids.tolist()])
    assert 0 < right.sum() < len(right)
    assert outcome.held_out["id"].tolist() == problem.human_ids.tolist()
    assert outcome.metrics.threshold == pytest.approx(np.median(scores[right]))
    assert outcome.metrics.held_out_errors == (~right).sum()


@pytest.mark.parametrize("accept", ["tukey", "q3"])
@pytest.mark.parametrize("n_tune", [0, 5])
def test_without_a_correct_held_out_prediction_nothing_is_accepted(
    accept: str, n_tune: int
) -> None:
    tune = names("tune", n_tune)
    wrong = (opinions(steady, tune) + 1) % 3
    problem = make_problem(tune_ids=tune, tune_labels=wrong)
    outcome = one_round(FakeLearner(), settings(accept=accept), problem)
    assert outcome.metrics.n_accepted == 0
    assert outcome.metrics.n_left == len(problem.pool_ids)
    assert outcome.metrics.threshold == -math.inf
    assert outcome.metrics.held_out_errors == outcome.metrics.n_held_out == n_tune


def test_relabel_mode_asks_about_the_whole_pool_in_every_round() -> None:
    learner, problem = FakeLearner(fickle, held_out=steady), make_problem()
    rounds(learner, settings(), problem, 3)
    assert [ids.tolist() for ids in learner.asked] == [problem.pool_ids.tolist()] * 3


def test_relabel_mode_counts_labels_that_are_new_or_changed() -> None:
    predicted = {
        # id: what is predicted in rounds 1 and 2
        "pool000": ((0, 0.0), (0, 0.0)),  # stays
        "pool001": ((0, 0.0), (1, 0.0)),  # changes
        "pool002": ((0, 0.5), (2, 0.0)),  # is new
        "pool003": ((0, 0.0), (0, 0.5)),  # is withdrawn
        "pool004": ((0, 0.5), (1, 0.5)),  # stays open
    }

    def opinion(number: int, item: str) -> tuple[int, float]:
        return predicted[item][number - 1]

    learner = FakeLearner(opinion, held_out=steady)
    first, second = rounds(learner, settings(accept="confidence:.9"), make_problem(5), 2)
    assert first.metrics.n_changed == 3
    assert second.metrics.n_changed == 2
    assert second.metrics.n_accepted == 3
    assert second.pool["label"].tolist() == [0, 1, 2, -1, -1]
    assert second.pool["round"].tolist() == [1, 2, 2, 0, 0]


def test_a_label_that_comes_back_has_the_round_in_which_it_came_back() -> None:
    def opinion(number: int, item: str) -> tuple[int, float]:
        return 0, 0.5 if number == 2 else 0.0

    learner = FakeLearner(opinion, held_out=steady)
    outcomes = rounds(learner, settings(accept="confidence:.9"), make_problem(1), 4)
    assert [o.pool["round"].tolist() for o in outcomes] == [[1], [0], [3], [3]]
    assert [o.metrics.n_changed for o in outcomes] == [1, 0, 1, 0]


def test_keep_mode_keeps_label_score_round_threshold_and_weight_as_they_were() -> None:
    config = settings(mode=Mode.KEEP, weights=Weighting.INVERSE_UNCERTAINTY, phi_gamma=2.0)
    learner = FakeLearner(fickle, held_out=steady)
    outcomes = rounds(learner, config, make_problem(60), 4)
    for before, after in itertools.pairwise(outcomes):
        kept = before.pool[before.pool["accepted"]].reset_index(drop=True)
        assert len(kept)
        now = after.pool[after.pool["id"].isin(kept["id"])].reset_index(drop=True)
        assert_frame_equal(now, kept)
    asked = [set(ids.tolist()) for ids in learner.asked]
    for outcome, ids in zip(outcomes, asked[1:], strict=False):
        assert not accepted_ids(outcome.pool) & ids, "what has a label is not asked about again"
    born = outcomes[-1].pool.loc[outcomes[-1].pool["accepted"], "round"]
    assert set(born) == {1, 2, 3, 4}


def test_keep_mode_reports_the_threshold_of_this_round_not_of_a_kept_label() -> None:
    """The last row of the pool was accepted in round 1 and carries that round's threshold."""

    def held_out(number: int, item: str) -> tuple[int, float]:
        return steady(number, item)[0], 0.1 * number

    by_id = {"pool000": 0.15, "pool001": 0.05}
    learner = FakeLearner(sure_of(by_id), held_out=held_out)
    first, second = rounds(learner, settings(mode=Mode.KEEP), make_problem(2), 2)
    assert accepted_ids(first.pool) == {"pool001"}
    assert first.metrics.threshold == pytest.approx(0.1)
    assert second.metrics.threshold == pytest.approx(0.2)
    assert second.pool["threshold"].tolist() == pytest.approx([0.2, 0.1])
    assert second.metrics.n_held_out_accepted == 20


def test_keep_mode_goes_on_when_every_image_has_a_label() -> None:
    learner = FakeLearner(lambda _, item: (1, 0.0), held_out=steady)
    first, second = rounds(learner, settings(mode=Mode.KEEP), make_problem(4), 2)
    assert second.metrics.n_left == second.metrics.n_changed == 0
    assert_frame_equal(first.pool, second.pool)
    assert math.isfinite(second.metrics.threshold)


def test_top_n_adds_n_labels_a_round_in_keep_mode() -> None:
    learner = FakeLearner(fickle, held_out=steady)
    outcomes = rounds(learner, settings(accept="top:8", mode=Mode.KEEP), make_problem(30), 4)
    assert [o.metrics.n_accepted for o in outcomes] == [8, 16, 24, 30]
    assert [o.metrics.n_changed for o in outcomes] == [8, 8, 8, 6]


def test_top_n_grows_by_n_a_round_in_relabel_mode() -> None:
    learner = FakeLearner(fickle, held_out=steady)
    outcomes = rounds(learner, settings(accept="top:8"), make_problem(30), 4)
    assert [o.metrics.n_accepted for o in outcomes] == [8, 16, 24, 30]
    for outcome in outcomes:
        pool = outcome.pool
        surest = set(pool.nsmallest(outcome.metrics.n_accepted, "score")["id"])
        assert accepted_ids(pool) == surest
        assert outcome.metrics.threshold == pool.loc[pool["accepted"], "score"].max()


def test_weights_follow_phi_of_the_round() -> None:
    config = settings(
        accept="confidence:.01",
        weights=Weighting.INVERSE_UNCERTAINTY,
        weight_measure=Measure.TOTAL_TRACE,
        phi_gamma=1.0,
        phi_bias=-2.5,
    )
    for number, outcome in enumerate(rounds(FakeLearner(), config, make_problem(), 4), start=1):
        uncertainty = outcome.pool["total_trace"].to_numpy()
        expected = np.exp(-uncertainty * phi(number, 1.0, -2.5))
        assert outcome.pool["weight"].to_numpy() == pytest.approx(expected)
        weights = outcome.pool.sort_values("score")["weight"].tolist()
        trusts_the_sure = weights[0] > weights[-1]
        assert trusts_the_sure == (number < 2.5)


def test_no_machine_label_weighs_more_than_the_cap() -> None:
    config = settings(
        accept="confidence:.01",
        weights=Weighting.INVERSE_UNCERTAINTY,
        phi_gamma=5.0,
        phi_bias=-1.0,
        weight_cap=1.05,
    )
    pool = one_round(FakeLearner(), config, number=3).pool
    free = inverse_uncertainty_weights(pool["score"].to_numpy(), 3, 5.0, -1.0)
    assert free.max() > 1.05
    assert pool["weight"].max() == 1.05
    assert pool["weight"].to_numpy() == pytest.approx(np.minimum(free, 1.05))


def test_without_weighting_every_accepted_label_counts_one() -> None:
    pool = one_round(FakeLearner(), settings(weights=Weighting.NONE)).pool
    assert set(pool.loc[pool["accepted"], "weight"]) == {1.0}


def test_the_next_round_has_the_accepted_labels_with_their_weights() -> None:
    config = settings(weights=Weighting.INVERSE_UNCERTAINTY, phi_gamma=1.0)
    problem = make_problem()
    pool = one_round(FakeLearner(), config, problem).pool
    round_inputs = round_inputs_from(2, problem, pool, NOWHERE)
    chosen = pool[pool["accepted"]]
    assert round_inputs.pseudo_ids.tolist() == chosen["id"].tolist()
    assert round_inputs.pseudo_labels.tolist() == chosen["label"].tolist()
    assert round_inputs.pseudo_weights.tolist() == chosen["weight"].tolist()
    assert round_inputs.previous_round == NOWHERE


def test_an_image_that_left_the_pool_is_not_trained_on_with_its_machine_label() -> None:
    problem = make_problem(30)
    pool = one_round(FakeLearner(), settings(), problem).pool
    smaller = make_problem(15)
    gone = accepted_ids(pool) - set(smaller.pool_ids.tolist())
    assert gone
    round_inputs = round_inputs_from(2, smaller, pool)
    assert not gone & set(round_inputs.pseudo_ids.tolist())
    assert len(one_round(FakeLearner(), settings(), smaller, pool, 2).pool) == 15


def test_class_caps_hold_in_the_first_rounds_and_not_after() -> None:
    """Humans say a third for each class; the learner finds mostly class 0."""

    def opinion(number: int, item: str) -> tuple[int, float]:
        place = int(item.removeprefix("pool"))
        return (0 if place < 20 else 1 if place < 26 else 2), place / 1000

    config = settings(accept="confidence:.9", balance_rounds=2)
    learner = FakeLearner(opinion, held_out=steady)
    outcomes = rounds(learner, config, make_problem(30), 3)
    for outcome in outcomes[:2]:
        chosen = outcome.pool[outcome.pool["accepted"]]
        assert chosen["label"].value_counts().to_dict() == {0: 4, 1: 4, 2: 4}
        zeros = chosen.loc[chosen["label"] == 0, "id"].tolist()
        assert zeros == names("pool", 4).tolist(), "the surest of the class"
    assert outcomes[2].metrics.n_accepted == 30


def test_the_same_opinions_give_the_same_round() -> None:
    one, other = (one_round(FakeLearner(fickle, steady), settings()) for _ in range(2))
    assert_frame_equal(one.pool, other.pool)
    assert_frame_equal(one.held_out, other.held_out)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("accept", ["tukey", "q2", "top:7"])
def test_the_order_in_which_predictions_come_back_changes_nothing(mode: Mode, accept: str) -> None:
    def shuffled(ids: Ids) -> Ids:
        return np.random.default_rng(7).permutation(ids)

    config = settings(mode=mode, accept=accept, balance_rounds=1)
    problem = make_problem(40, cross_fit=True)
    plain = rounds(FakeLearner(fickle, steady), config, problem, 3)
    mixed = rounds(FakeLearner(fickle, steady, order=shuffled), config, problem, 3)
    for one, other in zip(plain, mixed, strict=True):
        assert_frame_equal(one.pool, other.pool)
        held_out = other.held_out.set_index("id").loc[one.held_out["id"]].reset_index()
        assert_frame_equal(one.held_out, held_out)
        assert one.metrics.threshold == other.metrics.threshold
        assert one.metrics.held_out_errors == other.metrics.held_out_errors


@pytest.mark.parametrize("mode", Mode)
def test_the_order_of_the_collection_changes_no_label(mode: Mode) -> None:
    rng = np.random.default_rng(3)
    problem = make_problem(40)
    human, tune = rng.permutation(len(problem.human_ids)), rng.permutation(len(problem.tune_ids))
    other = Problem(
        classes=CLASSES,
        human_ids=problem.human_ids[human],
        human_labels=problem.human_labels[human],
        tune_ids=problem.tune_ids[tune],
        tune_labels=problem.tune_labels[tune],
        pool_ids=rng.permutation(problem.pool_ids),
        cross_fit=False,
        inputs="first",
    )
    config = settings(mode=mode)
    one = rounds(FakeLearner(fickle, steady), config, problem, 3)[-1].pool
    permuted = rounds(FakeLearner(fickle, steady), config, other, 3)[-1].pool
    assert permuted["id"].tolist() == other.pool_ids.tolist() != one["id"].tolist()
    assert_frame_equal(permuted.sort_values("id", ignore_index=True), one)


@pytest.mark.parametrize("opinion", [steady, fickle])
def test_the_figures_of_a_round_add_up(opinion: Opinion) -> None:
    problem = make_problem(30)
    learner = FakeLearner(opinion, held_out=steady)
    first, second = rounds(learner, settings(), problem, 2)
    metrics = second.metrics
    assert metrics.number == 2
    assert metrics.n_human == len(problem.human_ids)
    assert metrics.n_pseudo == first.metrics.n_accepted == len(learner.inputs_seen[1].pseudo_ids)
    assert metrics.n_pool == metrics.n_accepted + metrics.n_left == 30
    assert metrics.n_accepted == second.pool["accepted"].sum()
    assert metrics.n_held_out == len(problem.tune_ids)
    inside = second.held_out["score"] <= metrics.threshold
    assert metrics.n_held_out_accepted == inside.sum()
    assert metrics.held_out_accepted_errors == (inside & ~second.held_out["correct"]).sum()
    assert metrics.learner == {"rounds": 2}


def test_an_empty_pool_is_a_round_with_nothing_to_do() -> None:
    outcome = one_round(FakeLearner(), settings(), make_problem(0))
    assert outcome.metrics.n_pool == outcome.metrics.n_left == 0
    assert math.isfinite(outcome.metrics.threshold)


def test_labels_keep_their_class_when_a_new_class_moves_the_numbers() -> None:
    pool = one_round(FakeLearner(), settings(), make_problem(30)).pool
    now = ("ant", "aphid", "bee", "cow")
    moved = renumber_classes(pool, CLASSES, now)
    chosen = pool["accepted"].to_numpy()
    assert set(pool.loc[chosen, "label"]) == {0, 1, 2}
    for k, name in enumerate(CLASSES):
        was = pool.loc[pool["label"] == k, "id"].tolist()
        assert moved.loc[moved["label"] == now.index(name), "id"].tolist() == was
    rest = ["id", "accepted", "round", "weight", "score"]
    assert_frame_equal(moved[rest], pool[rest])


def test_a_label_of_a_class_that_is_gone_is_no_label() -> None:
    pool = one_round(FakeLearner(), settings(), make_problem(30)).pool
    moved = renumber_classes(pool, CLASSES, ("ant", "cow"))
    gone = pool["label"] == 1
    assert gone.any()
    assert not moved.loc[gone, "accepted"].any()
    assert set(moved.loc[gone, "label"]) == {-1}
    assert moved.loc[gone, ["round", "weight"]].to_numpy().sum() == 0
    assert moved.loc[~gone, "accepted"].equals(pool.loc[~gone, "accepted"])
    assert moved.loc[pool["label"] == 2, "label"].eq(1).all()
