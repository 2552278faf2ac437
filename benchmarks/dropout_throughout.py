"""The compact net with Concrete Dropout before every layer but the first, not only in the tail."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surelabel.config.settings import Config
from surelabel.models.bayesian import BayesianNet, initialize
from surelabel.models.concrete_dropout import ConcreteDropout
from surelabel.models.nets import CompactNet


class _AsMap(nn.Module):
    """(N, D) -> (N, D, 1, 1)."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :, None, None]


class ThroughoutNet(BayesianNet):
    """The layers of a ``CompactNet``; without dropout it computes the same function.

    The tail is the whole net, so a sample is a pass through all layers. Dense layers are 1 x 1
    convolutions, so that every mask is one number per channel. Dropout after the last convolution
    of the stem is the compact net's own, after the pooling.
    """

    def __init__(self, size: int, channels: int, n_classes: int, config: Config) -> None:
        compact = CompactNet(size, channels, n_classes, config)

        def dropout(width: int) -> ConcreteDropout:
            return ConcreteDropout.from_config(width, config.dropout_p, config)

        layers: list[nn.Module] = []
        masked: list[tuple[ConcreteDropout, nn.Module]] = []
        for layer in compact.stem.children():
            if isinstance(layer, nn.Conv2d) and layers:
                masked.append((dropout(layer.in_channels), layer))
                layers.append(masked[-1][0])
            layers.append(layer)
        layers.append(_AsMap())
        for dense in (m for m in compact.tail.children() if isinstance(m, nn.Linear)):
            layer = nn.Conv2d(dense.in_features, dense.out_features, 1)
            masked.append((dropout(dense.in_features), layer))
            layers += [*masked[-1], nn.ReLU()]
        layers[-1] = nn.Flatten()
        super().__init__(nn.Identity(), nn.Sequential(*layers), n_classes)
        self.masked = masked


def build_throughout(
    config: Config, *, size: int, channels: int, n_classes: int, generator: torch.Generator
) -> BayesianNet:
    """A net with the same new weights that ``build_net`` draws from the same generator."""
    net = ThroughoutNet(size, channels, n_classes, config)
    initialize(net, generator)
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]
