"""Which images a training step sees, as a pure function of the step.

Nothing is remembered between steps but the permutation at hand, so a run that was killed draws
the same batches after it is resumed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from surelabel.types import derive_seed


class Stream:
    """An endless walk through ``n`` positions, each pass in a new random order."""

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self._seed = seed
        self._passes: dict[int, Tensor] = {}

    def take(self, start: int, count: int) -> Tensor:
        """Positions ``start`` to ``start + count`` of the walk, (count,)."""
        parts = []
        while count > 0:
            number, offset = divmod(start, self.n)
            part = self._order(number)[offset : offset + count]
            parts.append(part)
            start, count = start + len(part), count - len(part)
        return torch.cat(parts) if parts else torch.empty(0, dtype=torch.int64)

    def _order(self, number: int) -> Tensor:
        if number not in self._passes:
            generator = torch.Generator().manual_seed(derive_seed(self._seed, number))
            order = torch.randperm(self.n, generator=generator)
            self._passes = {k: v for k, v in self._passes.items() if k == number - 1}
            self._passes[number] = order
        return self._passes[number]


class Batches:
    """Batches in which human labels keep a minimum share, so that they cannot be drowned.

    Human positions are 0 .. n_human - 1, machine positions follow. Where their natural share is
    higher than ``human_share``, all positions are one stream.
    """

    def __init__(
        self, n_human: int, n_machine: int, batch_size: int, human_share: float, seed: int
    ) -> None:
        total = n_human + n_machine
        natural = n_human / total
        self.n_human_in_batch = 0
        if n_machine and natural < human_share:
            least = math.ceil(round(batch_size * human_share, 6))
            self.n_human_in_batch = min(batch_size - 1, max(1, least))
        self._batch_size = batch_size
        self._n_human = n_human
        self._human = Stream(n_human, derive_seed(seed, "human"))
        self._rest = Stream(
            n_machine if self.n_human_in_batch else total, derive_seed(seed, "machine")
        )

    def __call__(self, step: int) -> Tensor:
        """Positions of a step, (batch_size,)."""
        n_rest = self._batch_size - self.n_human_in_batch
        rest = self._rest.take(step * n_rest, n_rest)
        if not self.n_human_in_batch:
            return rest
        human = self._human.take(step * self.n_human_in_batch, self.n_human_in_batch)
        return torch.cat([human, rest + self._n_human])
