"""From a config to a network."""

from __future__ import annotations

import torch

from surelabel.config.choices import Net
from surelabel.config.settings import Config
from surelabel.models.backbones import is_pretrained
from surelabel.models.bayesian import BayesianNet, initialize
from surelabel.models.compact import CompactNet
from surelabel.models.growing_densenet import GrowingDenseNet
from surelabel.models.heads import FeatureNet


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
