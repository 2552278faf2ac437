"""A program that labels, or goes on; it waits for a word before each step that it reports.

Called with the folder of photos, labels, run and cache, and the number of rounds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from workflow_data import tiny

import surelabel
from surelabel.engines import member_training
from surelabel.selftraining.events import Event, RoundFinished, RoundProgress
from surelabel.types import Progress
from surelabel.workflows.label import Listeners


def wait(what: str) -> None:
    print(what, flush=True)
    sys.stdin.readline()


def on_event(event: Event) -> None:
    if isinstance(event, RoundProgress | RoundFinished):
        wait(type(event).__name__)


def on_progress(_: Progress) -> None:
    wait("reading")


def main(place: Path, out: Path, max_rounds: int) -> None:
    member_training.CHECKPOINT_SECONDS = 0.0
    listeners = Listeners(on_progress, on_event)
    if (out / "run.json").exists():
        surelabel.resume(out, listeners)
        return
    config = tiny(place / "cache", max_rounds=max_rounds, consistency=1.0)
    surelabel.label(place / "photos", place / "labels.csv", out, config=config, listeners=listeners)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
