"""A program that runs the quickest study; it waits for a word before each step it reports.

Called with the study's folder; the cache is beside it.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

from study_data import QUICK, small_digits

from surelabel.engines import member_training
from surelabel.selftraining.events import Event, RoundFinished, RoundProgress
from surelabel.workflows.label import Listeners
from surelabel_studies.mnist.study import run_study


def wait(what: str) -> None:
    print(what, flush=True)
    sys.stdin.readline()


def on_event(event: Event) -> None:
    if isinstance(event, RoundProgress | RoundFinished):
        wait(type(event).__name__)


@contextlib.contextmanager
def announce(name: str) -> Iterator[Listeners]:
    wait(f"row {name}")
    yield Listeners(on_event=on_event)


if __name__ == "__main__":
    member_training.CHECKPOINT_SECONDS = 0.0
    run_study(QUICK, small_digits(), Path(sys.argv[1]), announce)
