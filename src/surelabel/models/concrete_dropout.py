"""Concrete Dropout, whose probability is learned. Paper: § Continuous Relaxation of Dropout.

The drop mask is z = sigmoid((logit p + logit u) / t) with u uniform, and the input is multiplied
by (1 - z) / (1 - p), so its mean stays about the same. For convolutions the mask is one number a
channel. Hard Bernoulli masks are the case t -> 0, used when the probability is fixed.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

_TINY = 1e-6


class ConcreteDropout(nn.Module):
    """Drops whole features of its input, with a learned or a fixed probability.

    Random in training; silent in evaluation, unless ``sampling`` is on (Monte Carlo Dropout) or
    a ``mask`` was put in. A mask stands for one draw of the network's weights: the same for
    every image.
    """

    def __init__(
        self, width: int, p: float = 0.2, *, learn: bool = True, temperature: float = 2 / 3
    ) -> None:
        super().__init__()
        self.width = width
        self.learn = learn
        self.temperature = temperature
        inside = min(max(p, _TINY), 1 - _TINY)
        logit = torch.logit(torch.tensor(inside, dtype=torch.float32))
        self.logit_p = nn.Parameter(logit, requires_grad=learn)
        self.off = p == 0 and not learn
        self.sampling = False
        self.generator: torch.Generator | None = None
        self.mask: Tensor | None = None

    @property
    def p(self) -> Tensor:
        """The dropout probability, a scalar."""
        return torch.sigmoid(self.logit_p)

    def draw(self, shape: tuple[int, ...]) -> Tensor:
        """Multipliers (1 - z) / (1 - p) of the given shape, differentiable in p where learned."""
        where = self.logit_p.device
        if self.off:
            return torch.ones(shape, device=where)
        u = torch.rand(shape, generator=self.generator).to(where)
        keep = 1 - self.p
        if not self.learn:
            return (u >= self.p).to(u.dtype) / keep
        u = u.clamp(_TINY, 1 - _TINY)
        z = torch.sigmoid((self.logit_p + torch.logit(u)) / self.temperature)
        return (1 - z) / keep

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) for dense inputs, (N, width, H, W) for images; the same shape comes out."""
        if self.mask is not None:
            return x * self.mask
        if self.off or not (self.training or self.sampling):
            return x
        shape = (*x.shape[:2], 1, 1) if x.ndim == 4 else tuple(x.shape)
        return x * self.draw(shape)

    def entropy(self) -> Tensor:
        """H[p] of the Bernoulli variable, a scalar in nats."""
        p = self.p.clamp(_TINY, 1 - _TINY)
        return -(p * p.log() + (1 - p) * (1 - p).log())

    def kl(self, weight: Tensor, length_scale: float) -> Tensor:
        """KL of the masked weight from its prior, up to a constant; scale it by 1/N.

        ``weight`` is the stored W, one of whose axes this layer masks. With the scaling above
        the mean weight is M = W / (1 - p), so l^2 (1 - p) |M|^2 / 2 = l^2 |W|^2 / (2 (1 - p)).
        """
        prior = length_scale**2 * weight.square().sum() / (2 * (1 - self.p))
        return prior - self.width * self.entropy()
