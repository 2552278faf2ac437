"""The process that trains while people review: ``python -m surelabel.review.worker RUN SEQ``.

Each line on standard output is one JSON object about how far it is.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from surelabel.errors import SurelabelError
from surelabel.messages.run import reason_text
from surelabel.report.page import report_at_end
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.events import Event, RoundFinished, RoundProgress, RoundStarted
from surelabel.types import Progress
from surelabel.workflows.label import Listeners, train


def main(path: Path, upto: int) -> int:
    """Train the run at ``path`` with the answers up to number ``upto``; returns the exit code."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        listeners = Listeners(_on_progress, _on_event)
        reason = train(RunFolder.open(path), listeners, upto=upto)
        tell(state="running", text="Writing the report", done=0, total=1)
        report_at_end(RunFolder.open(path))
        tell(state="finished", text=f"Training ended: {reason_text(reason)}.")
    except SurelabelError as error:
        tell(state="failed", text=str(error))
        return error.exit_code
    except KeyboardInterrupt:
        tell(state="stopped", text="Training was stopped. Nothing is lost: it can go on later.")
        return 130
    return 0


def tell(**values: Any) -> None:
    """One line; when nobody listens any more, training goes on all the same."""
    try:
        sys.stdout.write(f"{json.dumps(values)}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _on_progress(progress: Progress) -> None:
    tell(state="running", text=progress.what.capitalize(), done=progress.done, total=progress.total)


def _on_event(event: Event) -> None:
    if isinstance(event, RoundStarted):
        text = f"Round {event.number}: learning from {event.n_human:,} labels by people"
        tell(state="running", text=text, done=0, total=1)
    elif isinstance(event, RoundProgress):
        done, total = event.progress.done, event.progress.total
        text = f"Round {event.number}: {event.progress.what}"
        tell(state="running", text=text, done=done, total=total)
    elif isinstance(event, RoundFinished):
        m = event.metrics
        text = f"Round {m.number}: {m.n_accepted:,} labeled, {m.n_left:,} left"
        tell(state="round", text=text, done=1, total=1)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
