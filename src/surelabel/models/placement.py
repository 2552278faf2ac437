"""Where a net computes: on the processor in single precision, on a GPU in mixed precision."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Placement:
    """A device, and how work is brought to it.

    What a GPU gets beyond the processor is switched by fields of its own, so that tests without a
    GPU run the same code.
    """

    device: torch.device
    mixed_precision: bool = False
    """Whether convolutions and products are computed in half precision."""
    pinned_memory: bool = False
    """Whether inputs are copied from memory that stays in place, while the device computes."""

    @classmethod
    def on(cls, device: torch.device) -> Placement:
        """What suits ``device``."""
        is_gpu = device.type == "cuda"
        return cls(device, mixed_precision=is_gpu, pinned_memory=is_gpu)

    def move(self, tensor: Tensor) -> Tensor:
        """``tensor`` on the device."""
        if self.pinned_memory and tensor.device.type == "cpu":
            tensor = tensor.pin_memory()
        return tensor.to(self.device, non_blocking=self.pinned_memory)

    def autocast(self, dtype: torch.dtype) -> torch.autocast:
        """A block whose convolutions and products are computed in ``dtype``, where mixed."""
        return torch.autocast(self.device.type, dtype, enabled=self.mixed_precision)
