"""What every network here has in common: a deterministic stem and a Bayesian tail.

A net's output (N, K + 1) is K logits f and s = log sigma^2, the log variance of the noise that it
predicts on them. Paper: § Inverse Uncertainty Weighting.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from surelabel.models.concrete_dropout import ConcreteDropout

_LOG_VARIANCE_RANGE = (-10.0, 4.0)
"""s stays inside it: noise with a scale of 7 drowns any logits, and more would only overflow."""
_INITIAL_LOG_VARIANCE = -3.0
"""s of a new net for every image: next to no noise until training calls for it."""


def split_outputs(outputs: Tensor) -> tuple[Tensor, Tensor]:
    """(..., K + 1) -> logits (..., K) and log variance s (...), clamped to its range."""
    s: Tensor = _ClampLogVariance.apply(outputs[..., -1])  # type: ignore[no-untyped-call]
    return outputs[..., :-1], s


class _ClampLogVariance(torch.autograd.Function):
    """Clamps s to its range; outside of it, only gradients that lead back inside pass.

    A plain clamp has no gradient outside, so a net that left the range once would keep the same
    noise for all images. With the full gradient s would run away, because the gradient's own noise
    grows with exp(s / 2).
    """

    @staticmethod
    def forward(ctx: FunctionCtx, s: Tensor) -> Tensor:
        ctx.save_for_backward(s)
        return s.clamp(*_LOG_VARIANCE_RANGE)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> Tensor:
        (s,) = ctx.saved_tensors  # type: ignore[attr-defined]
        low, high = _LOG_VARIANCE_RANGE
        leads_away = ((s > high) & (gradient < 0)) | ((s < low) & (gradient > 0))
        return gradient.masked_fill(leads_away, 0.0)


class BayesianNet(nn.Module):
    """stem: images -> features, run once; tail: features -> K logits and one log variance.

    ``batched_tail`` means that the tail takes a leading axis of samples, (T, N, D), so that all
    T samples are one batched product. ``masked`` pairs each dropout layer with the layer whose
    weights it masks. ``large_maps`` means that a processor computes few images at a time, because
    its cache does not hold the maps of many.
    """

    batched_tail = False
    large_maps = False

    def __init__(self, stem: nn.Module, tail: nn.Module, n_classes: int) -> None:
        super().__init__()
        self.stem = stem
        self.tail = tail
        self.n_classes = n_classes
        self.register_buffer("pixel_mean", torch.zeros(1))
        self.register_buffer("pixel_std", torch.ones(1))
        self.masked: list[tuple[ConcreteDropout, nn.Module]] = []

    def forward(self, images: Tensor) -> Tensor:
        """(N, C, H, W) -> (N, K + 1): K logits, then s = log sigma^2."""
        out: Tensor = self.tail(self.stem(images))
        return out

    def features_by_stage(self, images: Tensor) -> tuple[Tensor, list[Tensor]]:
        """(N, C, H, W) -> the stem's features, and pooled features (N, D) of one or more stages.

        Outliers are found in the stage features. The last hidden layer would not do: it is trained
        to separate the classes, and whatever does not help with that is lost on the way to it.
        """
        features: Tensor = self.stem(images)
        return features, [features if features.ndim == 2 else self.latents(features)]

    def latents(self, features: Tensor) -> Tensor:
        """The stem's features -> the input (N, D) of the last dense layer, without dropout."""
        compute = self.tail.latents
        assert callable(compute)
        latents: Tensor = compute(features)
        return latents

    def standardize(self, pixels: Tensor) -> Tensor:
        """uint8 (N, C, H, W) -> float32 with mean 0 and standard deviation 1 over the dataset."""
        mean, std = self.get_buffer("pixel_mean"), self.get_buffer("pixel_std")
        scaled = (pixels.to(mean.device, torch.float32) - mean.view(1, -1, 1, 1)) / std.view(
            1, -1, 1, 1
        )
        return scaled.contiguous(memory_format=torch.channels_last)

    def dropouts(self) -> list[ConcreteDropout]:
        """Every dropout layer, in the order of the forward pass."""
        return [layer for layer in self.modules() if isinstance(layer, ConcreteDropout)]

    def use_generator(self, generator: torch.Generator) -> None:
        """Draw all masks from this generator from now on."""
        for layer in self.dropouts():
            layer.generator = generator

    def kl(self, length_scale: float) -> Tensor:
        """Sum of the KL terms of all learned dropout layers, a scalar; 0 if none is learned."""
        total = torch.zeros((), device=next(self.parameters()).device)
        for dropout, layer in self.masked:
            if dropout.learn:
                weight = layer.weight
                assert isinstance(weight, Tensor)
                total = total + dropout.kl(weight, length_scale)
        return total

    @contextmanager
    def sampling(self, generator: torch.Generator) -> Iterator[None]:
        """Monte Carlo Dropout: inside, dropout is random even in evaluation mode."""
        layers = self.dropouts()
        before = [layer.generator for layer in layers]
        for layer in layers:
            layer.sampling, layer.generator = True, generator
        try:
            yield
        finally:
            for layer, old in zip(layers, before, strict=True):
                layer.sampling, layer.generator = False, old

    @contextmanager
    def masks(self, masks: list[Tensor]) -> Iterator[None]:
        """One draw of the weights: inside, each dropout layer multiplies by its given mask."""
        layers = self.dropouts()
        for layer, mask in zip(layers, masks, strict=True):
            layer.mask = mask
        try:
            yield
        finally:
            for layer in layers:
                layer.mask = None


def initialize(net: nn.Module, generator: torch.Generator) -> None:
    """He initialization of every convolution and dense layer, from ``generator`` alone.

    s, the last output of the last layer, starts small and equal for all images, so that every
    difference between images in it was learned.
    """
    last = None
    with torch.no_grad():
        for layer in net.modules():
            if isinstance(layer, nn.Conv2d):
                fan_in = layer.weight[0].numel()
            elif isinstance(layer, nn.Linear):
                fan_in = layer.in_features
            else:
                continue
            noise = torch.randn(layer.weight.shape, generator=generator)
            layer.weight.copy_(noise * (2 / fan_in) ** 0.5)
            if layer.bias is not None:
                layer.bias.zero_()
            last = layer
        if last is not None and last.bias is not None:
            last.weight[-1].zero_()
            last.bias[-1].fill_(_INITIAL_LOG_VARIANCE)
