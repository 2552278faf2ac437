"""Weights and checkpoints on disk, as safetensors. Nothing is ever unpickled."""

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

from surelabel.atomic import atomic_path
from surelabel.config import Config
from surelabel.errors import RunDamagedError
from surelabel.learn import load
from surelabel.nets import BayesianNet, build_net


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


def weights_path(workplace: Path, member: int) -> Path:
    """The file of a round that holds a member's weights."""
    return workplace / f"weights-{member}.safetensors"


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
    load(net, tensors)
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
