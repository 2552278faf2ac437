"""The trained nets of an ensemble: in memory, and as safetensors files. Nothing is unpickled."""

from __future__ import annotations

import json
import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from surelabel.config.settings import Config
from surelabel.errors import RunDamagedError
from surelabel.files.atomic import atomic_path, atomic_write_bytes
from surelabel.inference.sampling import distance_of
from surelabel.models.bayesian import BayesianNet
from surelabel.models.build import build_net
from surelabel.selection.out_of_distribution import Neighbors
from surelabel.training.checkpoint import load_state
from surelabel.training.trainer import FitReport
from surelabel.types import FloatArray, OnProgress, Progress


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write atomically; ``about`` is kept as JSON in the file's own header."""
    plain = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
    try:
        with atomic_path(path) as temporary:
            save_file(plain, temporary, metadata={"about": json.dumps(about)})
    except SafetensorError as error:
        raise OSError(f"{path} cannot be written: {error}") from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The tensors and what was said about them."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("about", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except (OSError, ValueError, SafetensorError) as error:
        raise RunDamagedError(f"{path} cannot be read as weights: {error}.") from None


def weights_path(work_folder: Path, member: int) -> Path:
    """The file of a round that holds a member's weights."""
    return work_folder / f"weights-{member}.safetensors"


def save_net(path: Path, net: BayesianNet, about: Mapping[str, Any]) -> None:
    """A net with the facts that it takes to build it again (size, channels, n_classes, k)."""
    write_tensors(path, net.state_dict(), about)


def load_net(path: Path, config: Config) -> tuple[BayesianNet, dict[str, Any]]:
    """The net in ``path``, ready to predict."""
    tensors, about = read_tensors(path)
    names = ("size", "channels", "n_classes", "k")
    if not about.keys() >= set(names):
        raise RunDamagedError(f"{path} holds weights that surelabel did not write.")
    shape = {name: about[name] for name in names}
    net = build_net(config, **shape, generator=torch.Generator())
    net.pixel_mean = torch.zeros(shape["channels"])
    net.pixel_std = torch.ones(shape["channels"])
    load_state(net, tensors)
    return net.eval(), about


class FileCheckpoints:
    """A checkpoint file that is renewed every so many seconds.

    The clock decides when to save, never what is computed.
    """

    def __init__(self, path: Path, seconds: float) -> None:
        self.path = path
        self.seconds = seconds
        self._last = time.monotonic()

    def load(self) -> tuple[int, Mapping[str, Tensor]] | None:
        """The saved step and state; None if there is none yet."""
        if not self.path.exists():
            return None
        tensors, about = read_tensors(self.path)
        return int(about["step"]), tensors

    def due(self, step: int) -> bool:
        """Whether the last save is long enough ago."""
        return time.monotonic() - self._last >= self.seconds

    def save(self, step: int, packed: Mapping[str, Tensor]) -> None:
        """Replace the checkpoint by this one."""
        write_tensors(self.path, packed, {"step": step})
        self._last = time.monotonic()

    def remove(self) -> None:
        """The training is done; its checkpoint is not needed."""
        self.path.unlink(missing_ok=True)


def neighbors_path(weights: Path) -> Path:
    """The file beside a net's weights that holds its neighbors."""
    return weights.with_name(weights.name.replace("weights", "neighbors"))


def save_neighbors(path: Path, neighbors: Neighbors) -> None:
    """Write atomically."""
    tensors = {
        "seen": torch.from_numpy(neighbors.seen),
        "stages": torch.tensor(neighbors.stages, dtype=torch.int64),
    }
    if neighbors.outliers is not None:
        tensors["outliers"] = torch.from_numpy(neighbors.outliers)
    write_tensors(path, tensors, {})


def load_neighbors(path: Path) -> Neighbors | None:
    """The neighbors in ``path``; None for a round of a version that had none."""
    if not path.exists():
        return None
    tensors, _ = read_tensors(path)
    outliers = tensors["outliers"].numpy() if "outliers" in tensors else None
    return Neighbors(tensors["seen"].numpy(), tuple(tensors["stages"].tolist()), outliers)


_BACK = "earlier-nets"


@dataclass(frozen=True)
class Member:
    """One trained net of the ensemble and the seed of its Monte Carlo masks."""

    net: BayesianNet
    mask_seed: int
    neighbors: Neighbors | None = None


def distance_by(
    members: Sequence[Member],
    pixels: Callable[[Tensor], Tensor],
    rows: Tensor,
    on_progress: OnProgress,
) -> FloatArray:
    """(N,) how far the images at ``rows`` are from every class: the mean over the members."""
    total: FloatArray = np.zeros(len(rows))
    for number, member in enumerate(members):
        assert member.neighbors is not None
        tell = share_of(on_progress, number, len(members))
        total += distance_of(member.net, pixels, rows, member.neighbors.distance, tell)
    return total / len(members)


def copy_members(earlier: Path | None, work_folder: Path, n: int) -> list[Path]:
    """Bring the first ``n`` nets of the round before into this one, after its own ``n``."""
    if earlier is None or not all(weights_path(earlier, k).exists() for k in range(n)):
        return []
    copies = []
    for k in range(n):
        source, copy = weights_path(earlier, k), weights_path(work_folder, n + k)
        with atomic_path(copy) as temporary:
            shutil.copyfile(source, temporary)
        known = load_neighbors(neighbors_path(source))
        if known is not None:  # the outliers that it was shown were those of another round
            path = neighbors_path(copy)
            save_neighbors(path, replace(known, outliers=None))
        copies.append(copy)
    return copies


def put_in_place(copies: Sequence[Path], work_folder: Path) -> list[Path]:
    """Let copied nets take the place of the round's own, which are lost; returns their files.

    A mark comes first: who is killed in between does not decide again with half of them.
    """
    atomic_write_bytes(work_folder / _BACK, b"")
    own = [weights_path(work_folder, k) for k in range(len(copies))]
    for copy, path in zip(copies, own, strict=True):
        if neighbors_path(copy).exists():
            neighbors_path(copy).replace(neighbors_path(path))
        copy.replace(path)
    return own


def is_marked(work_folder: Path) -> bool:
    """Whether it was decided to go back to the nets of the round before."""
    return (work_folder / _BACK).exists()


def remove_members(weights: Sequence[Path]) -> None:
    """Take copied nets away again."""
    for path in weights:
        path.unlink()
        neighbors_path(path).unlink(missing_ok=True)


def share_of(on_progress: OnProgress, member: int, n: int) -> OnProgress:
    """Progress of one member as a part of the progress of all."""

    def tell(progress: Progress) -> None:
        done = member * progress.total + progress.done
        on_progress(Progress(progress.what, done, n * progress.total))

    return tell


def facts_of(net: BayesianNet, report: FitReport) -> dict[str, Any]:
    """Of a net and its training, as plain values."""
    values = asdict(report)
    if math.isnan(report.tune_loss):
        values["tune_loss"] = None
    dropout = [round(float(layer.p.detach()), 4) for layer in net.dropouts()]
    parameters = sum(p.numel() for p in net.parameters())
    return {**values, "dropout": dropout, "parameters": parameters}
