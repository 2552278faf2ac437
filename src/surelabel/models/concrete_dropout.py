"""Concrete Dropout, a dropout layer that learns its probability, and how to add it to a net.

Symbols: p is the dropout probability, u ~ U(0, 1), t the temperature, z in (0, 1) how far a feature
is dropped. The layer draws

    z = sigmoid((logit p + logit u) / t)

and multiplies its input by (1 - z) / (1 - p), so that the mean stays about the same. t -> 0 gives
the hard Bernoulli masks that are used when p is fixed. Convolutions get one mask value per channel.
Paper: § Continuous Relaxation of Dropout; Gal, Hron and Kendall 2017.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from surelabel.config.choices import Dropout
from surelabel.config.settings import Config

#: Which convolutions to choose: a pattern for the start of their dotted names, or a predicate.
Where: TypeAlias = str | Callable[[str, nn.Conv2d], bool]

_EPSILON = 1e-6
_CHILD = "dropout"
"""Under this name ``bayesianize`` adds a dropout layer to a convolution."""


class ConcreteDropout(nn.Module):
    """Drops whole features of its input, with a learned or a fixed probability.

    It is random in training and does nothing in evaluation, unless ``sampling`` is on (Monte Carlo
    Dropout) or a ``mask`` is set. A mask stands for one draw of the network's weights, so it is the
    same for every image.
    """

    def __init__(
        self, width: int, p: float = 0.2, *, learn: bool = True, temperature: float = 2 / 3
    ) -> None:
        super().__init__()
        self.width = width
        self.learn = learn
        self.temperature = temperature
        inside = min(max(p, _EPSILON), 1 - _EPSILON)
        logit = torch.logit(torch.tensor(inside, dtype=torch.float32))
        self.logit_p = nn.Parameter(logit, requires_grad=learn)
        self.off = p == 0 and not learn
        self.sampling = False
        self.generator: torch.Generator | None = None
        self.mask: Tensor | None = None

    @classmethod
    def from_config(cls, width: int, p: float, config: Config) -> ConcreteDropout:
        """A layer that starts at ``p``, learned and relaxed as ``config`` asks for."""
        learn = config.dropout is Dropout.CONCRETE
        return cls(width, p, learn=learn, temperature=config.concrete_temperature)

    @property
    def p(self) -> Tensor:
        """The dropout probability, a scalar."""
        return torch.sigmoid(self.logit_p)

    def draw(self, shape: tuple[int, ...]) -> Tensor:
        """Multipliers (1 - z) / (1 - p) of the given shape, differentiable in a learned p."""
        device = self.logit_p.device
        if self.off:
            return torch.ones(shape, device=device)
        u = torch.rand(shape, generator=self.generator).to(device)
        keep = 1 - self.p
        if not self.learn:
            return (u >= self.p).to(u.dtype) / keep
        u = u.clamp(_EPSILON, 1 - _EPSILON)
        z = torch.sigmoid((self.logit_p + torch.logit(u)) / self.temperature)
        return (1 - z) / keep

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) for dense inputs, (N, width, H, W) for images; the shape stays the same."""
        if self.mask is not None:
            return x * self.mask
        if self.off or not (self.training or self.sampling):
            return x
        shape = (*x.shape[:2], 1, 1) if x.ndim == 4 else tuple(x.shape)
        return x * self.draw(shape)

    def entropy(self) -> Tensor:
        """H[p] = -p ln p - (1 - p) ln(1 - p) of the Bernoulli variable, a scalar in nats."""
        p = self.p.clamp(_EPSILON, 1 - _EPSILON)
        return -(p * p.log() + (1 - p) * (1 - p).log())

    def kl(self, weight: Tensor, length_scale: float) -> Tensor:
        """KL divergence of the masked weight from its prior, up to a constant: a scalar.

        l^2 |W|^2 / (2 (1 - p)) - width H[p], with the prior length scale l. ``weight`` is the
        stored W, one axis of which this layer masks. Because of the scaling above the mean weight
        is M = W / (1 - p), so the first term is the usual l^2 (1 - p) |M|^2 / 2. The caller scales
        the result by 1 / N.
        """
        prior = length_scale**2 * weight.square().sum() / (2 * (1 - self.p))
        return prior - self.width * self.entropy()


def bayesianize(
    module: nn.Module, where: Where = "", config: Config | None = None
) -> list[tuple[ConcreteDropout, nn.Conv2d]]:
    """Put Concrete Dropout after the chosen 2-d convolutions of ``module``, by default all of them.

    The net's own parameters keep their names, so its checkpoints still load; each convolution
    gains ``dropout.logit_p``. A convolution that already has its dropout layer keeps it. Returns
    the pairs that ``BayesianNet.masked`` expects.
    """
    config = config or Config()
    is_chosen = _predicate(where)
    pairs = []
    for name, layer in module.named_modules():
        if not isinstance(layer, nn.Conv2d) or not is_chosen(name, layer):
            continue
        if _CHILD not in dict(layer.named_children()):
            added = ConcreteDropout.from_config(layer.out_channels, config.dropout_p, config)
            layer.add_module(_CHILD, added.train(layer.training))
            layer.register_forward_hook(_apply_dropout)
        dropout = layer.get_submodule(_CHILD)
        assert isinstance(dropout, ConcreteDropout)
        pairs.append((dropout, layer))
    return pairs


def _predicate(where: Where) -> Callable[[str, nn.Conv2d], bool]:
    if not isinstance(where, str):
        return where
    pattern = re.compile(where)
    return lambda name, _: pattern.match(name) is not None


def _apply_dropout(layer: nn.Module, _: object, output: Tensor) -> Tensor:
    dropped: Tensor = layer.get_submodule(_CHILD)(output)
    return dropped
