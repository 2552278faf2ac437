"""The learning rate as a pure function of the step, so that a resumed run continues exactly."""

from __future__ import annotations

import math

from surelabel.config.choices import Optimizer, Schedule
from surelabel.config.settings import Config
from surelabel.models.backbones import is_pretrained

_WARM_UP = 0.1


def peak_rate(config: Config) -> float:
    """The highest learning rate: as asked for, or what suits optimizer and net.

    A tail on frozen features has no norm between them and its weights, and little to learn.
    """
    if config.learning_rate:
        return config.learning_rate
    if config.optimizer is not Optimizer.SGD:
        return 0.001
    return 0.01 if is_pretrained(config.net) else 0.1


def learning_rate(schedule: Schedule, peak: float, step: int, n_steps: int) -> float:
    """The rate of ``step`` (from 0) out of ``n_steps``."""
    done = step / max(1, n_steps)
    if schedule is Schedule.CONSTANT:
        return peak
    if schedule is Schedule.STEP:
        return peak * (1.0 if done < 0.5 else 0.1 if done < 0.75 else 0.01)
    if done < _WARM_UP:
        return peak * (0.1 + 0.9 * done / _WARM_UP)
    fall = (done - _WARM_UP) / (1 - _WARM_UP)
    return peak * (0.001 + 0.999 * (1 + math.cos(math.pi * fall)) / 2)
