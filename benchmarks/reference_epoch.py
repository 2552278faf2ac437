"""The unit of cost: one training epoch of a fixed net on 60,000 images of 28 x 28.

Timed on a share of an epoch, several times over a run that stands still meanwhile, and scaled: on
shared cores only a ratio to something measured beside it means anything.
"""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

EPOCH = 60_000
BATCH = 128


class _MeanMax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.mean((2, 3)), x.amax((2, 3))], dim=1)


def reference_net() -> nn.Module:
    """5x5 stride 2 to 16; 3x3 to 32, 32; max-pool; 3x3 to 64, 64; mean and max; 128; 10."""

    def convolution(n_in: int, n_out: int, side: int = 3, stride: int = 1) -> list[nn.Module]:
        layer = nn.Conv2d(n_in, n_out, side, stride, side // 2, bias=False)
        return [layer, nn.BatchNorm2d(n_out), nn.ReLU(inplace=True)]

    net = nn.Sequential(
        *convolution(1, 16, side=5, stride=2),
        *convolution(16, 32),
        *convolution(32, 32),
        nn.MaxPool2d(2),
        *convolution(32, 64),
        *convolution(64, 64),
        _MeanMax(),
        nn.Linear(128, 128),
        nn.ReLU(inplace=True),
        nn.Linear(128, 10),
    )
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


class ReferenceEpoch:
    """Measures now and then; ``paused`` is for how long a run stood still, to be taken off."""

    def __init__(
        self, images: npt.NDArray[np.uint8], truth: npt.NDArray[np.int64], steps: int
    ) -> None:
        """``steps`` are timed each time."""
        chosen = np.arange(steps * BATCH) % len(images)
        pixels = torch.from_numpy(images[chosen][:, None]).float() / 255
        self._batches = torch.split(pixels.contiguous(memory_format=torch.channels_last), BATCH)
        self._labels = torch.split(torch.from_numpy(truth[chosen]), BATCH)
        self._net = reference_net().train()
        self._sgd = torch.optim.SGD(self._net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
        self.each: list[float] = []
        self.paused = 0.0

    def measure(self) -> None:
        """Time the share of an epoch once; forward, backward and the SGD step count.

        The first step is not timed: another process had the caches before it.
        """
        self._step(0)
        started = time.perf_counter()
        for at in range(len(self._batches)):
            self._step(at)
        seconds = time.perf_counter() - started
        self.each.append(seconds * EPOCH / (BATCH * len(self._batches)))

    def measure_instead_of(self, process: int) -> None:
        """Measure while this process stands still, all its threads."""
        started = time.perf_counter()
        os.kill(process, signal.SIGSTOP)
        try:
            self.measure()
        finally:
            os.kill(process, signal.SIGCONT)
        self.paused += time.perf_counter() - started

    @property
    def seconds(self) -> float:
        """Of an epoch: the mean of all measurements, as the run's time is a mean, too."""
        return float(np.mean(self.each))

    def _step(self, at: int) -> None:
        loss = nn.functional.cross_entropy(self._net(self._batches[at]), self._labels[at])
        self._sgd.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._sgd.step()
