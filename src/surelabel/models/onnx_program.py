"""A PyTorch module as an ONNX graph."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

_PACKAGES = ("onnx", "onnxscript")


def missing_packages() -> list[str]:
    """What writing a graph needs and is not installed."""
    return [name for name in _PACKAGES if importlib.util.find_spec(name) is None]


def onnx_program(
    module: nn.Module,
    example: Tensor,
    *,
    input_name: str,
    output_names: Sequence[str],
    any_length: bool = False,
) -> torch.onnx.ONNXProgram:
    """The graph of ``module`` for inputs of the shape of ``example``.

    With ``any_length`` the first axis, the one of the images, may have any length.
    """
    shapes = {input_name: {0: torch.export.Dim("n", min=1)}} if any_length else None
    with _quietly(), torch.no_grad():
        program = torch.onnx.export(
            module,
            (example,),
            input_names=[input_name],
            output_names=list(output_names),
            dynamic_shapes=shapes,
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    return program


@contextmanager
def _quietly() -> Iterator[None]:
    """The exporter tells of its own steps, in warnings and logs."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
