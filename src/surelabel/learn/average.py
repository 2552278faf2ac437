"""Averaged weights: a slow copy of the net that is steadier than the net itself."""

from __future__ import annotations

import torch

from surelabel.nets.bayesian import BayesianNet


def follow(average: BayesianNet, net: BayesianNet, decay: float, step: int) -> None:
    """Move ``average`` towards ``net``; early on it moves faster, so the start is forgotten."""
    rate = 1 - min(decay, (1 + step) / (10 + step))
    with torch.no_grad():
        old = [*average.parameters(), *average.buffers()]
        new = [*net.parameters(), *net.buffers()]
        floats = [(a, b) for a, b in zip(old, new, strict=True) if a.is_floating_point()]
        torch._foreach_lerp_([a for a, _ in floats], [b for _, b in floats], rate)
        for a, b in zip(old, new, strict=True):
            if not a.is_floating_point():
                a.copy_(b)
