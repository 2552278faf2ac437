"""A file layer with faults: the program is killed, or the disk is full, at a chosen step.

Steps are everything that ``surelabel.files.atomic`` does on the disk: a file is written, forced to
disk, renamed, linked. The program runs in a forked child, so that a trial costs no new start.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import surelabel.engines.local  # noqa: F401  so that children need not import torch
from surelabel.cli.main import run as run_command
from surelabel.files import atomic

Fault = Callable[[], None]


@dataclass(frozen=True)
class Ended:
    """How a child ended, and what it printed."""

    code: int
    """The exit code; negative for the signal that killed it."""
    output: str
    n_steps: int


def kill_myself() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("a killed program goes on")


def disk_full() -> NoReturn:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def run_with_fault(
    argv: list[str], step: int, fault: Fault, *, lasting: bool = False, kill_after: float = 0.0
) -> Ended:
    """Run a command of surelabel in a child; ``fault`` happens at the ``step``-th step.

    ``lasting`` faults happen at every later step too, as on a disk that stays full. A step of -1 is
    never reached. With ``kill_after``, the child is killed after so many seconds.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_the_child(argv, step, fault, lasting, writing)
    os.close(writing)
    if kill_after:
        time.sleep(kill_after)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    _, status = os.waitpid(child, 0)
    printed, _, n_steps = text.rpartition("\x00")
    code = os.waitstatus_to_exitcode(status)
    return Ended(code, printed, int(n_steps) if n_steps.isdigit() else 0)


def _be_the_child(
    argv: list[str], step: int, fault: Fault, lasting: bool, writing: int
) -> NoReturn:
    """Run the command with a faulty disk and end the process."""
    code = 70
    try:
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w"), write_through=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w"), write_through=True)
        counter = _install(step, fault, lasting)
        code = run_command(argv)
        os.write(1, f"\x00{counter[0]}".encode())
    except BaseException as error:
        os.write(1, f"Traceback: {type(error).__name__}: {error}\n\x00".encode())
    finally:
        os._exit(code)


def _install(step: int, fault: Fault, lasting: bool) -> list[int]:
    done = [0]

    def at_a_step() -> None:
        done[0] += 1
        if step >= 0 and (done[0] == step or (lasting and done[0] > step)):
            fault()

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
