"""Training while people review: a process of its own runs the next rounds and reports progress.

``TrainingProcess`` is the server's side. It starts ``python -m surelabel.review.training RUN SEQ``,
whose ``main`` is at the end of this file. In place of the number, ``prepare`` computes what the
training will need while people give first labels, and ``embed`` which images are similar, and the
map. The two talk in one direction only: each line that the process prints is one ``Status`` as
JSON.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from surelabel.errors import OUT_OF_MEMORY, RunLockedError, SurelabelError, is_out_of_memory
from surelabel.runs.folder import LOCK, RunFolder
from surelabel.runs.lock import is_locked
from surelabel.selftraining.events import Event, RoundFinished, RoundProgress, RoundStarted
from surelabel.types import Progress

_STOP_SECONDS = 20.0
_PREPARE = "prepare"
_EMBED = "embed"
_NAMES = {_PREPARE: "The preparation", _EMBED: "Drawing the map"}
# A process in a group of its own is not interrupted with the server. Windows can interrupt such a
# process only by ctrl-break.
if sys.platform == "win32":
    _OWN_GROUP, _INTERRUPT = subprocess.CREATE_NEW_PROCESS_GROUP, signal.CTRL_BREAK_EVENT
else:
    _OWN_GROUP, _INTERRUPT = 0, signal.SIGINT


@dataclass(frozen=True)
class Status:
    """How the training stands.

    ``state`` is idle, running, finished, stopped or failed; between the two processes also
    round, which is running with a round just finished.
    """

    state: str = "idle"
    text: str = ""
    done: int = 0
    total: int = 0
    seconds_left: float | None = None
    """Of this part of the work, at the speed so far."""

    def to_json(self) -> dict[str, object]:
        """Plain values."""
        return asdict(self)


class TrainingProcess:
    """Starts and stops the training process and follows its progress.

    ``on_status`` is called from a thread with each change; ``on_round`` after each finished round
    and at the end.
    """

    def __init__(
        self, run: Path, on_status: Callable[[Status], None], on_round: Callable[[], None]
    ) -> None:
        self._run, self._on_status, self._on_round = run, on_status, on_round
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stopping = False
        self._closing = threading.Event()
        self.status = Status()

    @property
    def running(self) -> bool:
        """Whether the process is at work."""
        return self._process is not None and self._process.poll() is None

    def start(self, upto: int) -> Status:
        """Train with the answers up to number ``upto``; ``RunLockedError`` if it runs already."""
        return self._start(str(upto))

    def prepare(self) -> Status:
        """Compute what the first training needs, and draw the images to ask about first."""
        return self._start(_PREPARE)

    def embed(self) -> Status:
        """Compute which images are similar, and the map."""
        return self._start(_EMBED)

    def follow_another(self) -> None:
        """Training goes on that an earlier server began: wait for its end."""
        if self.running or not is_locked(self._run / LOCK):
            return
        self._set(Status("running", "Training goes on; an earlier server began it"))
        self._reader = threading.Thread(target=self._await_other, daemon=True)
        self._reader.start()

    def _await_other(self) -> None:
        while is_locked(self._run / LOCK):
            if self._closing.wait(1.0):
                return
        self._set(Status("finished", "Training has ended."))
        self._on_round()

    def _start(self, what: str) -> Status:
        with self._lock:
            if self.running:
                raise RunLockedError("Training is already running.")
            # -P: a queue.py beside somebody's photographs is not a module of ours.
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "surelabel.review.training", str(self._run), what],
                stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                text=True,
                encoding="utf-8",
                start_new_session=True,
                creationflags=_OWN_GROUP,
            )
            self._process, self._stopping = process, False
            self._set(Status("running", "Starting"))
            name = _NAMES.get(what, "Training")
            self._reader = threading.Thread(target=self._follow, args=(process, name), daemon=True)
            self._reader.start()
        return self.status

    def stop(self) -> None:
        """Ask the process to stop, as ctrl-C would; finished rounds are kept."""
        if self._process is not None and self.running and not self._stopping:
            self._stopping = True
            self._process.send_signal(_INTERRUPT)

    def close(self) -> None:
        """Stop the process and wait for it, because the server ends."""
        self._closing.set()
        self.stop()
        if self._process is not None:
            try:
                self._process.wait(timeout=_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._reader is not None:
            self._reader.join(timeout=5)

    def _follow(self, process: subprocess.Popen[str], name: str) -> None:
        """Read the process's lines until it ends, and make sure that its end has a status.

        The end is told when the process is gone: before that, the next could not be started.
        """
        assert process.stdout is not None
        last = Status()
        with process.stdout as lines:
            for line in lines:
                last = self._read(line) or last
        code = process.wait()
        if last.state in {"idle", "running"}:
            text = f"{name} ended unexpectedly (exit code {code}). The terminal shows more."
            stopped = Status("stopped", f"{name} was stopped.")
            last = stopped if self._stopping else Status("failed", text)
        self._set(last)
        self._on_round()

    def _read(self, line: str) -> Status | None:
        try:
            status = Status(**json.loads(line))
        except (ValueError, TypeError):
            return None
        if status.state == "round":
            status = replace(status, state="running")
            self._on_round()
        if status.state == "running":
            self._set(status)
        return status

    def _set(self, status: Status) -> None:
        self.status = status
        self._on_status(status)


def main(path: Path, what: str) -> int:
    """The process: prepare the run at ``path``, or train it with the answers up to a number."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if sys.platform == "win32":
        signal.signal(signal.SIGBREAK, signal.default_int_handler)
    try:
        if what == _PREPARE:
            _prepare(path)
        elif what == _EMBED:
            _embed(path)
        else:
            _train(path, int(what))
    except SurelabelError as error:
        print_status(Status("failed", str(error)))
        return error.exit_code
    except KeyboardInterrupt:
        name = _NAMES.get(what, "Training")
        print_status(Status("stopped", f"{name} was stopped. Nothing is lost."))
        return 130
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        print_status(Status("failed", f"{OUT_OF_MEMORY} Finished rounds are kept."))
        return 1
    return 0


