from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from surelabel.engines.parallel import Job, run_in_parallel
from surelabel.types import OnProgress, Progress, no_progress


@pytest.fixture(autouse=True)
def fixture_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    yield
    torch.set_num_threads(before)


def counting(n: int, done: list[int], number: int) -> Job:
    """Tells n times, then writes its number down."""

    def job(tell: OnProgress) -> None:
        for i in range(1, n + 1):
            tell(Progress("counting", i, n))
        done.append(number)

    return job


@pytest.mark.parametrize("at_once", [1, 2, 3, 5])
def test_every_job_is_done_once(at_once: int) -> None:
    done: list[int] = []
    run_in_parallel([counting(3, done, k) for k in range(5)], no_progress, at_once=at_once)
    assert sorted(done) == list(range(5))


def test_no_jobs_are_no_trouble() -> None:
    run_in_parallel([], no_progress, at_once=2)


def test_jobs_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=30)

    def meet(_: OnProgress) -> None:
        meeting.wait()

    run_in_parallel([meet, meet], no_progress, at_once=2)


@pytest.mark.parametrize(
    ("at_once", "n_jobs", "each"), [(1, 2, 4), (2, 2, 2), (2, 1, 2), (3, 3, 1)]
)
def test_threads_are_divided_by_places_not_by_jobs_left(
    at_once: int, n_jobs: int, each: int
) -> None:
    seen: list[int] = []
    jobs = [lambda _: seen.append(torch.get_num_threads())] * n_jobs
    run_in_parallel(jobs, no_progress, at_once=at_once)
    assert seen == [each] * n_jobs
    assert torch.get_num_threads() == 4


def test_progress_is_of_all_jobs_and_heard_where_they_were_called() -> None:
    reports: list[tuple[Progress, str]] = []

    def listen(progress: Progress) -> None:
        reports.append((progress, threading.current_thread().name))

    run_in_parallel([counting(10, [], k) for k in range(3)], listen, at_once=2)
    assert {name for _, name in reports} == {threading.current_thread().name}
    done = [progress.done for progress, _ in reports]
    assert done == sorted(done)
    assert (reports[-1][0].done, reports[-1][0].total) == (30, 30)


def test_a_failure_is_raised_and_ends_the_others() -> None:
    done: list[int] = []

    def fail(_: OnProgress) -> None:
        raise ValueError("torn")

    with pytest.raises(ValueError, match="torn"):
        run_in_parallel([fail, counting(10**9, done, 1)], no_progress, at_once=2)
    assert not done
    assert torch.get_num_threads() == 4


def test_an_interrupt_ends_all_at_their_next_word() -> None:
    reports: list[int] = []

    def job(tell: OnProgress) -> None:
        for i in range(10**9):
            reports.append(i)
            tell(Progress("counting", i, 10**9))

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        run_in_parallel([job, job], interrupt, at_once=2)
    assert max(reports) == 0
    assert threading.active_count() == before
