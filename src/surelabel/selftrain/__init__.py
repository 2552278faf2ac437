"""Algorithm 1: state, one round, the runner, typed events."""

from surelabel.selftrain.events import (
    Advice,
    Event,
    OnEvent,
    RoundFinished,
    RoundProgress,
    RoundStarted,
    RunFinished,
    no_events,
)
from surelabel.selftrain.learner import Learner, Lesson, Problem
from surelabel.selftrain.lessons import lesson_from
from surelabel.selftrain.metrics import RoundMetrics
from surelabel.selftrain.round import RUNNERS_UP, RoundOutcome, run_round
from surelabel.selftrain.runner import RoundStore, self_train
from surelabel.selftrain.stopping import stop_reason

__all__ = [
    "RUNNERS_UP",
    "Advice",
    "Event",
    "Learner",
    "Lesson",
    "OnEvent",
    "Problem",
    "RoundFinished",
    "RoundMetrics",
    "RoundOutcome",
    "RoundProgress",
    "RoundStarted",
    "RoundStore",
    "RunFinished",
    "lesson_from",
    "no_events",
    "run_round",
    "self_train",
    "stop_reason",
]
