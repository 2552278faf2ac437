"""The next rounds, in a process of their own, while people go on reviewing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from surelabel.errors import RunLockedError


@dataclass(frozen=True)
class Status:
    """How the training is: ``idle``, ``running``, ``finished``, ``stopped`` or ``failed``."""

    state: str = "idle"
    text: str = ""
    done: int = 0
    total: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


class Trainer:
    """Starts the worker, and hears what it says.

    ``on_status`` is called from a thread with each change; ``on_round`` after each finished round
    and at the end.
    """

    def __init__(
        self, run: Path, on_status: Callable[[Status], None], on_round: Callable[[], None]
    ) -> None:
        self._run, self._on_status, self._on_round = run, on_status, on_round
        self._process: subprocess.Popen[str] | None = None
        self._listener: threading.Thread | None = None
        self._lock = threading.Lock()
        self._stopping = False
        self.status = Status()

    @property
    def running(self) -> bool:
        """Whether the worker is at work."""
        return self._process is not None and self._process.poll() is None

    def start(self, upto: int) -> Status:
        """Train with the answers up to number ``upto``; ``RunLockedError`` if it does already."""
        with self._lock:
            if self.running:
                raise RunLockedError("Training is under way already.")
            program = [sys.executable, "-m", "surelabel.review.worker"]
            process = subprocess.Popen(
                [*program, str(self._run), str(upto)],
                stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            self._process, self._stopping = process, False
            self._set(Status("running", "Starting"))
            self._listener = threading.Thread(target=self._listen, args=(process,), daemon=True)
            self._listener.start()
        return self.status

    def stop(self) -> None:
        """Ask the worker to stop, as ctrl-C would; what it learned so far is kept."""
        if self._process is not None and self.running and not self._stopping:
            self._stopping = True
            self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        """Stop the worker and wait for it: the server ends."""
        self.stop()
        if self._process is not None:
            try:
                self._process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._listener is not None:
            self._listener.join(timeout=5)

    def _listen(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        last = Status()
        with process.stdout as lines:
            for line in lines:
                last = self._hear(line) or last
        code = process.wait()
        if last.state in {"idle", "running"}:
            text = f"Training ended unexpectedly (code {code}). The terminal says more."
            stopped = Status("stopped", "Training was stopped.")
            self._set(stopped if self._stopping else Status("failed", text))
        self._on_round()

    def _hear(self, line: str) -> Status | None:
        try:
            said = Status(**json.loads(line))
        except (ValueError, TypeError):
            return None
        if said.state == "round":
            said = Status("running", said.text, said.done, said.total)
            self._on_round()
        self._set(said)
        return said

    def _set(self, status: Status) -> None:
        self.status = status
        self._on_status(status)
