"""A small run of each fault and attack; `make faults` tries them at full size."""

from __future__ import annotations

import pytest

from faults import crashes, damage, hostile
from faults.__main__ import FULL, SMALL
from faults.scene import Outcome

SHORT = ("export", "add", "audit")
"""Commands that do not train."""


def check(outcome: Outcome) -> None:
    assert outcome.n
    assert outcome.failures == ()


def test_the_small_and_the_full_suite_try_the_same() -> None:
    assert SMALL.keys() == FULL.keys()


def test_killed_between_write_fsync_and_rename() -> None:
    check(crashes.kills_between_steps(3, 1, SHORT))


def test_disk_full() -> None:
    check(crashes.full_disk(3, 2, SHORT))


def test_damaged_files() -> None:
    check(damage.damaged_files(1, 1))


def test_mutated_and_odd_image_files() -> None:
    check(hostile.images(100, 1))


def test_tables_of_labels() -> None:
    check(hostile.tables(200, 1))


def test_hostile_requests() -> None:
    check(hostile.requests(40, 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_every_trial_of_the_small_suite(name: str) -> None:
    check(SMALL[name](3))
