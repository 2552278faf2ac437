"""One training run by data-parallel replicas on the workers of a Ray cluster: gloo, or nccl.

The replicas see the cache folder, and leave checkpoints and the trained weights there. If one dies,
all of them begin again at the last checkpoint; if the driver dies, a resumed run finds it. Weights
are safetensors; Ray itself pickles what travels inside its cluster.
"""

from __future__ import annotations

import datetime
import json
import os
import secrets
import socket
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.engines.device import choose_device
from surelabel.engines.ray_cluster import Cluster, WorkerLostError
from surelabel.engines.storage import FileCheckpoints, read_tensors, write_tensors
from surelabel.engines.stored_rows import StoredRows, StoredViews
from surelabel.files.atomic import atomic_write_bytes, remove_folder
from surelabel.models.bayesian import BayesianNet
from surelabel.training.replicas import ALONE, Replica
from surelabel.training.trainer import FitReport, Trainer, TrainingSet
from surelabel.types import OnProgress, Progress

_ATTEMPTS = 6
"""How often the replicas begin, if they die."""
_SECONDS = 0.5
"""Between two looks at how far they are."""
_PATIENCE = datetime.timedelta(minutes=10)
"""How long a replica waits for another one; one that died is noticed at once."""
_RESULT, _PROGRESS = "weights.safetensors", "progress.json"


@dataclass(frozen=True)
class RayTraining:
    """Runs a trainer on the cluster: what ``Trainer.run`` does in this process."""

    cluster: Cluster
    stored: StoredRows
    """What the trainer's rows mean, in the cache."""
    views: StoredViews | None
    cache: str
    """The option ``cache``."""

    def __call__(
        self, trainer: Trainer, checkpoints: FileCheckpoints, on_progress: OnProgress
    ) -> FitReport:
        """Train, and leave the weights in the trainer's net."""
        token = checkpoints.path.with_suffix(".shared")
        shared = self._shared_folder(token)
        if not (shared / _RESULT).exists():
            self._fit(trainer, shared, on_progress)
        tensors, about = read_tensors(shared / _RESULT)
        trainer.net.load_state_dict(tensors)
        trainer.net.eval()
        remove_folder(shared)
        token.unlink(missing_ok=True)
        on_progress(Progress("training", trainer.steps, trainer.steps))
        if about["tune_loss"] is None:
            about["tune_loss"] = float("nan")
        return FitReport(**about)

    def _shared_folder(self, token: Path) -> Path:
        """A folder that all replicas see, the same one after a crash of the driver."""
        if not token.exists():
            atomic_write_bytes(token, secrets.token_hex(12).encode(), parents=False)
        folder = cache_folder(self.cache).absolute() / "ray" / token.read_text(encoding="ascii")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _fit(self, trainer: Trainer, shared: Path, on_progress: OnProgress) -> None:
        data = trainer.data
        data = replace(data, pixels=self.stored, views=self.views if data.views else None)
        n = min(self.cluster.n_workers, trainer.config.batch_size)
        config, steps, seed = trainer.config, trainer.steps, trainer.seed
        task = _ReplicaTask(trainer.net.cpu(), data, config, steps, seed, n, str(shared))
        with _Watch(shared / _PROGRESS, on_progress):
            for attempt in range(_ATTEMPTS):
                meeting = self.cluster.free_address()
                try:
                    self.cluster.run_together(task, [(rank, meeting) for rank in range(n)])
                    return
                except WorkerLostError:
                    if attempt == _ATTEMPTS - 1:
                        raise


class _Watch:
    """Reports what the first replica writes down, from a thread, while the block runs."""

    def __init__(self, file: Path, on_progress: OnProgress) -> None:
        self._file, self._on_progress = file, on_progress
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._end.wait(_SECONDS):
            try:
                done, total = json.loads(self._file.read_text(encoding="utf-8"))
            except (OSError, ValueError):
                continue
            self._on_progress(Progress("training", done, total))


@dataclass
class _ReplicaTask:
    """In a worker: one replica, from the last checkpoint to the end."""

    net: BayesianNet
    data: TrainingSet
    config: Config
    steps: int
    seed: int
    n: int
    folder: str

    def __call__(self, place: tuple[int, str]) -> None:
        """Train as replica ``rank`` with those that meet at an address."""
        import torch.distributed as dist

        rank, meeting = place
        device, folder = choose_device(self.config.device), Path(self.folder)
        average = ALONE.average
        if self.n > 1:
            if dist.is_initialized():
                dist.destroy_process_group()  # of replicas that died
            dist.init_process_group(
                "nccl" if device.type == "cuda" else "gloo",
                init_method=f"tcp://{meeting}",
                rank=rank,
                world_size=self.n,
                timeout=_PATIENCE,
            )
            average = _averaging(device)
        trainer = Trainer(
            self.net.to(device),
            self.data,
            self.config,
            steps=self.steps,
            seed=self.seed,
            replica=Replica(rank, self.n, average),
        )
        checkpoints = _ReplicaCheckpoints(folder, rank)
        note = _Note(folder / _PROGRESS) if rank == 0 else _unheard
        report = trainer.run(checkpoints, note)
        if rank == 0:
            about = asdict(report)
            if about["tune_loss"] != about["tune_loss"]:
                about["tune_loss"] = None
            write_tensors(folder / _RESULT, trainer.net.state_dict(), about)
        if self.n > 1:
            dist.destroy_process_group()


def _averaging(device: torch.device) -> Any:
    import torch.distributed as dist

    def average(tensor: Tensor) -> None:
        moved = tensor.to(device)
        dist.all_reduce(moved)
        tensor.copy_(moved / dist.get_world_size())

    return average


def _unheard(_: Progress) -> None:
    """The other replicas are as far as the first."""


class _Note:
    """Writes progress down for the driver, a few times per second at most."""

    def __init__(self, file: Path) -> None:
        self._file, self._due = file, 0.0

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() < self._due:
            return
        self._due = time.monotonic() + _SECONDS
        scratch = self._file.with_suffix(f".{socket.gethostname()}-{os.getpid()}")
        scratch.write_text(json.dumps([progress.done, progress.total]), encoding="utf-8")
        scratch.replace(self._file)


class _ReplicaCheckpoints(FileCheckpoints):
    """All replicas load a checkpoint; the first one saves it.

    Nobody saves before all have loaded: the first step ends when all have taken it.
    """

    def __init__(self, folder: Path, rank: int) -> None:
        seconds = float(os.environ.get("SURELABEL_CHECKPOINT_SECONDS", "20"))
        super().__init__(folder / "checkpoint.safetensors", seconds)
        self._rank = rank

    def due(self, step: int) -> bool:
        """Whether it is time to save again."""
        return self._rank == 0 and super().due(step)
