"""Which images each training step sees, as a pure function of the step.

Apart from cached permutations nothing is remembered between steps, so a run that was killed draws
the same batches after it is resumed.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from surelabel.types import derive_seed

_MAX_OVERSAMPLING = 4
"""Images without a label are drawn at most this many times as often as they would be by chance."""


class EndlessSampler:
    """Positions 0 .. n - 1 again and again, each pass in a new random order."""

    def __init__(self, n: int, seed: int) -> None:
        self.n = n
        self._seed = seed
        self._passes: dict[int, Tensor] = {}

    def take(self, start: int, count: int) -> Tensor:
        """The drawn positions number ``start`` to ``start + count``, (count,)."""
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


class BatchSampler:
    """Batches with a minimum share of human labels, so that pseudo-labels cannot drown them.

    Positions 0 .. n_human - 1 have human labels; the pseudo-labeled ones follow, and the last
    ``n_left`` positions have no label. If human labels make up at least ``human_share`` of all
    positions anyway, all positions are sampled alike. Otherwise each batch holds that share of
    human labels, and ``left_share`` of the rest are images without a label, because the net has
    long learned what it can from the others.
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
        self.n_human_in_batch = 0
        if n_pseudo and n_human / total < human_share:
            wanted = math.ceil(round(batch_size * human_share, 6))
            self.n_human_in_batch = min(batch_size - 1, max(1, wanted))
        self._n_human = n_human
        self._human = EndlessSampler(n_human, derive_seed(seed, "human"))
        self._n_rest = batch_size - self.n_human_in_batch
        self._n_left_in_batch = 0
        if self.n_human_in_batch:
            self._n_left_in_batch = _n_left_in_batch(self._n_rest, n_pseudo, n_left, left_share)
            self._n_labeled = n_pseudo - n_left if self._n_left_in_batch else n_pseudo
            self._rest = EndlessSampler(self._n_labeled, derive_seed(seed, "machine"))
            self._left = EndlessSampler(n_left, derive_seed(seed, "left"))
        else:
            self._rest = EndlessSampler(total, derive_seed(seed, "machine"))

    def __call__(self, step: int) -> Tensor:
        """The positions of a step, (batch_size,)."""
        n_left = self._n_left_in_batch
        n_rest = self._n_rest - n_left
        rest = self._rest.take(step * n_rest, n_rest)
        if not self.n_human_in_batch:
            return rest
        human = self._human.take(step * self.n_human_in_batch, self.n_human_in_batch)
        left = self._left.take(step * n_left, n_left) + self._n_labeled
        return torch.cat([human, rest + self._n_human, left + self._n_human])


def _n_left_in_batch(n_rest: int, n_pseudo: int, n_left: int, left_share: float) -> int:
    """How many of ``n_rest`` images have no label; 0 means that their number is left to chance."""
    natural = n_left / n_pseudo
    share = min(left_share, _MAX_OVERSAMPLING * natural)
    return min(n_rest - 1, round(n_rest * share)) if natural < share else 0
