"""A Ray cluster: joined or started, and a pool of workers that compute batches in order.

Plain actors, not Ray Data: what is computed has fixed batches and a fixed order, so that a result
does not depend on how many workers there are; inputs are rows of a memory-mapped cache that every
worker sees, which need not travel through Ray's object store; and results are appended to that
cache by the driver alone. Ray starts an actor that died again and repeats its batch.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from surelabel.config.settings import Config
from surelabel.dataset.decode import strict_pillow
from surelabel.errors import InputError, OptionError, SurelabelError

T = TypeVar("T")
R = TypeVar("R")

_IN_FLIGHT = 2
"""Batches under way per worker."""
_RETRIES = 5
"""How often a batch is tried again after its worker died."""
_LOOPBACK = {
    # Without this Ray replaces 127.0.0.1 by an address that other machines can reach, and its
    # servers listen on all of them.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "GLOO_SOCKET_IFNAME": "lo",
    # Ray gives workers the lowest priority; on a busy machine they would get next to nothing.
    "RAY_worker_niceness": "0",
}
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


class WorkerLostError(SurelabelError):
    """Workers died again and again, or the cluster is gone."""


class _Worker:
    """In a worker process: holds the present task, which may have loaded a net."""

    def __init__(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        self._key = -1
        self._task: Callable[[Any], Any] | None = None

    def run(self, key: int, task: list[Any], batch: Any) -> Any:
        """``task(batch)``; a task stays loaded until the next one comes."""
        import ray

        if key != self._key or self._task is None:
            self._task, self._key = ray.get(task[0]), key
        try:
            with strict_pillow():
                return self._task(batch)
        except OSError as error:
            raise InputError(
                f"A worker on {socket.gethostname()} failed: {error.strerror or error}"
                f"{f' ({error.filename})' if error.filename else ''}. What is done is kept: mend "
                "that, then call surelabel resume."
            ) from error


@dataclass
class Cluster:
    """A connection to a cluster, and the workers of this run."""

    threads: int
    """Per worker; results depend on it, so it is that of the run."""
    n_workers: int
    is_own: bool
    """Whether it was started for this run, on this machine."""
    _workers: list[Any] = field(default_factory=list)
    _n_tasks: int = 0

    def map(
        self, work: Callable[[Sequence[T]], R], items: Sequence[T], batch_size: int
    ) -> Iterator[tuple[Sequence[T], R]]:
        """Yield each batch of ``items`` with ``work(batch)``, in order, computed by the workers."""
        import ray

        if not items:
            return
        self._n_tasks += 1
        key, held = self._n_tasks, [ray.put(work)]
        workers = self._started()
        pending: deque[tuple[Sequence[T], Any]] = deque()
        for number, start in enumerate(range(0, len(items), batch_size)):
            batch = items[start : start + batch_size]
            worker = workers[number % len(workers)]
            pending.append((batch, worker.run.remote(key, held, batch)))
            if len(pending) >= _IN_FLIGHT * len(workers):
                done, result = pending.popleft()
                yield done, fetched(result)
        while pending:
            done, result = pending.popleft()
            yield done, fetched(result)

    def run_together(self, work: Callable[[T], R], parts: Sequence[T]) -> list[R]:
        """``work(part)`` for all parts at the same time, the first on the first worker and so on.

        The parts need each other: if a worker dies, or loses another one, that is a
        ``WorkerLostError``, and no part is repeated.
        """
        import ray

        self._n_tasks += 1
        held = [ray.put(work)]
        results = [
            worker.run.options(max_task_retries=0).remote(self._n_tasks, held, part)
            for worker, part in zip(self._started(), parts, strict=False)
        ]
        try:
            return [fetched(result) for result in results]
        except ray.exceptions.RayTaskError as error:
            raise WorkerLostError(
                f"Training on Ray's workers failed ({brief(error)}). What is done is kept: call "
                "surelabel resume."
            ) from None
        finally:
            ray.wait(results, num_returns=len(results), timeout=60)

    def free_address(self) -> str:
        """Host and port that are free on the machine of the first worker, for others to meet at."""
        address: str = fetched(self._started()[0].__ray_call__.remote(_free_address))
        return address

    def process_ids(self) -> list[int]:
        """Of the workers, where they are."""
        return [fetched(worker.__ray_call__.remote(_process_id)) for worker in self._started()]

    def _started(self) -> list[Any]:
        import ray

        if not self._workers:
            remote = ray.remote(_Worker).options(
                num_cpus=self.threads, max_restarts=-1, max_task_retries=_RETRIES
            )
            self._workers = [remote.remote(self.threads) for _ in range(self.n_workers)]
        return self._workers


def brief(error: Exception) -> str:
    """The text of an error of Ray, which may be pages long."""
    return " ".join(str(error).split())[:300]


def _free_address(_: object) -> str:
    import ray

    address: Callable[[], str] = ray.util.get_node_ip_address
    host = address()
    with socket.socket() as free:
        free.bind((host, 0))
        return f"{host}:{free.getsockname()[1]}"


def _process_id(_: object) -> int:
    return os.getpid()


def fetched(result: Any) -> Any:
    """The value of a Ray object; failures as errors of surelabel where they are ours or Ray's."""
    import ray

    try:
        return ray.get(result)
    except ray.exceptions.RayTaskError as error:
        cause = error.cause
        raise (cause if isinstance(cause, SurelabelError) else error) from None
    except ray.exceptions.OutOfDiskError as error:
        raise InputError(
            f"A disk that Ray's workers write to is full ({error}). What is done is kept: make "
            "room, then call surelabel resume."
        ) from None
    except ray.exceptions.RayError as error:
        raise WorkerLostError(
            f"Ray's workers were lost ({type(error).__name__}: {brief(error)}). What is done is "
            "kept: call surelabel resume."
        ) from None


