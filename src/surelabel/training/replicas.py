"""Data-parallel training: equal replicas of a net, each with a part of every batch.

After each step the gradients are averaged over the replicas, so all of them make the same step, as
one net would with the whole batch. What differs from one net: augmentation, dropout masks and noise
are drawn per replica, and batch norm sees a part of the batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from surelabel.types import derive_seed


def _alone(_: Tensor) -> None:
    """The mean over one replica."""


@dataclass(frozen=True)
class Replica:
    """One of ``n`` replicas, and how it averages a tensor over all of them, in place."""

    rank: int = 0
    n: int = 1
    average: Callable[[Tensor], None] = _alone

    def part(self, batch: Tensor) -> Tensor:
        """This replica's positions of a batch; human and pseudo-labels are shared out alike."""
        return batch if self.n == 1 else batch[self.rank :: self.n]

    def seed(self, seed: int, step: int) -> int:
        """Of everything random in a step."""
        names: tuple[str | int, ...] = () if self.n == 1 else ("replica", self.rank)
        return derive_seed(seed, "step", step, *names)

    def mean(self, value: float) -> float:
        """``value``, averaged: every replica decides alike."""
        if self.n == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64)
        self.average(shared)
        return float(shared)

    def average_gradients(self, net: nn.Module) -> None:
        """Average the gradients, in one message."""
        self._average_all([p.grad for p in net.parameters() if p.grad is not None])

    def average_buffers(self, net: nn.Module) -> None:
        """Average running statistics, such as those of batch norm."""
        self._average_all([b for b in net.buffers() if b.is_floating_point()])

    def _average_all(self, tensors: Sequence[Tensor]) -> None:
        if self.n == 1 or not tensors:
            return
        flat = torch.cat([tensor.detach().reshape(-1).float().cpu() for tensor in tensors])
        self.average(flat)
        start = 0
        for tensor in tensors:
            part = flat[start : start + tensor.numel()].reshape(tensor.shape)
            tensor.copy_(part.to(tensor))
            start += tensor.numel()


ALONE = Replica()
"""Training without others."""
