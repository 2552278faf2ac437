"""How many nets, and how many steps for each: from effort and data, never from the clock."""

from __future__ import annotations

import math

from surelabel.choices import Effort
from surelabel.config import Config

_MEMBERS = {Effort.LOW: 1, Effort.NORMAL: 2, Effort.HIGH: 4}
_STEPS = {Effort.LOW: 1500, Effort.NORMAL: 3000, Effort.HIGH: 8000}
_FULL_SIZE = 50_000
"""Images from which a run gets the whole number of steps; smaller ones need fewer."""
_SMALLEST_SHARE = 0.2
_FROM_PEOPLE_ALONE = 1.5
"""Times as many steps while no pool image has a label: all is learnt from the pool's looks."""


def n_members(config: Config, *, cross_fit: bool) -> int:
    """Nets in the ensemble; out-of-fold predictions need two at least."""
    members = config.members or _MEMBERS[config.effort]
    return max(2, members) if cross_fit else members


def n_steps(config: Config, n_images: int, n_human: int, n_machine: int) -> int:
    """Training steps of one net in one round.

    ``n_images`` are all images a step may draw, the others those with a label of people and of the
    machine: epochs are passes over them, as in the paper.
    """
    if config.steps:
        return config.steps
    if config.epochs:
        return config.epochs * math.ceil((n_human + n_machine) / config.batch_size)
    share = min(1.0, max(_SMALLEST_SHARE, math.sqrt(n_images / _FULL_SIZE)))
    looks_alone = config.consistency and not n_machine and n_images > n_human
    times = _FROM_PEOPLE_ALONE if looks_alone else 1
    return round(_STEPS[config.effort] * share * times)