def _prepare(path: Path) -> None:
    from surelabel.workflows.first_labels import draw_first_images

    draw_first_images(RunFolder.open(path), _Reporter().on_progress)
    print_status(Status("finished", "Everything is prepared for the first training."))


def _embed(path: Path) -> None:
    from surelabel.workflows.embedding import embed

    if sys.platform != "win32":
        os.nice(5)  # somebody is labeling meanwhile; with 10 a busy machine would never draw it
    embed(RunFolder.open(path), _Reporter().on_progress)
    print_status(Status("finished", "The map is drawn."))


def _train(path: Path, upto: int) -> None:
    from surelabel.messages.run import finished_sentence
    from surelabel.report.page import report_at_end
    from surelabel.workflows.label import Listeners, train

    reporter = _Reporter()
    listeners = Listeners(reporter.on_progress, reporter.on_event)
    reason = train(RunFolder.open(path), listeners, upto=upto)
    print_status(Status("running", "Writing the report", 0, 1))
    report_at_end(RunFolder.open(path))
    print_status(Status("finished", finished_sentence(reason)))


def print_status(status: Status) -> None:
    """Print one line. If the server is gone, training goes on all the same."""
    try:
        sys.stdout.write(f"{json.dumps(status.to_json())}\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Reporter:
    """Prints progress, with the time that is left of the work under way."""

    def __init__(self) -> None:
        self._text, self._began, self._first = "", 0.0, 0

    def on_progress(self, progress: Progress) -> None:
        """A step before the rounds is so far."""
        self._print(progress.what[:1].upper() + progress.what[1:], progress)

    def on_event(self, event: Event) -> None:
        """Something happened in a round."""
        if isinstance(event, RoundStarted):
            text = f"Round {event.number}: learning from {event.n_human:,} labels by people"
            print_status(Status("running", text, 0, 1))
        elif isinstance(event, RoundProgress):
            self._print(f"Round {event.number}: {event.progress.what}", event.progress)
        elif isinstance(event, RoundFinished):
            m = event.metrics
            text = f"Round {m.number}: {m.n_accepted:,} labeled, {m.n_left:,} left unlabeled"
            print_status(Status("round", text, 1, 1))

    def _print(self, text: str, progress: Progress) -> None:
        now = time.monotonic()
        if text != self._text:
            self._text, self._began, self._first = text, now, progress.done
        n = progress.done - self._first
        left = (now - self._began) / n * (progress.total - progress.done) if n > 0 else None
        print_status(Status("running", text, progress.done, progress.total, left))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
