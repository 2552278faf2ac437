"""From a config to a network."""

from __future__ import annotations

import torch

from surelabel.choices import Net
from surelabel.config import Config
from surelabel.nets.backbones import is_pretrained
from surelabel.nets.bayesian import BayesianNet, initialize
from surelabel.nets.compact import CompactNet
from surelabel.nets.densenet import GrowingDenseNet
from surelabel.nets.heads import FeatureNet


def build_net(
    config: Config, *, size: int, channels: int, n_classes: int, k: int, generator: torch.Generator
) -> BayesianNet:
    """A net with new weights; ``k`` is the growth rate, which only the growing DenseNet has.

    ``channels`` are those of what the net is fed: of images, or of a frozen backbone's features.
    ``auto`` that nobody settled is the compact net.
    """
    net: BayesianNet
    if is_pretrained(config.net):
        net = FeatureNet(channels, n_classes, config)
    elif config.net == Net.DENSENET:
        net = GrowingDenseNet(k, channels, n_classes, config)
    else:
        net = CompactNet(size, channels, n_classes, config)
    initialize(net, generator)
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
