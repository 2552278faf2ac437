"""Import public packages that need torchvision, also where it was built for another torch."""

from __future__ import annotations

import importlib
from typing import Any

import torch


def import_public(name: str) -> Any:
    """The package ``name``.

    A torchvision built for another torch lacks compiled operators that its import asks for, and
    that no net here needs: they are declared for the sake of the import.
    """
    library: Any = torch.library.Library("torchvision", "FRAGMENT")  # type: ignore[no-untyped-call]
    try:
        return importlib.import_module(name)
    except RuntimeError:
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        return importlib.import_module(name)
