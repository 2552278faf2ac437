"""The trained nets of an ensemble."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from surelabel.accept import Neighbors
from surelabel.infer import distance_of
from surelabel.nets import BayesianNet
from surelabel.types import FloatArray, OnProgress, Progress


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


def share_of(on_progress: OnProgress, member: int, n: int) -> OnProgress:
    """Progress of one member as a part of the progress of all."""

    def tell(progress: Progress) -> None:
        done = member * progress.total + progress.done
        on_progress(Progress(progress.what, done, n * progress.total))

    return tell
