"""A file layer with faults: the program is killed, or the disk is full, at a chosen step.

Steps are everything that ``surelabel.files.atomic`` does on the disk: a file is written, forced to
disk, renamed, linked. The program runs in a forked child, so that a trial costs no new start.
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import matplotlib.figure  # noqa: F401  this and the next ones so that children need not import them
import sympy  # type: ignore[import-untyped]  # noqa: F401  torch's optimizers import it
from PIL import Image

import surelabel.engines.local
import surelabel.report.page
import surelabel.review.server  # noqa: F401
from surelabel.cli.main import run as run_command
from surelabel.files import atomic

Image.init()
"".encode("utf-8-sig")  # a child that is somebody else may not read Python's own files any more

Fault = Callable[[], None]


@dataclass(frozen=True)
class Ended:
    """How a child ended, and what it printed."""

    code: int
    """The exit code; negative for the signal that killed it."""
    output: str
    n_steps: int


@dataclass(frozen=True)
class FaultPlan:
    """``fault`` happens at the ``step``-th step; -1 is never reached.

    ``lasting`` faults happen at every later step too, as on a disk that stays full. ``first`` is
    called in the child before the command, to limit it or change what it sees.
    """

    step: int = -1
    fault: Fault = lambda: None
    lasting: bool = False
    first: Fault = lambda: None


def kill_myself() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed program goes on")


def disk_full() -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Child:
    """A command of surelabel in a forked process, at work from the start."""

    def __init__(self, argv: list[str], plan: FaultPlan | None = None) -> None:
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            _be_the_child(argv, plan or FaultPlan(), writing)
        os.close(writing)
        self.output = os.fdopen(reading, "rb")

    def send(self, number: signal.Signals) -> None:
        """Send a signal; until ``wait``, a child that has ended still has its process id."""
        os.kill(self.pid, number)

    def wait(self, begun: bytes = b"") -> Ended:
        """Read what it prints until it ends; ``begun`` was read before."""
        with self.output as pipe:
            text = (begun + pipe.read()).decode(errors="replace")
        _, status = os.waitpid(self.pid, 0)
        printed, mark, n_steps = text.rpartition("\x00")
        code = os.waitstatus_to_exitcode(status)
        return Ended(code, printed if mark else text, int(n_steps) if n_steps.isdigit() else 0)


def run_child(argv: list[str], plan: FaultPlan | None = None) -> Ended:
    """Run a command of surelabel in a child to its end."""
    return Child(argv, plan).wait()


def _be_the_child(argv: list[str], plan: FaultPlan, writing: int) -> NoReturn:
    """Run the command with a faulty disk and end the process."""
    code = 70
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w"), write_through=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), write_through=True)
        counter = _install(plan)
        plan.first()
        code = run_command(argv)
        os.write(1, f"\x00{counter[0]}".encode())
    except BaseException as error:
        os.write(1, f"Traceback: {type(error).__name__}: {error}\n\x00".encode())
    finally:
        os._exit(code)


def _install(plan: FaultPlan) -> list[int]:
    done = [0]

    def at_a_step() -> None:
        done[0] += 1
        reached = done[0] >= plan.step if plan.lasting else done[0] == plan.step
        if plan.step >= 0 and reached:
            plan.fault()

    def before(real: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*values: Any, **named: Any) -> Any:
            at_a_step()
            return real(*values, **named)

        return wrapped

    patched: Any = atomic
    patched.fsync = before(atomic.fsync)
    patched.fsync_tree = before(atomic.fsync_tree)
    path: Any = Path
    for name in ("replace", "rename", "write_bytes", "write_text"):
        setattr(path, name, before(getattr(Path, name)))
    system: Any = os
    system.link = before(os.link)
    system.fsync = before(os.fsync)
    return done
