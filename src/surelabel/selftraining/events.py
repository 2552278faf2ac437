"""What a run reports while it works, as typed events. Printing them is up to the listener."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import Progress, StopReason


@dataclass(frozen=True)
class RoundStarted:
    """A round begins: its number, and how many labels of each kind it learns from."""

    number: int
    n_human: int
    n_pseudo: int
    n_pool: int


@dataclass(frozen=True)
class RoundProgress:
    """How far the current step is."""

    number: int
    progress: Progress


@dataclass(frozen=True)
class RoundFinished:
    """A round is on disk."""

    metrics: RoundMetrics


@dataclass(frozen=True)
class RunFinished:
    """Self-training ended, and why."""

    reason: StopReason
    n_rounds: int


@dataclass(frozen=True)
class Advice:
    """A sentence that the user should read."""

    text: str


Event: TypeAlias = Advice | RoundStarted | RoundProgress | RoundFinished | RunFinished
OnEvent: TypeAlias = Callable[[Event], None]


def no_events(_: Event) -> None:
    """A listener that ignores everything."""
