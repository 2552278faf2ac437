"""What a run tells while it works, as typed events. Printing them is the listener's business."""

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
    """How far the step at hand is."""

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
    """A sentence that the user had better read."""

    text: str


Event: TypeAlias = Advice | RoundStarted | RoundProgress | RoundFinished | RunFinished
OnEvent: TypeAlias = Callable[[Event], None]


def no_events(_: Event) -> None:
    """The listener that does not listen."""
