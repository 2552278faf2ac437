"""Run work on batches of files in threads, with bounded memory, and report progress."""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Protocol, TypeVar

from surelabel.types import OnProgress, Progress

T = TypeVar("T")
R = TypeVar("R")

_SECONDS_BETWEEN_REPORTS = 0.05
_BATCHES_PER_WORKER = 2
"""How many batches are under way for each thread."""


class ProgressCounter:
    """Counts finished units; reports at most 20 times per second, and always first and last.

    ``done`` units were done before.
    """

    def __init__(self, on_progress: OnProgress, what: str, total: int, done: int = 0) -> None:
        self._on_progress, self._what, self._total = on_progress, what, total
        self._done, self._due = done, 0.0
        self.advance(0)

    def advance(self, n: int) -> None:
        """Count ``n`` more units as done."""
        self._done += n
        now = time.monotonic()
        if now >= self._due or self._done >= self._total:
            self._due = now + _SECONDS_BETWEEN_REPORTS
            self._on_progress(Progress(self._what, self._done, self._total))


def n_workers() -> int:
    """The number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Mapper(Protocol):
    """Computes batches and yields them in order with their results, in threads or elsewhere."""

    def __call__(
        self, work: Callable[[Sequence[T]], R], items: Sequence[T], batch_size: int
    ) -> Iterator[tuple[Sequence[T], R]]:
        """Each batch of ``items`` together with ``work(batch)``."""


def map_batches(
    work: Callable[[Sequence[T]], R],
    items: Sequence[T],
    batch_size: int,
    *,
    workers: int = 0,
    initializer: Callable[[], object] | None = None,
) -> Iterator[tuple[Sequence[T], R]]:
    """Yield each batch of ``items`` together with ``work(batch)``, in order, computed in threads.

    Pillow, hashing and file reads release the interpreter lock, so threads are enough. Only a few
    batches are under way at a time, so memory does not grow with ``items`` (``Executor.map``
    would submit all of them at once). When the consumer stops early, or ``work`` raises, batches
    that have not started are dropped. There are ``workers`` threads, by default one per core;
    each calls ``initializer`` first.
    """
    workers = workers or n_workers()
    pending: deque[tuple[Sequence[T], Future[R]]] = deque()
    pool = ThreadPoolExecutor(workers, "surelabel-read", initializer)
    try:
        for start in range(0, len(items), batch_size):
            batch = items[start : start + batch_size]
            pending.append((batch, pool.submit(work, batch)))
            if len(pending) > _BATCHES_PER_WORKER * workers:
                done, future = pending.popleft()
                yield done, future.result()
        while pending:
            done, future = pending.popleft()
            yield done, future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_decoder: ContextVar[Mapper] = ContextVar("decoder", default=map_batches)


@contextlib.contextmanager
def decoding_with(mapper: Mapper) -> Iterator[None]:
    """Let images be decoded by ``mapper`` while the block runs; otherwise threads do it.

    Where they are decoded changes no pixel. ``work`` has to be picklable for another process.
    """
    token = _decoder.set(mapper)
    try:
        yield
    finally:
        _decoder.reset(token)


def decoder() -> Mapper:
    """What decodes images now."""
    return _decoder.get()
