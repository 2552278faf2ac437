from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fake_learner import FakeLearner, make_problem, names, settings

from surelabel.config.choices import Mode
from surelabel.selection.neighbor_vote import Adjustment
from surelabel.selftraining import adjustments
from surelabel.selftraining.round import RoundOutcome, run_round
from surelabel.selftraining.round_inputs import Problem, round_inputs_from
from surelabel.types import FloatArray, Ids, no_progress

NOWHERE = Path("nowhere")
HARD = {f"{part}{i:03d}" for part in ("tune", "pool") for i in range(0, 100, 10)}
"""Every tenth image is taken for class 1, surely; all are of class 0."""


def mistaken(number: int, item: str) -> tuple[int, float]:
    return (1, 0.02) if item in HARD else (0, 0.05)


def next_to(item: str) -> str:
    """An easy image of the pool for each; never itself."""
    number = int(item[4:]) if item.startswith(("pool", "tune")) else 0
    other = 1 + 10 * (number // 10) if number % 10 == 0 else 2
    return f"pool{other if other != number else 3:03d}"


def problem(*, cross_fit: bool = False) -> Problem:
    if cross_fit:
        return make_problem(100, cross_fit=True)
    labels = np.zeros(100, dtype=np.int64)
    return make_problem(100, tune_ids=names("tune", 100), tune_labels=labels)


def learned(
    alike: Callable[[str], str] | None = next_to,
    *,
    cross_fit: bool = False,
    mode: Mode = Mode.RELABEL,
    on: bool = True,
    accept: str = "quantile:1",
) -> tuple[RoundOutcome, FakeLearner]:
    config = settings(mode=mode, neighbor_vote=on, accept=accept)
    learner = FakeLearner(mistaken, alike=alike)
    round_inputs = round_inputs_from(1, problem(cross_fit=cross_fit), None)
    return run_round(round_inputs, None, learner, config, NOWHERE, no_progress), learner


def test_a_guess_that_neighbors_contradict_is_less_sure() -> None:
    outcome, learner = learned()
    pool = outcome.pool.set_index("id")
    hard = pool.index.isin(HARD)
    assert learner.kept == [Adjustment(outcome.metrics.neighbor_vote)]
    assert not outcome.metrics.matrix_scaled
    assert outcome.metrics.neighbor_vote > 0
    assert pool.loc[hard, "score"].min() > pool.loc[~hard, "score"].max()
    assert (pool.loc[~hard, "guess"] == 0).all()


def test_held_out_labels_are_judged_by_the_same_measure() -> None:
    outcome, _ = learned()
    pool, held_out = (t.set_index("id")["score"] for t in (outcome.pool, outcome.held_out))
    for number in (10, 17):  # they look like the same images
        assert held_out[f"tune{number:03d}"] == pytest.approx(pool[f"pool{number:03d}"])


@pytest.mark.parametrize(
    "off",
    [
        {"on": False},
        {"cross_fit": True},
        {"mode": Mode.KEEP},
        {"alike": None},
        {"accept": "confidence:0.9"},
    ],
)
def test_nobody_is_asked_where_it_could_not_help_or_would_tell_too_much(off: dict) -> None:  # type: ignore[type-arg]
    outcome, learner = learned(**off)
    assert outcome.metrics.neighbor_vote == 0
    assert not learner.kept
    assert (
        outcome.pool.set_index("id")["guess"] == [int(i in HARD) for i in names("pool", 100)]
    ).all()


def test_misleading_neighbors_get_no_vote() -> None:
    """Easy images look like hard ones: to adjust them would spoil right guesses."""
    outcome, learner = learned(lambda item: "pool000" if item != "pool000" else "pool010")
    assert outcome.metrics.neighbor_vote == 0
    assert not learner.kept


HESITANT = "pool009"


def odd(item: str) -> bool:
    """Every fifth image of class 0; classes are 0, 1, 2 and so on by number."""
    return int(item[4:]) % 15 == 0


def confused(number: int, item: str) -> tuple[int, float]:
    """Odd images are taken for class 1, surely."""
    if item == HESITANT:
        return 0, 0.5
    return (1, 0.04) if odd(item) else (int(item[4:]) % 3, 0.04)


def in_two_minds(item: str) -> str:
    """Odd images look like one of class 0 of which the nets are not sure."""
    if not item.startswith(("pool", "tune")):
        return "pool001"
    first = 18 if item in ("pool003", "pool004", "pool005") else 3
    return HESITANT if odd(item) else f"pool{first + int(item[4:]) % 3:03d}"


@pytest.mark.parametrize("scaling", [True, False])
def test_held_out_labels_correct_what_is_taken_for_another_class(scaling: bool) -> None:
    n = 600
    known = np.arange(n, dtype=np.int64) % 3
    given = make_problem(n, tune_ids=names("tune", n), tune_labels=known)
    learner = FakeLearner(confused, alike=in_two_minds)
    config = settings(accept="quantile:1", matrix_scaling=scaling)
    outcome = run_round(
        round_inputs_from(1, given, None), None, learner, config, NOWHERE, no_progress
    )
    assert outcome.metrics.neighbor_vote > 0
    assert outcome.metrics.matrix_scaled == scaling
    assert (learner.kept[0].scaling is not None) == scaling
    for table in (outcome.pool, outcome.held_out):
        guess = table.set_index("id")["guess"]
        assert set(guess[[item for item in guess.index if odd(item)]]) == {0 if scaling else 1}
        assert (guess.iloc[[1, 4, 7]] == 1).all()


def test_the_index_of_a_very_large_pool_holds_a_part_of_it_and_all_human_labels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(adjustments, "MAX_INDEXED", 10)
    indexed: list[Ids] = []

    class Indexing(FakeLearner):
        def neighbor_index(self, ids: Ids, predictions: FloatArray) -> None:
            indexed.append(ids)

    round_inputs = round_inputs_from(1, problem(), None)
    for _ in range(2):
        run_round(round_inputs, None, Indexing(mistaken), settings(), NOWHERE, no_progress)
    first, again = (set(ids.tolist()) for ids in indexed)
    people = set(round_inputs.problem.human_ids.tolist())
    assert first == again
    assert people < first
    assert len(first - people) == 10
