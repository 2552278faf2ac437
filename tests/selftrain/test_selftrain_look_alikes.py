from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fake_learner import FakeLearner, MemoryStore, make_problem, names, settings

from surelabel.choices import Mode
from surelabel.selftrain import Problem, RoundOutcome, lesson_from, run_round, self_train
from surelabel.selftrain.lessons import in_classes, nothing_accepted
from surelabel.types import no_progress

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


def one_round(
    look_alikes: Callable[[str], str] | None = next_to,
    *,
    cross_fit: bool = False,
    mode: Mode = Mode.RELABEL,
    max_rounds: int = 3,
    on: bool = True,
) -> RoundOutcome:
    config = settings(mode=mode, max_rounds=max_rounds, look_alikes=on, accept="quantile:1")
    learner = FakeLearner(mistaken, look_alikes=look_alikes)
    lesson = lesson_from(1, problem(cross_fit=cross_fit), None)
    return run_round(lesson, None, learner, config, NOWHERE, no_progress)


def test_what_look_alikes_contradict_is_not_taught_as_it_was_guessed() -> None:
    outcome = one_round()
    pool = outcome.pool.set_index("id")
    hard = pool.loc[sorted(HARD & set(pool.index))]
    assert outcome.metrics.look_alikes > 0
    assert (hard["guess"] == 1).all()
    assert (hard["taught"] != 1).all()
    easy = pool.drop(index=hard.index)
    assert (easy.loc[easy["accepted"], "taught"] == 0).all()


def test_the_round_s_own_labels_are_those_of_its_nets() -> None:
    with_, without = one_round().pool, one_round(on=False).pool
    assert "taught" not in without
    assert with_[without.columns].equals(without)


def test_the_next_round_learns_what_was_taught(tmp_path: Path) -> None:
    learner = FakeLearner(mistaken, look_alikes=next_to)
    store, config = MemoryStore(tmp_path), settings(accept="quantile:1", max_rounds=2)
    self_train(lambda _: problem(), learner, store, config)
    taught = store.outcomes[0].pool.set_index("id")["taught"]
    first, second = learner.lessons
    assert not len(first.machine_ids)
    known = dict(zip(second.machine_ids.tolist(), second.machine_labels.tolist(), strict=True))
    assert known == taught[taught != -1].to_dict()
    assert len(second.machine_weights) == len(known)
    assert "taught" not in store.outcomes[1].pool


@pytest.mark.parametrize(
    "off",
    [
        {"on": False},
        {"cross_fit": True},
        {"mode": Mode.KEEP},
        {"max_rounds": 1},
        {"look_alikes": None},
    ],
)
def test_nobody_is_asked_where_it_could_not_help_or_would_tell_too_much(off: dict) -> None:  # type: ignore[type-arg]
    outcome = one_round(**off)
    assert "taught" not in outcome.pool
    assert outcome.metrics.look_alikes == 0


def test_look_alikes_that_mislead_are_not_heeded() -> None:
    """Easy images look like hard ones: to heed them would spoil right guesses."""
    outcome = one_round(lambda item: "pool000" if item != "pool000" else "pool010")
    assert outcome.metrics.look_alikes == 0
    assert "taught" not in outcome.pool


def test_what_is_taught_follows_the_classes_and_goes_with_the_labels() -> None:
    pool = one_round().pool
    swapped = in_classes(pool, ("ant", "bee", "cow"), ("bee", "cow", "ant"))
    known = pool["taught"] == 0
    assert known.any()
    assert (swapped.loc[known, "taught"] == 2).all()
    assert (swapped["taught_weight"] == pool["taught_weight"]).all()
    lesson = lesson_from(2, problem(), nothing_accepted(pool))
    assert not len(lesson.machine_ids)
