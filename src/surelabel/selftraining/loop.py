"""Algorithm 1: rounds until a stop rule holds. State is what the store holds, nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import pandas as pd

from surelabel.config.settings import Config
from surelabel.files.atomic import atomic_write_bytes
from surelabel.selftraining.events import (
    OnEvent,
    RoundFinished,
    RoundProgress,
    RoundStarted,
    RunFinished,
    no_events,
)
from surelabel.selftraining.learner import Learner
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.round import RoundOutcome, run_round
from surelabel.selftraining.round_inputs import (
    Problem,
    renumber_classes,
    round_inputs_from,
    without_labels,
)
from surelabel.selftraining.stopping import stop_reason
from surelabel.types import Progress, StopReason


class RoundStore(Protocol):
    """Where finished rounds are kept."""

    def history(self) -> Sequence[RoundMetrics]:
        """Metrics of the finished rounds, oldest first."""

    def last_pool(self) -> pd.DataFrame | None:
        """The pool table of the last finished round, or None."""

    def last_folder(self) -> Path | None:
        """The folder of the last finished round, or None."""

    def begin(self, number: int) -> Path:
        """A folder for the work of this round; the same again after a kill."""

    def commit(self, outcome: RoundOutcome) -> None:
        """Keep a finished round, wholly or not at all."""


def self_train(
    problem: Callable[[int | None], Problem],
    learner: Learner,
    store: RoundStore,
    config: Config,
    on_event: OnEvent = no_events,
) -> StopReason:
    """Run rounds until one of the stop rules holds; go on from what the store already has.

    ``problem`` is asked before each round, so labels that people gave meanwhile are used; its
    argument is the last human answer that a begun round knew of, None for all.
    """
    while True:
        history = store.history()
        number = len(history) + 1
        current = problem(None)
        reason = stop_reason(history, current.inputs, config)
        if reason is not None:
            on_event(RunFinished(reason, len(history)))
            return reason
        work_folder = store.begin(number)
        current = problem(_answers_known(work_folder, current.answers_upto))
        previous = store.last_pool()
        if previous is not None:
            previous = renumber_classes(previous, history[-1].classes, current.classes)
            if history[-1].cross_fit and not current.cross_fit:
                previous = without_labels(previous)  # its nets learned what is held out now
        # Nets that learned from other labels may have seen what is held out now.
        same = bool(history) and history[-1].inputs == current.inputs
        round_inputs = round_inputs_from(
            number,
            current,
            previous,
            store.last_folder() if same else None,
            has_outliers=bool(history) and history[-1].has_outliers,
        )
        sizes = (len(current.human_ids), len(round_inputs.pseudo_ids), len(current.pool_ids))
        on_event(RoundStarted(number, *sizes))

        def tell(progress: Progress, number: int = number) -> None:
            on_event(RoundProgress(number, progress))

        outcome = run_round(round_inputs, previous, learner, config, work_folder, tell)
        store.commit(outcome)
        on_event(RoundFinished(outcome.metrics))


def _answers_known(work_folder: Path, newest: int) -> int:
    """The last answer the round counts, fixed when it first began."""
    note = work_folder / "answers_upto"
    if note.exists():
        return int(note.read_text(encoding="utf-8"))
    atomic_write_bytes(note, str(newest).encode(), parents=False)
    return newest
