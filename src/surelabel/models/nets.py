"""From a config to a network: the compact net, nets on a backbone's features, and ``build_net``."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from surelabel.config.choices import Net, Tail
from surelabel.config.settings import Config
from surelabel.models.backbones import Backbone, is_pretrained
from surelabel.models.bayesian import BayesianNet, initialize
from surelabel.models.detail import DetailNet
from surelabel.models.growing_densenet import GrowingDenseNet
from surelabel.models.heads import HEADS, LastBlock, SmallHead

_LAST_SIDE = 7
"""Side of the last feature map that the number of halvings aims at."""
_STAGES = 3
"""How many feature maps the search for outliers uses."""


def build_net(
    config: Config, *, size: int, channels: int, n_classes: int, k: int, generator: torch.Generator
) -> BayesianNet:
    """A net with new weights; only the growing DenseNet uses the growth rate ``k``.

    ``channels`` counts those of the net's input: of images, or of a frozen backbone's features.
    An ``auto`` that was not resolved means the compact net.
    """
    net: BayesianNet
    if is_pretrained(config.net) and config.tail is Tail.DETAIL:
        net = DetailNet(channels, n_classes, config)
    elif is_pretrained(config.net):
        net = FeatureNet(channels, n_classes, config)
    elif config.net == Net.DENSENET:
        net = GrowingDenseNet(k, channels, n_classes, config)
    else:
        net = CompactNet(size, channels, n_classes, config)
    initialize(net, generator)
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def load_last_block(net: BayesianNet, backbone: Backbone) -> None:
    """Give a last block its published weights; other tails keep their new ones."""
    if isinstance(net.tail, LastBlock) and backbone.last_block is not None:
        own, published = net.tail.block.state_dict(), backbone.last_block.state_dict()
        net.tail.block.load_state_dict({**own, **published})


class CompactNet(BayesianNet):
    """A small convolutional net for two CPU cores, with a dense Bayesian tail.

    The stem is a 5x5 convolution, two pairs of 3x3 convolutions, and mean and max pooling. The
    tail is so small beside it that thirty samples cost little more than one.
    """

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

    def features_by_stage(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The features, and the last three feature maps of the stem, each pooled to (N, 2C)."""
        assert isinstance(self.stem, nn.Sequential)
        maps = []
        for layer in self.stem:
            images = layer(images)
            if isinstance(layer, nn.ReLU):
                maps.append(images)
        return images, [*(_mean_and_max(each) for each in maps[-_STAGES:-1]), images]


class FeatureNet(BayesianNet):
    """A tail alone; its input are the features of a frozen backbone, (N, D) or (N, C, H, W)."""

    def __init__(self, n_in: int, n_classes: int, config: Config) -> None:
        tail = HEADS[config.tail](n_in, n_classes, config)
        super().__init__(nn.Identity(), tail, n_classes)
        self.large_maps = config.tail is Tail.LAST_BLOCK
        self.batched_tail = not self.large_maps
        self.masked = tail.masked()

    def features_by_stage(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The features, and one stage: the backbone's own values, averaged over space."""
        mean, std = (self.get_buffer(name) for name in ("pixel_mean", "pixel_std"))
        pooled = images.flatten(2).mean(2) if images.ndim > 2 else images
        return images, [pooled * std + mean]

    def standardize(self, pixels: Tensor) -> Tensor:
        """float16 features -> float32 with mean 0 and standard deviation 1 over the dataset."""
        mean, std = self.get_buffer("pixel_mean"), self.get_buffer("pixel_std")
        shape = (1, -1) + (1,) * (pixels.ndim - 2)
        return (pixels.to(mean.device, torch.float32) - mean.view(shape)) / std.view(shape)


class _MeanMaxPool(nn.Module):
    """(N, C, H, W) -> (N, 2C): mean and maximum over space."""

    def forward(self, x: Tensor) -> Tensor:
        return _mean_and_max(x)


def _mean_and_max(x: Tensor) -> Tensor:
    return torch.cat([x.mean((2, 3)), x.amax((2, 3))], dim=1)


def _convolution(n_in: int, n_out: int, kernel: int = 3, stride: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(n_out),
        nn.ReLU(inplace=True),
    ]
