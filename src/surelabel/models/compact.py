"""A small convolutional net made for two CPU cores, with a dense Bayesian tail.

The tail has one hidden layer and Concrete Dropout before each of its two dense layers. It is so
small beside the stem that thirty samples cost little more than one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from surelabel.config.settings import Config
from surelabel.models.bayesian import BayesianNet
from surelabel.models.heads import SmallHead

_LAST_SIDE = 7
"""Side of the last feature map that the number of halvings aims at."""
_STAGES = 3
"""How many feature maps are looked at to tell outliers."""


def _convolution(n_in: int, n_out: int, kernel: int = 3, stride: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(n_out),
        nn.ReLU(inplace=True),
    ]


class _MeanMaxPool(nn.Module):
    """(N, C, H, W) -> (N, 2C): mean and maximum over space."""

    def forward(self, x: Tensor) -> Tensor:
        return _mean_and_max(x)


def _mean_and_max(x: Tensor) -> Tensor:
    return torch.cat([x.mean((2, 3)), x.amax((2, 3))], dim=1)


class CompactNet(BayesianNet):
    """Convolutions 5x5, then two pairs of 3x3, mean and max pooling, and the dense tail."""

    batched_tail = True

    def __init__(self, size: int, channels: int, n_classes: int, config: Config) -> None:
        a, b, c = (8 * max(1, round(n * config.width / 8)) for n in (16, 32, 64))
        halvings = max(1, round(math.log2(size / _LAST_SIDE)))
        stem = _convolution(channels, a, kernel=5, stride=2 if halvings > 1 else 1)
        stem += [nn.MaxPool2d(2) for _ in range(halvings - 2)]
        stem += [*_convolution(a, b), *_convolution(b, b), nn.MaxPool2d(2)]
        stem += [*_convolution(b, c), *_convolution(c, c), _MeanMaxPool()]
        tail = SmallHead(2 * c, n_classes, config)
        super().__init__(nn.Sequential(*stem), tail, n_classes)
        self.masked = tail.masked()

    def look(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The features, and the last three feature maps of the stem, each pooled to (N, 2C)."""
        assert isinstance(self.stem, nn.Sequential)
        maps = []
        for layer in self.stem:
            images = layer(images)
            if isinstance(layer, nn.ReLU):
                maps.append(images)
        return images, [*(_mean_and_max(each) for each in maps[-_STAGES:-1]), images]
