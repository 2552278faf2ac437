"""Bayesian tails on features: the small head, the paper's wide head, and a backbone's last block.

A tail maps features to (..., K + 1): K logits and one log variance.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from surelabel.config.choices import Dropout, Net, Tail
from surelabel.config.settings import Config
from surelabel.models.concrete_dropout import ConcreteDropout, bayesianize
from surelabel.models.densenet import LastDenseBlock
from surelabel.models.efficientnet_lite import SCALES, LastStage

_HIDDEN = 128
_WIDE = 2048
_WIDE_P = 0.5
"""The paper's dropout probability after each hidden layer."""


class SmallHead(nn.Module):
    """(..., D) -> (..., K + 1): one hidden layer, with dropout before both dense layers."""

    def __init__(self, n_in: int, n_classes: int, config: Config) -> None:
        super().__init__()
        self.drop_features = ConcreteDropout.from_config(n_in, config.dropout_p, config)
        self.hidden = nn.Linear(n_in, _HIDDEN)
        self.drop_hidden = ConcreteDropout.from_config(_HIDDEN, config.dropout_p, config)
        self.out = nn.Linear(_HIDDEN, n_classes + 1)

    def latents(self, features: Tensor) -> Tensor:
        """Activations of the last hidden layer, (..., 128)."""
        return torch.relu(self.hidden(self.drop_features(features)))

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.out(self.drop_hidden(self.latents(features)))
        return out

    def masked(self) -> list[tuple[ConcreteDropout, nn.Module]]:
        """Each dropout layer with the dense layer whose input it masks."""
        return [(self.drop_features, self.hidden), (self.drop_hidden, self.out)]


class _BatchNorm(nn.BatchNorm1d):
    """Batch norm of (..., D), with any number of leading axes."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(-1, x.shape[-1])).reshape(x.shape)


class WideHead(nn.Module):
    """(..., D) -> (..., K + 1), the paper's head: two hidden layers of 2048, ReLU, batch norm.

    The dropout probability is ``dropout_p`` at the input and .5 after each hidden layer; with a
    fixed ``dropout_p`` of 0 there is no dropout at all.
    """

    def __init__(self, n_in: int, n_classes: int, config: Config) -> None:
        super().__init__()
        no_dropout = config.dropout is Dropout.FIXED and not config.dropout_p
        hidden_p = 0.0 if no_dropout else _WIDE_P
        self.drop_features = ConcreteDropout.from_config(n_in, config.dropout_p, config)
        self.hidden1, self.norm1 = nn.Linear(n_in, _WIDE), _BatchNorm(_WIDE)
        self.drop1 = ConcreteDropout.from_config(_WIDE, hidden_p, config)
        self.hidden2, self.norm2 = nn.Linear(_WIDE, _WIDE), _BatchNorm(_WIDE)
        self.drop2 = ConcreteDropout.from_config(_WIDE, hidden_p, config)
        self.out = nn.Linear(_WIDE, n_classes + 1)

    def latents(self, features: Tensor) -> Tensor:
        """Activations of the second hidden layer, (..., 2048)."""
        first = self.norm1(torch.relu(self.hidden1(self.drop_features(features))))
        second: Tensor = self.norm2(torch.relu(self.hidden2(self.drop1(first))))
        return second

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.out(self.drop2(self.latents(features)))
        return out

    def masked(self) -> list[tuple[ConcreteDropout, nn.Module]]:
        """Each dropout layer with the dense layer whose input it masks."""
        return [
            (self.drop_features, self.hidden1),
            (self.drop1, self.hidden2),
            (self.drop2, self.out),
        ]


class LastBlock(nn.Module):
    """(N, C, H, W) -> (N, K + 1): a backbone's last block with dropout after every convolution."""

    def __init__(self, n_in: int, n_classes: int, config: Config) -> None:
        super().__init__()
        if config.net in SCALES:
            scale = SCALES[Net(config.net)]
            self.block: LastStage | LastDenseBlock = LastStage.untrained(scale)
        else:
            self.block = LastDenseBlock.untrained(config.net, n_in)
        self.out = nn.Linear(self.block.width, n_classes + 1)
        self._pairs = bayesianize(self.block, config=config)

    def latents(self, features: Tensor) -> Tensor:
        """The input of the last dense layer, (N, D)."""
        latents: Tensor = self.block(features)
        return latents

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.out(self.latents(features))
        return out

    def masked(self) -> list[tuple[ConcreteDropout, nn.Module]]:
        """Each dropout layer with the convolution that it follows."""
        return list(self._pairs)


HEADS: Mapping[Tail, type[SmallHead | WideHead | LastBlock]] = {
    Tail.SMALL: SmallHead,
    Tail.WIDE: WideHead,
    Tail.LAST_BLOCK: LastBlock,
}
