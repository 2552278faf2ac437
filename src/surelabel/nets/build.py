"""From a config to a network."""

from __future__ import annotations

import torch

from surelabel.choices import Net
from surelabel.config import Config
from surelabel.nets.bayesian import BayesianNet, initialize
from surelabel.nets.compact import CompactNet
from surelabel.nets.densenet import GrowingDenseNet


def build_net(
    config: Config, *, size: int, channels: int, n_classes: int, k: int, generator: torch.Generator
) -> BayesianNet:
    """A net with new weights; ``k`` is the growth rate, which only the DenseNet has."""
    net: BayesianNet
    if config.net is Net.DENSENET:
        net = GrowingDenseNet(k, channels, n_classes, config)
    else:
        net = CompactNet(size, channels, n_classes, config)
    initialize(net, generator)
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
