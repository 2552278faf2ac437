"""The labelled images as a trained net sees them: kept beside its weights, to know strangers by."""

from __future__ import annotations

from pathlib import Path

import torch

from surelabel.accept import Neighbors
from surelabel.engines.weights import read_tensors, write_tensors


def neighbors_path(weights: Path) -> Path:
    """The file beside a net's weights that holds its neighbors."""
    return weights.with_name(weights.name.replace("weights", "neighbors"))


def save(path: Path, neighbors: Neighbors) -> None:
    """Write atomically."""
    tensors = {
        "seen": torch.from_numpy(neighbors.seen),
        "stages": torch.tensor(neighbors.stages, dtype=torch.int64),
    }
    if neighbors.strangers is not None:
        tensors["strangers"] = torch.from_numpy(neighbors.strangers)
    write_tensors(path, tensors, {})


def load(path: Path) -> Neighbors | None:
    """The neighbors in ``path``; None for a round of a version that had none."""
    if not path.exists():
        return None
    tensors, _ = read_tensors(path)
    strangers = tensors["strangers"].numpy() if "strangers" in tensors else None
    return Neighbors(tensors["seen"].numpy(), tuple(tensors["stages"].tolist()), strangers)
