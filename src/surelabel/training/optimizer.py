"""The optimizer, and the learning rate as a pure function of the step.

Because the rate depends on nothing but the step, a resumed run continues exactly.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from surelabel.config.choices import Optimizer, Schedule, Tail
from surelabel.config.settings import Config
from surelabel.models.backbones import is_pretrained

_WARM_UP = 0.1
"""Share of the steps over which one cycle climbs to its peak."""


def build_optimizer(net: nn.Module, config: Config) -> torch.optim.Optimizer:
    """SGD or AdamW; weight decay applies to matrices and filters only.

    Biases, norms and dropout logits do not decay.
    """
    trained = [p for p in net.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in trained if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in trained if p.ndim <= 1], "weight_decay": 0.0},
    ]
    if config.optimizer is Optimizer.ADAM:
        return torch.optim.AdamW(groups, lr=1e-3)
    return torch.optim.SGD(groups, lr=0.1, momentum=0.9, nesterov=True)


def peak_learning_rate(config: Config) -> float:
    """The highest learning rate: the configured one, or what suits the optimizer and the net.

    A tail on frozen features has no norm between them and its weights, and little to learn; the
    tail detail has both.
    """
    if config.learning_rate:
        return config.learning_rate
    if config.optimizer is not Optimizer.SGD:
        return 0.001
    if not is_pretrained(config.net):
        return 0.1
    return 0.05 if config.tail is Tail.DETAIL else 0.01


def learning_rate(schedule: Schedule, peak: float, step: int, n_steps: int) -> float:
    """The learning rate of ``step``, counted from 0, out of ``n_steps``.

    STEP divides by ten at one half and at three quarters of the steps. ONE_CYCLE climbs linearly
    from peak / 10, then falls along a cosine to peak / 1000.
    """
    done = step / max(1, n_steps)
    if schedule is Schedule.CONSTANT:
        return peak
    if schedule is Schedule.STEP:
        return peak * (1.0 if done < 0.5 else 0.1 if done < 0.75 else 0.01)
    if done < _WARM_UP:
        return peak * (0.1 + 0.9 * done / _WARM_UP)
    fall = (done - _WARM_UP) / (1 - _WARM_UP)
    return peak * (0.001 + 0.999 * (1 + math.cos(math.pi * fall)) / 2)
