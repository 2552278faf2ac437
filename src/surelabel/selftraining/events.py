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
class TimeEstimate:
    """Before many photographs are decoded: about how long they take, and how much disk."""

    n_images: int
    reading_seconds: float
    """To decode them."""
    features_seconds: float
    """To compute their features after that."""
    n_bytes: int


@dataclass(frozen=True)
class FeaturesStarted:
    """A pre-trained net begins with many images: about how long, and how much disk it takes."""

    n_images: int
    seconds: float
    n_bytes: int
    """0 where features are not kept."""


@dataclass(frozen=True)
class FirstLook:
    """How well a head predicts the first labels, each left out once, with features of a few images.

    It tells early whether the labels can be learned; nothing depends on it.
    """

    n_labels: int
    accuracy: float
    commonest: float
    """Share of the labels that are of the commonest class: the accuracy of always guessing it."""
    n_classes: int
    n_told_apart: int
    """Classes at least half of whose labels are found, and half of whose guesses are right."""
    seconds_left: float
    """Until all features are computed."""


@dataclass(frozen=True)
class Advice:
    """A sentence that the user should read."""

    text: str


Event: TypeAlias = (
    Advice
    | TimeEstimate
    | FeaturesStarted
    | FirstLook
    | RoundStarted
    | RoundProgress
    | RoundFinished
    | RunFinished
)
OnEvent: TypeAlias = Callable[[Event], None]


def no_events(_: Event) -> None:
    """A listener that ignores everything."""
