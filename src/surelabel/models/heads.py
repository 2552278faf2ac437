"""Bayesian tails on features: the small one, the paper's head, and a net's last block."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from surelabel.config.choices import Dropout, Net, Tail
from surelabel.config.settings import Config
from surelabel.models.backbones import Backbone
from surelabel.models.bayesian import BayesianNet
from surelabel.models.bayesianize import bayesianize
from surelabel.models.concrete_dropout import ConcreteDropout
from surelabel.models.densenet import LastDenseBlock
from surelabel.models.efficientnet_lite import LastStage

_HIDDEN = 128
_WIDE = 2048
_WIDE_P = 0.5
"""The paper's dropout probability after each hidden layer."""


def _dropout(width: int, p: float, config: Config) -> ConcreteDropout:
    learn = config.dropout is Dropout.CONCRETE
    return ConcreteDropout(width, p, learn=learn, temperature=config.concrete_temperature)


class SmallHead(nn.Module):
    """(..., D) -> (..., K + 1): one hidden layer, with dropout before both dense layers."""

    def __init__(self, n_in: int, n_classes: int, config: Config) -> None:
        super().__init__()
        self.drop_features = _dropout(n_in, config.dropout_p, config)
        self.hidden = nn.Linear(n_in, _HIDDEN)
        self.drop_hidden = _dropout(_HIDDEN, config.dropout_p, config)
        self.out = nn.Linear(_HIDDEN, n_classes + 1)

    def latents(self, features: Tensor) -> Tensor:
        """Activations of the last hidden layer, (..., 128)."""
        return torch.relu(self.hidden(self.drop_features(features)))

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.out(self.drop_hidden(self.latents(features)))
        return out

    def masked(self) -> list[tuple[ConcreteDropout, nn.Module]]:
        """Each dropout with the layer whose input it masks."""
        return [(self.drop_features, self.hidden), (self.drop_hidden, self.out)]


class _Norm(nn.BatchNorm1d):
    """Batch norm of (..., D), whatever axes lead."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.reshape(-1, x.shape[-1])).reshape(x.shape)


class WideHead(nn.Module):
    """The paper's head: two hidden layers of 2048 with ReLU and batch norm.

    Dropout is ``dropout_p`` at the input and .5 after each hidden layer; a fixed 0 is none at all.
    """

    def __init__(self, n_in: int, n_classes: int, config: Config) -> None:
        super().__init__()
        none = config.dropout is Dropout.FIXED and not config.dropout_p
        after = 0.0 if none else _WIDE_P
        self.drop_features = _dropout(n_in, config.dropout_p, config)
        self.hidden1, self.norm1 = nn.Linear(n_in, _WIDE), _Norm(_WIDE)
        self.drop1 = _dropout(_WIDE, after, config)
        self.hidden2, self.norm2 = nn.Linear(_WIDE, _WIDE), _Norm(_WIDE)
        self.drop2 = _dropout(_WIDE, after, config)
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
        """Each dropout with the layer whose input it masks."""
        return [
            (self.drop_features, self.hidden1),
            (self.drop1, self.hidden2),
            (self.drop2, self.out),
        ]


class LastBlock(nn.Module):
    """(N, C, H, W) -> (N, K + 1): a net's last block, dropout after every convolution."""

    def __init__(self, n_in: int, n_classes: int, config: Config) -> None:
        super().__init__()
        if config.net == Net.EFFICIENTNET_LITE0:
            self.block: LastStage | LastDenseBlock = LastStage.untrained()
        else:
            self.block = LastDenseBlock.untrained(config.net, n_in)
        self.out = nn.Linear(self.block.width, n_classes + 1)
        self._pairs = bayesianize(self.block, config=config)

    def latents(self, features: Tensor) -> Tensor:
        """What the last dense layer sees, (N, D)."""
        latents: Tensor = self.block(features)
        return latents

    def forward(self, features: Tensor) -> Tensor:
        out: Tensor = self.out(self.latents(features))
        return out

    def masked(self) -> list[tuple[ConcreteDropout, nn.Module]]:
        """Each dropout with the convolution that it follows."""
        return list(self._pairs)


_TAILS: Mapping[Tail, type[SmallHead | WideHead | LastBlock]] = {
    Tail.SMALL: SmallHead,
    Tail.WIDE: WideHead,
    Tail.LAST_BLOCK: LastBlock,
}


def start_from(net: BayesianNet, backbone: Backbone) -> None:
    """Give a last block the weights that it was published with; other tails start anew."""
    if isinstance(net.tail, LastBlock) and backbone.last_block is not None:
        own, published = net.tail.block.state_dict(), backbone.last_block.state_dict()
        net.tail.block.load_state_dict({**own, **published})


class FeatureNet(BayesianNet):
    """A tail alone: it is fed what a frozen backbone said of the images, (N, D) or (N, C, H, W)."""

    def __init__(self, n_in: int, n_classes: int, config: Config) -> None:
        tail = _TAILS[config.tail](n_in, n_classes, config)
        super().__init__(nn.Identity(), tail, n_classes)
        self.batched_tail = config.tail is not Tail.LAST_BLOCK
        self.masked = tail.masked()

    def look(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """The features, and the same as the backbone gave them, averaged over space."""
        mean, std = (self.get_buffer(name) for name in ("pixel_mean", "pixel_std"))
        pooled = images.flatten(2).mean(2) if images.ndim > 2 else images
        return images, [pooled * std + mean]

    def standardize(self, pixels: Tensor) -> Tensor:
        """float16 features -> float32 with mean 0 and deviation 1 over the collection."""
        mean, std = self.get_buffer("pixel_mean"), self.get_buffer("pixel_std")
        shape = (1, -1) + (1,) * (pixels.ndim - 2)
        return (pixels.to(mean.device, torch.float32) - mean.view(shape)) / std.view(shape)
