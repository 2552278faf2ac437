"""A small run of most faults and attacks; `make faults` tries all of them at full size."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from faults import (
    crashes,
    damage,
    hostile,
    hostile_sources,
    names,
    odd_data,
    page_attacks,
    soak,
    together,
)
from faults.trials import FULL, SMALL, Trial, apart

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SHORT = ("export", "add", "audit")
"""Commands that do not train."""
TRIALS: dict[str, Trial] = {
    "killed between write, fsync and rename": partial(
        crashes.kills_between_steps, 3, commands=SHORT
    ),
    "review killed while people answer": partial(crashes.kills_of_review, 2),
    "disk full": partial(crashes.full_disk, 3, commands=SHORT),
    "damaged files": partial(damage.damaged_files, 1),
    "mutated and odd image files": partial(hostile.images, 100),
    "tables of labels": partial(hostile.tables, 200),
    "hostile names through every format": names.hostile_names,
    "promises about shuffled labels": partial(odd_data.shuffled_labels, 6),
    "trainings that go wrong": partial(odd_data.odd_trainings, 5),
    "two reviewers on one image": partial(together.two_reviewers_on_one_image, 10),
    "hostile requests": partial(hostile.requests, 40),
    "gallery, map and guided page": partial(page_attacks.browsing, 150),
    "tar archives": partial(hostile_sources.shards, 60),
    "odd addresses": hostile_sources.addresses,
    # The hour is part of `make faults`; in a quarter of a minute memory cannot be judged.
    "a short soak": partial(soak.soak, n_reviewers=20, minutes=0.25, pause=2),
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


def test_the_command_runs_a_trial_in_a_process_of_its_own() -> None:
    words = [sys.executable, "-m", "faults", "--scale", "small", "tables"]
    path = os.pathsep.join([str(BENCHMARKS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        words, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    assert "| tables of labels | 300 | 0 |" in done.stdout
