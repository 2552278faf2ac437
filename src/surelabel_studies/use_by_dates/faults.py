"""What keeps a date from being read, and how hard each fault makes it.

Every fault has a difficulty from 0 (none) to 1; .5 is where people stop being able to read. The
difficulty of a photograph is the Euclidean norm of its faults' difficulties: below .5 it counts
as readable, from .5 on as unreadable. Most are plainly one or the other, and both sides come close
to the boundary.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from enum import StrEnum

import numpy as np

from surelabel_studies.use_by_dates.sets import Category, Like

BOUNDARY = 0.5


class Fault(StrEnum):
    """The faults, each drawn in proportion to its difficulty."""

    FOLD = "fold"
    """A crease swallows part of the print."""
    GLARE = "glare"
    """A lamp's reflection on film."""
    FADING = "fading"
    """Ink that ran out or rubbed off."""
    OCCLUSION = "occlusion"
    """Something lies over the date."""
    BLUR = "blur"
    """Out of focus."""
    LOW_LIGHT = "low_light"
    """Dark, and therefore noisy."""
    MOTION = "motion"
    """The camera or the belt moved."""
    MOISTURE = "moisture"
    """Condensation and drops."""


Difficulties = Mapping[Fault, float]

_GOOD_PHOTOGRAPHS = (Like.SET2, Like.SET3)


def total(difficulties: Difficulties) -> float:
    """The difficulty of the photograph."""
    return math.sqrt(sum(d * d for d in difficulties.values()))


def draw_difficulties(
    rng: np.random.Generator, category: Category, like: Like, weights: Difficulties
) -> dict[Fault, float]:
    """One to three faults of a location, as hard together as ``category`` asks for."""
    if category is Category.UNREADABLE:
        together = BOUNDARY + (1 - BOUNDARY) * float(rng.beta(1.6, 1.1))
    else:
        calm = 4.5 if like in _GOOD_PHOTOGRAPHS else 2.2
        together = 0.995 * BOUNDARY * float(rng.beta(1.1, calm))
    n = int(rng.choice([1, 2, 3], p=[0.5, 0.35, 0.15]))
    odds = np.array([weights.get(fault, 1.0) for fault in Fault])
    chosen = rng.choice(len(odds), n, replace=False, p=odds / odds.sum())
    shares = rng.dirichlet(np.full(n, 0.8))
    parts = np.sqrt(shares / shares.sum()) * together
    drawn = dict.fromkeys(Fault, 0.0)
    for which, part in zip(chosen.tolist(), parts.tolist(), strict=True):
        drawn[list(Fault)[which]] = part
    return drawn
