from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_learner import (
    CLASSES,
    FakeLearner,
    MemoryStore,
    Opinion,
    fickle,
    make_problem,
    settings,
    steady,
)
from pandas.testing import assert_frame_equal

from surelabel.config.choices import Mode
from surelabel.config.settings import Config
from surelabel.selftraining.events import (
    Event,
    RoundFinished,
    RoundProgress,
    RoundStarted,
    RunFinished,
)
from surelabel.selftraining.loop import self_train
from surelabel.selftraining.round_inputs import Problem
from surelabel.types import StopReason

UNSURE = 0.6


def always(problem: Problem) -> Callable[[int | None], Problem]:
    return lambda _: problem


def sure_until(last: int) -> Opinion:
    """Other guesses each round up to ``last``, nothing sure after it."""
    return lambda number, item: (number % 3, 0.0 if number <= last else UNSURE)


def run(
    tmp_path: Path, opinion: Opinion, config: Config, problem: Problem | None = None
) -> tuple[StopReason, MemoryStore, list[Event]]:
    store, events = MemoryStore(tmp_path), list[Event]()
    learner = FakeLearner(opinion, held_out=steady)
    reason = self_train(always(problem or make_problem()), learner, store, config, events.append)
    return reason, store, events


def by_confidence(**changes: object) -> Config:
    return settings(accept="confidence:.9", **changes)


def test_the_round_limit_ends_a_run(tmp_path: Path) -> None:
    reason, store, _ = run(tmp_path, fickle, settings(max_rounds=4))
    assert reason is StopReason.ROUND_LIMIT
    assert [m.number for m in store.history()] == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", Mode)
def test_a_run_ends_when_every_image_has_a_label_and_none_changes(
    tmp_path: Path, mode: Mode
) -> None:
    def sure(number: int, item: str) -> tuple[int, float]:
        return steady(1, item)[0], 0.0

    reason, store, _ = run(tmp_path, sure, by_confidence(mode=mode, max_rounds=9))
    assert reason is StopReason.POOL_EMPTY
    assert len(store.outcomes) == (1 if mode is Mode.KEEP else 2), "relabeling has to settle"
    assert store.history()[-1].n_left == 0


def test_labels_that_still_change_are_not_the_end_though_none_is_left(tmp_path: Path) -> None:
    reason, store, _ = run(tmp_path, sure_until(9), by_confidence(max_rounds=4))
    assert reason is StopReason.ROUND_LIMIT
    assert all(m.n_left == 0 for m in store.history())


def test_an_empty_pool_ends_after_the_one_round_that_trains_the_net(tmp_path: Path) -> None:
    reason, store, _ = run(tmp_path, steady, settings(max_rounds=9), make_problem(0))
    assert reason is StopReason.POOL_EMPTY
    assert len(store.outcomes) == 1


def test_few_changes_end_a_run(tmp_path: Path) -> None:
    def slower(number: int, item: str) -> tuple[int, float]:
        place = int(item.removeprefix("pool"))
        return 0, 0.0 if place < (20, 26, 28)[number - 1] else UNSURE

    reason, store, _ = run(tmp_path, slower, by_confidence(stop_below=5))
    assert reason is StopReason.FEW_CHANGES
    assert [m.n_changed for m in store.history()] == [20, 6, 2]


def test_rounds_in_a_row_without_a_new_label_end_a_run(tmp_path: Path) -> None:
    def late(number: int, item: str) -> tuple[int, float]:
        return 0, 0.0 if number == 3 and item == "pool000" else UNSURE

    config = by_confidence(stop_after_empty=3, max_rounds=20, mode=Mode.KEEP)
    reason, store, _ = run(tmp_path, late, config)
    assert reason is StopReason.NONE_ACCEPTED
    assert [m.n_changed for m in store.history()] == [0, 0, 1, 0, 0, 0]


def test_the_reason_is_the_last_event_and_is_found_again_without_another_round(
    tmp_path: Path,
) -> None:
    config = settings(max_rounds=2)
    reason, store, events = run(tmp_path, fickle, config)
    assert events[-1] == RunFinished(reason, 2)
    learner, again = FakeLearner(fickle), list[Event]()
    assert self_train(always(make_problem()), learner, store, config, again.append) is reason
    assert again == [RunFinished(reason, 2)]
    assert learner.inputs_seen == []


def test_events_come_in_order(tmp_path: Path) -> None:
    _, store, events = run(tmp_path, fickle, settings(max_rounds=2))
    kinds = [type(event) for event in events]
    one_round = [RoundStarted, RoundProgress, RoundProgress, RoundFinished]
    assert kinds == [*one_round, *one_round, RunFinished]
    starts = [event for event in events if isinstance(event, RoundStarted)]
    n_first = store.history()[0].n_accepted
    assert starts == [RoundStarted(1, 9, 0, 30), RoundStarted(2, 9, n_first, 30)]
    assert [e.metrics for e in events if isinstance(e, RoundFinished)] == store.history()
    assert [e.number for e in events if isinstance(e, RoundProgress)] == [1, 1, 2, 2]


def test_a_round_is_kept_before_anybody_hears_that_it_is_finished(tmp_path: Path) -> None:
    store = MemoryStore(tmp_path)

    def check(event: Event) -> None:
        if isinstance(event, RoundFinished):
            assert store.history()[-1] is event.metrics

    self_train(always(make_problem()), FakeLearner(), store, settings(), check)
    assert len(store.outcomes) == 3


