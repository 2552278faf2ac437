"""Which images a training step sees, as a pure function of the step.

Nothing is remembered between steps but the permutation at hand, so a run that was killed draws
the same batches after it is resumed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from surelabel.types import derive_seed

_MOST_OFTEN = 4
"""Images without a label are drawn at most so many times as often as they would be by chance."""


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

    Human positions are 0 .. n_human - 1, machine positions follow, the last ``n_left`` of them
    without a label. Where the natural share of human labels is higher than ``human_share``, all
    positions are one stream. Else those without a label keep ``left_share`` of the machine's part:
    the net has long learned what it could from the others.
    """

    def __init__(
        self,
        n_human: int,
        n_pseudo: int,
        batch_size: int,
        human_share: float,
        seed: int,
        *,
        n_left: int = 0,
        left_share: float = 0.0,
    ) -> None:
        total = n_human + n_pseudo
        natural = n_human / total
        self.n_human_in_batch = 0
        if n_pseudo and natural < human_share:
            least = math.ceil(round(batch_size * human_share, 6))
            self.n_human_in_batch = min(batch_size - 1, max(1, least))
        self._n_human = n_human
        self._human = Stream(n_human, derive_seed(seed, "human"))
        self._n_rest = batch_size - self.n_human_in_batch
        self._n_left_in_batch = 0
        if self.n_human_in_batch:
            self._n_left_in_batch = _n_left_in_batch(self._n_rest, n_pseudo, n_left, left_share)
            self._n_labeled = n_pseudo - n_left if self._n_left_in_batch else n_pseudo
            self._rest = Stream(self._n_labeled, derive_seed(seed, "machine"))
            self._left = Stream(n_left, derive_seed(seed, "left"))
        else:
            self._rest = Stream(total, derive_seed(seed, "machine"))

    def __call__(self, step: int) -> Tensor:
        """Positions of a step, (batch_size,)."""
        n_left = self._n_left_in_batch
        n_rest = self._n_rest - n_left
        rest = self._rest.take(step * n_rest, n_rest)
        if not self.n_human_in_batch:
            return rest
        human = self._human.take(step * self.n_human_in_batch, self.n_human_in_batch)
        left = self._left.take(step * n_left, n_left) + self._n_labeled
        return torch.cat([human, rest + self._n_human, left + self._n_human])


def _n_left_in_batch(n_rest: int, n_pseudo: int, n_left: int, left_share: float) -> int:
    """How many of ``n_rest`` are drawn from those without a label; 0: as many as it happens."""
    natural = n_left / n_pseudo
    share = min(left_share, _MOST_OFTEN * natural)
    return min(n_rest - 1, round(n_rest * share)) if natural < share else 0