@contextlib.contextmanager
def connected(config: Config) -> Iterator[Cluster]:
    """The cluster at ``ray_address``, or one on this machine that ends with the block."""
    is_own = not config.ray_address
    os.environ |= {**_QUIET, **(_LOOPBACK if is_own else {})}
    try:
        import ray
    except ImportError:
        raise OptionError(
            "The engine ray needs the extra ray (pip install 'surelabel[ray]'); without it, leave "
            "out --engine."
        ) from None
    import torch

    threads = torch.get_num_threads()
    was_running = ray.is_initialized()  # by a program that uses surelabel as a library
    if not was_running:
        _connect(ray, config, threads, is_own=is_own)
    try:
        resources: Callable[[], dict[str, float]] = ray.cluster_resources
        cores = resources().get("CPU", 0.0)
        n = config.ray_workers or max(1, int(cores // threads))
        if n * threads > cores:
            raise OptionError(
                f"{n} workers of {threads} threads need {n * threads} cores, and the cluster has "
                f"{cores:g}: use fewer --ray-workers or --threads."
            )
        yield Cluster(threads, n, is_own)
    finally:
        if not was_running:
            ray.shutdown()


def _refuse_silent(address: str) -> None:
    """``OSError`` if nobody listens at host:port: Ray itself would try for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _connect(ray: Any, config: Config, threads: int, *, is_own: bool) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if is_own:
        n_cores = config.ray_workers * threads or None
        options |= {"num_cpus": n_cores, "include_dashboard": config.ray_dashboard}
        options |= {"dashboard_host": "127.0.0.1", "_node_ip_address": "127.0.0.1"}
    else:
        options["address"] = config.ray_address
    try:
        _refuse_silent(config.ray_address)
        ray.init(**options)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        what = f"the cluster at {config.ray_address}" if config.ray_address else "a local cluster"
        raise OptionError(
            f"Ray cannot reach {what}: {brief(error)}. Is it running, and is the address right?"
        ) from None
    if is_own and ray.util.get_node_ip_address() != "127.0.0.1":
        ray.shutdown()
        raise OptionError(
            "Ray was imported before surelabel, so a cluster of its own would be open to other "
            "machines: call ray.init yourself, or import surelabel first."
        )
