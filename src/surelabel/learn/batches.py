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
    """Batches in which human labels, and images left without a label, keep a minimum share.

    Human positions are 0 .. n_human - 1, machine positions follow. Where the natural share of
    human positions is higher than ``human_share``, all positions are one stream. ``left`` are the
    machine positions without a label: ``left_share`` of the batch is theirs on top of what the
    stream brings, as long as there are others too. What is sure already teaches little more.
    """

    def __init__(
        self,
        n_human: int,
        n_machine: int,
        batch_size: int,
        human_share: float,
        seed: int,
        left: Tensor | None = None,
        left_share: float = 0.0,
    ) -> None:
        total = n_human + n_machine
        natural = n_human / total
        self.n_human_in_batch = 0
        if n_machine and natural < human_share:
            least = math.ceil(round(batch_size * human_share, 6))
            self.n_human_in_batch = min(batch_size - 1, max(1, least))
        self.n_left_in_batch = 0
        if left is not None and 0 < len(left) < n_machine:
            room = batch_size - self.n_human_in_batch - 1
            self.n_left_in_batch = min(room, round(batch_size * left_share))
        self._left = torch.empty(0, dtype=torch.int64) if left is None else left
        self._n_human = n_human
        self._n_rest = batch_size - self.n_human_in_batch - self.n_left_in_batch
        self._human = Stream(n_human, derive_seed(seed, "human"))
        self._rest = Stream(
            n_machine if self.n_human_in_batch else total, derive_seed(seed, "machine")
        )
        self._open = Stream(len(self._left), derive_seed(seed, "left"))

    def __call__(self, step: int) -> Tensor:
        """Positions of a step, (batch_size,)."""
        rest = self._rest.take(step * self._n_rest, self._n_rest)
        if self.n_human_in_batch:
            rest = rest + self._n_human
        n_human, n_left = self.n_human_in_batch, self.n_left_in_batch
        human = self._human.take(step * n_human, n_human)
        left = self._left[self._open.take(step * n_left, n_left)]
        return torch.cat([human, rest, left])
