"""Several pieces of work at once, each with its share of the processor's threads.

A step of a small net is many short operations. Two nets on two cores, one core each, train faster
than one after the other with both: dividing every operation costs more than it gains.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import torch

from surelabel.types import OnProgress, Progress

#: A piece of work; it tells how far it is.
Job: TypeAlias = Callable[[OnProgress], None]


class _GivenUpError(Exception):
    """Another job failed, or the program was asked to stop."""


def side_by_side(jobs: Sequence[Job], on_progress: OnProgress, *, at_once: int) -> None:
    """Do all jobs; ``on_progress`` hears of them as one, in the thread that called.

    Up to ``at_once`` run at a time, each with that share of the threads however few the jobs are:
    what comes of a job does not depend on which others are left to do. If one fails, or the program
    is interrupted, the others stop at their next word of progress.
    """
    threads = torch.get_num_threads()
    crew = _Crew(jobs, max(1, threads // at_once))
    workers = [threading.Thread(target=crew.work, daemon=True) for _ in range(at_once)]
    try:
        for worker in workers:
            worker.start()
        crew.listen(len(workers), on_progress)
    finally:
        crew.give_up()
        for worker in workers:
            if worker.ident is not None:  # it was started
                worker.join()
        torch.set_num_threads(threads)
    if crew.failures:
        raise crew.failures[0]


class _Joint:
    """The progress of several jobs as that of one."""

    def __init__(self, n: int, on_progress: OnProgress) -> None:
        self._shares = [0.0] * n
        self._on_progress = on_progress

    def hear(self, number: int, progress: Progress) -> None:
        n = len(self._shares)
        self._shares[number] = progress.done / max(1, progress.total)
        done = round(sum(self._shares) * progress.total)
        self._on_progress(Progress(progress.what, done, n * progress.total))


class _Crew:
    """Threads that take one job after the other, and one thread that listens to them."""

    def __init__(self, jobs: Sequence[Job], threads: int) -> None:
        self.failures: list[BaseException] = []
        self._threads = threads
        self._n = len(jobs)
        self._todo: queue.SimpleQueue[tuple[int, Job]] = queue.SimpleQueue()
        self._told: queue.SimpleQueue[tuple[int, Progress] | None] = queue.SimpleQueue()
        self._heard = [threading.Semaphore(0) for _ in jobs]
        self._given_up = False
        for numbered in enumerate(jobs):
            self._todo.put(numbered)

    def work(self) -> None:
        """Until no job is left, or all is given up."""
        torch.set_num_threads(self._threads)
        try:
            while (job := self._next()) is not None:
                job()
        except _GivenUpError:
            pass
        except BaseException as failure:
            self.failures.append(failure)
            self.give_up()
        finally:
            self._told.put(None)

    def listen(self, n_workers: int, on_progress: OnProgress) -> None:
        """Pass on what the jobs tell until all have ended; who tells waits until it is heard."""
        joint = _Joint(self._n, on_progress)
        while n_workers:
            told = self._told.get()
            if told is None:
                n_workers -= 1
            elif not self._given_up:
                joint.hear(*told)
                self._heard[told[0]].release()

    def give_up(self) -> None:
        """Let no job go on beyond its next word of progress."""
        self._given_up = True
        for heard in self._heard:
            heard.release()

    def _next(self) -> Callable[[], None] | None:
        """The next job, ready to run; None where nothing is left to do."""
        if self._given_up:
            return None
        try:
            number, job = self._todo.get_nowait()
        except queue.Empty:
            return None
        return partial(job, partial(self._tell, number))

    def _tell(self, number: int, progress: Progress) -> None:
        if not self._given_up:
            self._told.put((number, progress))
            self._heard[number].acquire()
        if self._given_up:
            raise _GivenUpError
