"""A small run of most faults and attacks; `make faults` tries all of them at full size."""

from __future__ import annotations

import pytest

from faults import crashes, damage, hostile, names, odd_data, soak, together
from faults.__main__ import FULL, SMALL, Trial, apart

SHORT = ("export", "add", "audit")
"""Commands that do not train."""
TRIALS: dict[str, Trial] = {
    "killed between write, fsync and rename": lambda seed: crashes.kills_between_steps(
        3, seed, SHORT
    ),
    "review killed while people answer": lambda seed: crashes.kills_of_review(2, seed),
    "disk full": lambda seed: crashes.full_disk(3, seed, SHORT),
    "damaged files": lambda seed: damage.damaged_files(1, seed),
    "mutated and odd image files": lambda seed: hostile.images(100, seed),
    "tables of labels": lambda seed: hostile.tables(200, seed),
    "hostile names through every format": lambda seed: names.hostile_names(seed),
    "promises about shuffled labels": lambda seed: odd_data.shuffled_labels(6, seed),
    "trainings that go wrong": lambda seed: odd_data.odd_trainings(5, seed),
    "two reviewers on one image": lambda seed: together.two_reviewers_on_one_image(10, seed),
    "hostile requests": lambda seed: hostile.requests(40, seed),
    # The hour is part of `make faults`; in a quarter of a minute memory cannot be judged.
    "a short soak": lambda seed: soak.soak(n_reviewers=20, minutes=0.25, pause=2, seed=seed),
}


def check(trial: Trial, seed: int) -> None:
    outcome = apart(trial, seed)
    if not outcome.n and "not allowed" in outcome.failures[0]:
        pytest.skip(outcome.failures[0])
    assert outcome.n
    assert outcome.failures == ()


def test_the_small_and_the_full_suite_try_the_same() -> None:
    assert SMALL.keys() == FULL.keys() - {"stopped-a-minute"}


@pytest.mark.parametrize("name", TRIALS)
def test_a_few_of(name: str) -> None:
    check(TRIALS[name], 1)


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_every_trial_of_the_small_suite(name: str) -> None:
    if name == "schema":
        pytest.importorskip("schemathesis", reason="`make faults` installs it")
    check(SMALL[name], 3)
