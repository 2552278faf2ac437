from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import pytest

from surelabel.dataset.parallel import ProgressCounter, map_batches, n_workers
from surelabel.types import Progress


def test_batches_come_back_in_order() -> None:
    def slow_double(batch: Sequence[int]) -> list[int]:
        time.sleep(0.01 if batch[0] % 2 else 0.0)
        return [2 * n for n in batch]

    numbers = list(range(50))
    pairs = list(map_batches(slow_double, numbers, 3))
    assert [n for batch, _ in pairs for n in batch] == numbers
    assert [n for _, done in pairs for n in done] == [2 * n for n in numbers]
    assert list(map_batches(slow_double, [], 3)) == []


def test_an_error_arrives_and_stops_the_rest() -> None:
    started = []

    def work(batch: Sequence[int]) -> None:
        started.append(batch[0])
        raise RuntimeError("broken")

    with pytest.raises(RuntimeError, match="broken"):
        list(map_batches(work, list(range(1000)), 1))
    assert len(started) <= 4 * n_workers() + 2
    assert not [t for t in threading.enumerate() if t.name.startswith("surelabel-read")]


def test_progress_is_reported_at_most_twenty_times_per_second() -> None:
    reports: list[Progress] = []
    counter = ProgressCounter(reports.append, "reading images", 10_000)
    start = time.monotonic()
    for _ in range(10_000):
        counter.advance(1)
    assert len(reports) <= 3 + 20 * (time.monotonic() - start)
    assert reports[0] == Progress("reading images", 0, 10_000)
    assert reports[-1] == Progress("reading images", 10_000, 10_000)
