"""What computes the features of a frozen net: onnxruntime where it can, otherwise PyTorch.

onnxruntime needs about a third of PyTorch's time for the built-in nets and gives the same features
up to the rounding of single precision. So that the features of one cache entry are the same to the
bit, whoever computed them first, those of each runtime have entries of their own.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import warnings
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from surelabel.files.atomic import atomic_write_bytes
from surelabel.models.backbones import Backbone, is_built_in
from surelabel.models.onnx_program import missing_packages, onnx_program
from surelabel.models.placement import Placement

_INPUT = "images"
_CPU_BATCH = 2
"""Images that PyTorch computes at a time: the maps of more do not fit into a processor's cache."""
_GPU_BATCH = 16
_DIGEST_BYTES = 32
"""The file of a graph begins with the SHA-256 of the rest: a bit that flips must not be run."""


class FeatureRuntime(Protocol):
    """Computes features; several threads may call it at the same time."""

    name: str
    """Part of the name of a cache entry; empty for PyTorch in single precision."""
    batch: int
    """How many images it is given at a time, always: their number may change the last bits."""

    def __call__(self, shown: Tensor) -> Tensor:
        """Standardized images (B, 3, S, S) -> float32 features (B, ...), in main memory."""


class TorchRuntime:
    """The net as it is; in mixed precision its products are computed in float16."""

    def __init__(self, backbone: Backbone, placement: Placement) -> None:
        self._backbone, self._placement = backbone.to(placement.device), placement
        self.name = "mixed" if placement.mixed_precision else ""
        self.batch = _CPU_BATCH if placement.device.type == "cpu" else _GPU_BATCH

    def __call__(self, shown: Tensor) -> Tensor:
        with torch.no_grad(), self._placement.autocast(torch.float16):
            features: Tensor = self._backbone(self._placement.move(shown))
        return features.float().cpu()


class OnnxRuntime:
    """The net as a graph. Each call uses one thread, so features do not depend on their number."""

    name = "onnxruntime"
    batch = 1

    def __init__(self, graph: bytes) -> None:
        onnxruntime: Any = importlib.import_module("onnxruntime")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(graph, options, providers=providers)

    def __call__(self, shown: Tensor) -> Tensor:
        (features,) = self._session.run(None, {_INPUT: shown.contiguous().numpy()})
        return torch.from_numpy(features)


def open_runtime(
    backbone: Backbone, size: int, device: torch.device, cache: Path
) -> FeatureRuntime:
    """The fastest runtime for ``backbone`` and images of ``size`` pixels; graphs are kept."""
    if device.type != "cpu" or not is_built_in(backbone.name) or not _onnx_installed():
        return TorchRuntime(backbone, Placement.on(device))
    try:
        return OnnxRuntime(_graph(backbone, size, cache / "graphs"))
    except Exception as error:  # versions of the packages and of torch that do not fit
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        warnings.warn(
            f"onnxruntime does not work here ({reason}). PyTorch computes the features instead, in "
            "about three times the time.",
            stacklevel=2,
        )
        return TorchRuntime(backbone, Placement.on(device))


def _onnx_installed() -> bool:
    return importlib.util.find_spec("onnxruntime") is not None and not missing_packages()


def _graph(backbone: Backbone, size: int, folder: Path) -> bytes:
    """The net for images of ``size`` x ``size``; made once, and again where the file is damaged."""
    file = folder / f"{backbone.digest}-{size}.graph"
    try:
        stored = file.read_bytes()
    except OSError:
        stored = b""
    digest, graph = stored[:_DIGEST_BYTES], stored[_DIGEST_BYTES:]
    if digest == hashlib.sha256(graph).digest():
        return graph
    example = torch.zeros(OnnxRuntime.batch, 3, size, size).contiguous(
        memory_format=torch.channels_last
    )
    program = onnx_program(backbone.stem, example, input_name=_INPUT, output_names=["features"])
    graph = bytes(program.model_proto.SerializeToString())
    with contextlib.suppress(OSError):  # it only saves time, so a full disk is no error here
        atomic_write_bytes(file, hashlib.sha256(graph).digest() + graph)
    return graph
