"""Weights, checkpoints and reference features on disk, as safetensors. Nothing is unpickled."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from surelabel.config.settings import Config
from surelabel.errors import RunDamagedError
from surelabel.files.atomic import atomic_path
from surelabel.models.bayesian import BayesianNet
from surelabel.models.nets import build_net
from surelabel.selection.out_of_distribution import ReferenceFeatures
from surelabel.training.checkpoint import load_state

Facts = dict[str, Any]
"""Plain values about a net and its training, kept in the header of its weights as JSON."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Write atomically; ``about`` is kept as JSON in the file's own header."""
    plain = {k: v.detach().cpu().contiguous() for k, v in tensors.items()}
    try:
        with atomic_path(path, parents=False) as temporary:
            save_file(plain, temporary, metadata={"about": json.dumps(about)})
    except SafetensorError as error:
        raise OSError(f"{path} cannot be written: {error}") from error


def read_tensors(path: Path) -> tuple[dict[str, Tensor], Facts]:
    """The tensors in ``path``, and the facts in its header."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get("about", "{}"))
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except (OSError, ValueError, SafetensorError) as error:
        raise RunDamagedError(f"{path} cannot be read as weights: {error}.") from None


def weights_path(work_folder: Path, member: int) -> Path:
    """The file with a member's weights."""
    return work_folder / f"weights-{member}.safetensors"


def save_net(path: Path, net: BayesianNet, about: Mapping[str, Any]) -> None:
    """Save a net with the facts needed to build it again (size, channels, n_classes, k)."""
    write_tensors(path, net.state_dict(), about)


def load_net(path: Path, config: Config) -> tuple[BayesianNet, Facts]:
    """The net in ``path``, ready to predict, and its facts."""
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
    """A checkpoint file, replaced every ``seconds`` seconds.

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
        """Whether it is time to save again."""
        return time.monotonic() - self._last >= self.seconds

    def save(self, step: int, packed: Mapping[str, Tensor]) -> None:
        """Replace the checkpoint."""
        write_tensors(self.path, packed, {"step": step})
        self._last = time.monotonic()

    def remove(self) -> None:
        """Delete the checkpoint: training is done."""
        self.path.unlink(missing_ok=True)


def reference_path(weights: Path) -> Path:
    """The file with a member's reference features, beside its weights."""
    return weights.with_name(weights.name.replace("weights", "reference"))


def save_reference(path: Path, reference: ReferenceFeatures) -> None:
    """Write atomically."""
    tensors = {
        "features": torch.from_numpy(reference.features),
        "stage_sizes": torch.tensor(reference.stage_sizes, dtype=torch.int64),
    }
    if reference.outliers is not None:
        tensors["outliers"] = torch.from_numpy(reference.outliers)
    write_tensors(path, tensors, {})


def load_reference(path: Path) -> ReferenceFeatures | None:
    """The reference features in ``path``; None where out-of-distribution detection was off."""
    if not path.exists():
        return None
    tensors, _ = read_tensors(path)
    outliers = tensors["outliers"].numpy() if "outliers" in tensors else None
    stage_sizes = tuple(tensors["stage_sizes"].tolist())
    return ReferenceFeatures(tensors["features"].numpy(), stage_sizes, outliers)
