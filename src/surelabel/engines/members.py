"""The trained nets of an ensemble."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from surelabel.accept import Neighbors
from surelabel.atomic import atomic_path, atomic_write_bytes
from surelabel.engines import neighbors as neighbors_file
from surelabel.engines.weights import weights_path
from surelabel.infer import distance_of
from surelabel.learn import FitReport
from surelabel.nets import BayesianNet
from surelabel.types import FloatArray, OnProgress, Progress

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


def copy_members(earlier: Path | None, workplace: Path, n: int) -> list[Path]:
    """Bring the first ``n`` nets of the round before into this one, after its own ``n``."""
    if earlier is None or not all(weights_path(earlier, k).exists() for k in range(n)):
        return []
    copies = []
    for k in range(n):
        source, copy = weights_path(earlier, k), weights_path(workplace, n + k)
        with atomic_path(copy) as temporary:
            shutil.copyfile(source, temporary)
        known = neighbors_file.load(neighbors_file.neighbors_path(source))
        if known is not None:  # the strangers that it was shown were those of another round
            path = neighbors_file.neighbors_path(copy)
            neighbors_file.save(path, replace(known, strangers=None))
        copies.append(copy)
    return copies


def put_in_place(copies: Sequence[Path], workplace: Path) -> list[Path]:
    """Let copied nets take the place of the round's own, which are lost; returns their files.

    A mark comes first: who is killed in between does not decide again with half of them.
    """
    atomic_write_bytes(workplace / _BACK, b"")
    own = [weights_path(workplace, k) for k in range(len(copies))]
    for copy, path in zip(copies, own, strict=True):
        if neighbors_file.neighbors_path(copy).exists():
            neighbors_file.neighbors_path(copy).replace(neighbors_file.neighbors_path(path))
        copy.replace(path)
    return own


def is_marked(workplace: Path) -> bool:
    """Whether it was decided to go back to the nets of the round before."""
    return (workplace / _BACK).exists()


def remove_members(weights: Sequence[Path]) -> None:
    """Take copied nets away again."""
    for path in weights:
        path.unlink()
        neighbors_file.neighbors_path(path).unlink(missing_ok=True)


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