@pytest.mark.parametrize("mode", Mode)
def test_the_same_seed_gives_the_same_labels(tmp_path: Path, mode: Mode) -> None:
    config = settings(mode=mode)
    _, one, _ = run(tmp_path / "one", fickle, config)
    _, other, _ = run(tmp_path / "other", fickle, config)
    for first, second in zip(one.outcomes, other.outcomes, strict=True):
        assert_frame_equal(first.pool, second.pool)


def test_a_run_goes_on_from_what_the_store_has(tmp_path: Path) -> None:
    _, whole, _ = run(tmp_path / "whole", fickle, settings(max_rounds=4))
    _, halved, _ = run(tmp_path / "halved", fickle, settings(max_rounds=2))
    learner = FakeLearner(fickle, held_out=steady)
    self_train(always(make_problem()), learner, halved, settings(max_rounds=4))
    assert [round_inputs.number for round_inputs in learner.inputs_seen] == [3, 4]
    assert learner.inputs_seen[0].previous_round == halved.place / "002"
    assert_frame_equal(halved.outcomes[-1].pool, whole.outcomes[-1].pool)


def test_only_rounds_with_the_present_inputs_count_for_the_end(tmp_path: Path) -> None:
    config = settings(max_rounds=2)
    _, store, _ = run(tmp_path, fickle, config)
    learner = FakeLearner(fickle, held_out=steady)
    reason = self_train(always(make_problem(inputs="second")), learner, store, config)
    assert reason is StopReason.ROUND_LIMIT
    assert [m.inputs for m in store.history()] == ["first"] * 2 + ["second"] * 2
    assert [m.number for m in store.history()] == [1, 2, 3, 4]
    assert learner.inputs_seen[0].previous_round is None, "those nets learned from other labels"
    assert learner.inputs_seen[1].previous_round == store.place / "003"


def test_answers_that_come_during_a_round_are_used_in_the_next_one(tmp_path: Path) -> None:
    answers = [0]

    def problem(upto: int | None) -> Problem:
        known = answers[0] if upto is None else upto
        return make_problem(n_human=9 + known, inputs=f"after {known}", answers_upto=known)

    def answer(event: Event) -> None:
        if isinstance(event, RoundProgress) and event.number == 1:
            answers[0] = 2

    store, learner = MemoryStore(tmp_path), FakeLearner(fickle, held_out=steady)
    self_train(problem, learner, store, settings(max_rounds=1), answer)
    assert [m.answers_upto for m in store.history()] == [0, 2]
    assert [len(round_inputs.problem.human_ids) for round_inputs in learner.inputs_seen] == [9, 11]


def test_a_begun_round_keeps_to_the_answers_it_began_with(tmp_path: Path) -> None:
    answers = [1]

    def problem(upto: int | None) -> Problem:
        known = answers[0] if upto is None else upto
        return make_problem(n_human=9 + known, inputs=f"after {known}", answers_upto=known)

    def interrupt(event: Event) -> None:
        if isinstance(event, RoundProgress):
            raise KeyboardInterrupt

    store = MemoryStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        self_train(problem, FakeLearner(), store, settings(max_rounds=1), interrupt)
    answers[0] = 5
    learner = FakeLearner(fickle, held_out=steady)
    self_train(problem, learner, store, settings(max_rounds=1))
    assert [round_inputs.problem.answers_upto for round_inputs in learner.inputs_seen] == [1, 5]
    assert [len(round_inputs.problem.human_ids) for round_inputs in learner.inputs_seen] == [10, 14]


@pytest.mark.parametrize("mode", Mode)
def test_a_new_class_between_rounds_leaves_machine_labels_what_they_were(
    tmp_path: Path, mode: Mode
) -> None:
    now = ("ant", "aphid", "bee", "cow")
    config = settings(max_rounds=1, mode=mode)
    store, learner = MemoryStore(tmp_path), FakeLearner(steady)
    self_train(always(make_problem()), learner, store, config)
    first = store.outcomes[-1].pool
    self_train(always(make_problem(classes=now, inputs="second")), learner, store, config)
    round_inputs = learner.inputs_seen[-1]
    trained_on = dict(
        zip(
            round_inputs.pseudo_ids.tolist(),
            [now[k] for k in round_inputs.pseudo_labels],
            strict=True,
        )
    )
    chosen = first[first["accepted"]]
    assert trained_on == dict(zip(chosen["id"], [CLASSES[k] for k in chosen["label"]], strict=True))
    if mode is Mode.KEEP:
        kept = store.outcomes[-1].pool.set_index("id").loc[chosen["id"]]
        assert [now[k] for k in kept["label"]] == list(trained_on.values())
        assert set(kept["round"]) == {1}


@pytest.mark.parametrize("mode", list(Mode))
def test_labels_of_nets_that_learned_what_is_held_out_now_are_not_trained_on(
    tmp_path: Path, mode: Mode
) -> None:
    folded = make_problem(cross_fit=True, inputs="few")
    divided = make_problem(tune_ids=folded.human_ids[:4], inputs="more")
    store = MemoryStore(tmp_path)
    learner = FakeLearner(steady)
    self_train(always(folded), learner, store, settings(max_rounds=2, mode=mode))
    assert len(learner.inputs_seen[1].pseudo_ids)
    self_train(always(divided), learner, store, settings(max_rounds=2, mode=mode))
    assert [len(round_inputs.pseudo_ids) > 0 for round_inputs in learner.inputs_seen] == [
        False,
        True,
        False,
        True,
    ]
    assert [metrics.cross_fit for metrics in store.history()] == [True, True, False, False]
