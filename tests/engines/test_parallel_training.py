from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from surelabel.engines.parallel import Job, side_by_side
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
    side_by_side([counting(3, done, k) for k in range(5)], no_progress, at_once=at_once)
    assert sorted(done) == list(range(5))


def test_no_jobs_are_no_trouble() -> None:
    side_by_side([], no_progress, at_once=2)


def test_jobs_run_at_the_same_time() -> None:
    meeting = threading.Barrier(2, timeout=30)

    def meet(_: OnProgress) -> None:
        meeting.wait()

    side_by_side([meet, meet], no_progress, at_once=2)


@pytest.mark.parametrize(
    ("at_once", "n_jobs", "each"), [(1, 2, 4), (2, 2, 2), (2, 1, 2), (3, 3, 1)]
)
def test_threads_are_divided_by_places_not_by_jobs_left(
    at_once: int, n_jobs: int, each: int
) -> None:
    seen: list[int] = []
    jobs = [lambda _: seen.append(torch.get_num_threads())] * n_jobs
    side_by_side(jobs, no_progress, at_once=at_once)
    assert seen == [each] * n_jobs
    assert torch.get_num_threads() == 4


def test_progress_is_of_all_jobs_and_heard_where_they_were_called() -> None:
    heard: list[tuple[Progress, str]] = []

    def listen(progress: Progress) -> None:
        heard.append((progress, threading.current_thread().name))

    side_by_side([counting(10, [], k) for k in range(3)], listen, at_once=2)
    assert {name for _, name in heard} == {threading.current_thread().name}
    done = [progress.done for progress, _ in heard]
    assert done == sorted(done)
    assert (heard[-1][0].done, heard[-1][0].total) == (30, 30)


def test_a_failure_is_raised_and_ends_the_others() -> None:
    done: list[int] = []

    def fail(_: OnProgress) -> None:
        raise ValueError("torn")

    with pytest.raises(ValueError, match="torn"):
        side_by_side([fail, counting(10**9, done, 1)], no_progress, at_once=2)
    assert not done
    assert torch.get_num_threads() == 4


def test_an_interrupt_ends_all_at_their_next_word() -> None:
    told: list[int] = []

    def job(tell: OnProgress) -> None:
        for i in range(10**9):
            told.append(i)
            tell(Progress("counting", i, 10**9))

    def interrupt(progress: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side([job, job], interrupt, at_once=2)
    assert max(told) == 0
    assert threading.active_count() == 1
