"""torchvision and timm for comparison, where they can be imported at all."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
import torch


def public_package(name: str) -> Any:
    """The package, or a skip with the reason.

    A torchvision built for another torch lacks compiled operators that its import asks for, and
    that no net here needs: they are declared for the sake of the import.
    """
    library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    try:
        return importlib.import_module(name)
    except RuntimeError:
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        try:
            return importlib.import_module(name)
        except Exception as error:
            pytest.skip(f"{name} cannot be imported: {error}")
    except ImportError as error:
        pytest.skip(f"{name} is not installed: {error}")
