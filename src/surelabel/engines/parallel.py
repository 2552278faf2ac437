"""Several nets trained at the same time, each with its share of the processor's threads.

A step of a small net is many short operations. Two nets on two cores, one core each, train faster
than one after the other on both: splitting every operation costs more than it gains.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import torch

from surelabel.types import OnProgress, Progress

Job: TypeAlias = Callable[[OnProgress], None]
"""A piece of work that reports its progress to the function it is given."""


class _StoppedError(Exception):
    """Another job failed, or the program was interrupted."""


def run_in_parallel(jobs: Sequence[Job], on_progress: OnProgress, *, at_once: int) -> None:
    """Run all jobs, ``at_once`` at a time; their joint progress is reported in this thread.

    Each job has 1 / ``at_once`` of the threads, however few jobs there are: its result does not
    depend on which others are left to do. If one fails, or the program is interrupted, the others
    stop at their next report of progress.
    """
    threads = torch.get_num_threads()
    reports: queue.SimpleQueue[tuple[int, Progress, threading.Event] | None] = queue.SimpleQueue()
    stop = threading.Event()

    def run(number: int, job: Job) -> None:
        def report(progress: Progress) -> None:
            delivered = threading.Event()
            if not stop.is_set():
                reports.put((number, progress, delivered))
            while not stop.is_set() and not delivered.wait(0.05):
                pass
            if stop.is_set():
                raise _StoppedError

        try:
            if not stop.is_set():
                job(report)
        except BaseException:
            stop.set()
            raise
        finally:
            reports.put(None)

    share = max(1, threads // at_once)
    try:
        with ThreadPoolExecutor(
            at_once, initializer=torch.set_num_threads, initargs=(share,)
        ) as pool:
            try:
                futures = [pool.submit(run, number, job) for number, job in enumerate(jobs)]
                _deliver(reports, len(jobs), on_progress, stop)
            finally:
                stop.set()
    finally:
        torch.set_num_threads(threads)
    errors = [error for future in futures if (error := future.exception()) is not None]
    failures = [error for error in errors if not isinstance(error, _StoppedError)]
    if failures:
        raise failures[0]


def _deliver(
    reports: queue.SimpleQueue[tuple[int, Progress, threading.Event] | None],
    n_jobs: int,
    on_progress: OnProgress,
    stop: threading.Event,
) -> None:
    """Pass the reports of all jobs on as those of one job, until the last job has ended."""
    shares = [0.0] * n_jobs
    running = n_jobs
    while running:
        report = reports.get()
        if report is None:
            running -= 1
            continue
        number, progress, delivered = report
        if not stop.is_set():
            shares[number] = progress.done / max(1, progress.total)
            done = round(sum(shares) * progress.total)
            on_progress(Progress(progress.what, done, n_jobs * progress.total))
        delivered.set()
