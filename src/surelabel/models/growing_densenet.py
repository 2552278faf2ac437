"""The growing DenseNet-BC of the paper's MNIST study: 40 layers, three blocks, compression .5.

Dropout follows every convolution but the first, so the stem is only the first convolution.
``growth_rate`` is the schedule of Algorithm 1. ``widen`` copies a trained net into one with a
larger growth rate k without changing its function.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from surelabel.config.settings import Config
from surelabel.models.bayesian import BayesianNet
from surelabel.models.concrete_dropout import ConcreteDropout

_DEPTH = 40
_BLOCKS = 3
_BOTTLENECK = 4
_LAYERS = (_DEPTH - 4) // (2 * _BLOCKS)


class _Unit(nn.Module):
    """Batch norm, ReLU, convolution, dropout: every block and transition is made of these."""

    def __init__(self, n_in: int, n_out: int, kernel: int, config: Config) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(n_in)
        self.conv = nn.Conv2d(n_in, n_out, kernel, padding=kernel // 2, bias=False)
        self.drop = ConcreteDropout.from_config(n_out, config.dropout_p, config)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.drop(self.conv(torch.relu(self.norm(x))))
        return out


class _DenseLayer(nn.Module):
    """A 1x1 bottleneck to 4k channels, then 3x3 to k, concatenated with the input."""

    def __init__(self, n_in: int, k: int, config: Config) -> None:
        super().__init__()
        self.bottleneck = _Unit(n_in, _BOTTLENECK * k, 1, config)
        self.grow = _Unit(_BOTTLENECK * k, k, 3, config)

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.grow(self.bottleneck(x))], dim=1)


class _Head(nn.Module):
    """Batch norm, ReLU, mean over space, dense layer."""

    def __init__(self, n_in: int, n_classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(n_in)
        self.out = nn.Linear(n_in, n_classes + 1)

    def latents(self, x: Tensor) -> Tensor:
        """The input of the last dense layer, (N, n_in)."""
        return torch.relu(self.norm(x)).mean((2, 3))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.out(self.latents(x))
        return out


class GrowingDenseNet(BayesianNet):
    """DenseNet-BC-40 with growth rate ``k``; the first convolution has 2k channels."""

    large_maps = True

    def __init__(self, k: int, channels: int, n_classes: int, config: Config) -> None:
        width = 2 * k
        stem = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        tail: list[nn.Module] = []
        for block in range(_BLOCKS):
            for _ in range(_LAYERS):
                tail.append(_DenseLayer(width, k, config))
                width += k
            if block < _BLOCKS - 1:
                tail += [_Unit(width, width // 2, 1, config), nn.AvgPool2d(2, ceil_mode=True)]
                width //= 2
        tail.append(_Head(width, n_classes))
        super().__init__(stem, nn.Sequential(*tail), n_classes)
        self.k = k
        self.masked = [(unit.drop, unit.conv) for unit in self.modules() if isinstance(unit, _Unit)]

    def latents(self, features: Tensor) -> Tensor:
        """The input of the last dense layer, (N, D)."""
        *layers, head = self.tail.children()
        for layer in layers:
            features = layer(features)
        assert isinstance(head, _Head)
        return head.latents(features)


def growth_rate(start: int, largest: int, nu: float, round_number: int) -> int:
    """K of round r, counted from 1: min(start + nu r (r - 1) / 2, largest).

    Algorithm 1 updates k in place, so growth adds up: 12, 13, 15, 18, 22, 24 for nu = 1.
    """
    return int(min(start + nu * round_number * (round_number - 1) / 2, largest))


def default_nu(n_pool: int) -> float:
    """The growth factor for a pool: 1 from 10,000 images on, proportionally less below."""
    return min(1.0, n_pool / 10_000)


def widen(old: GrowingDenseNet, new: GrowingDenseNet) -> None:
    """Copy ``old`` into ``new``, which has a larger k, so that both compute the same function.

    Old channels keep their weights, moved to their new positions. New channels keep their random
    incoming weights, but all their outgoing weights start at zero, so in evaluation mode both nets
    return the same output.
    """
    with torch.no_grad():
        kept = _copy_conv(old.stem, new.stem, None)
        for before, after in zip(old.tail.children(), new.tail.children(), strict=True):
            if isinstance(before, _DenseLayer) and isinstance(after, _DenseLayer):
                inner = _copy_unit(before.bottleneck, after.bottleneck, kept)
                grown = _copy_unit(before.grow, after.grow, inner)
                kept = torch.cat([kept, after.bottleneck.norm.num_features + grown])
            elif isinstance(before, _Unit) and isinstance(after, _Unit):
                kept = _copy_unit(before, after, kept)
            elif isinstance(before, _Head) and isinstance(after, _Head):
                _copy_norm(before.norm, after.norm, kept)
                after.out.weight.zero_()
                after.out.weight[:, kept] = before.out.weight
                after.out.bias.copy_(before.out.bias)


def _copy_unit(old: _Unit, new: _Unit, kept: Tensor) -> Tensor:
    _copy_norm(old.norm, new.norm, kept)
    new.drop.logit_p.copy_(old.drop.logit_p)
    return _copy_conv(old.conv, new.conv, kept)


def _copy_norm(old: nn.BatchNorm2d, new: nn.BatchNorm2d, kept: Tensor) -> None:
    for name in ("weight", "bias", "running_mean", "running_var"):
        getattr(new, name)[kept] = getattr(old, name)


def _copy_conv(old: nn.Module, new: nn.Module, kept: Tensor | None) -> Tensor:
    """Copy the filters; ``kept`` are the old input channels. Returns the old output channels."""
    assert isinstance(old, nn.Conv2d)
    assert isinstance(new, nn.Conv2d)
    out = torch.arange(old.out_channels)
    if kept is None:
        new.weight[out] = old.weight
        return out
    new.weight[out] = 0.0
    new.weight[out[:, None], kept[None, :]] = old.weight
    return out
