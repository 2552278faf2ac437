"""One training process at a time: a lock that the operating system frees when its holder dies."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from surelabel.errors import RunLockedError
from surelabel.files.locks import LockHeldError, acquire, locked, release

_PROBE_SECONDS = 0.5
"""How long a holder waits for the lock: somebody may be trying whether it is held."""


@contextlib.contextmanager
def run_lock(path: Path) -> Iterator[None]:
    """Hold the lock file ``path``; ``RunLockedError`` if another process has it.

    The file stays. While it is held, the process id of the holder is in a file beside it.
    """
    try:
        lock = acquire(path, wait=_PROBE_SECONDS)
    except LockHeldError:
        raise RunLockedError(_message(path)) from None
    holder = holder_file(path)
    try:
        holder.write_text(f"{os.getpid()}\n", encoding="ascii")
        yield
    finally:
        holder.unlink(missing_ok=True)
        release(lock, keep=True)


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock file ``path``."""
    if not holder_file(path).exists():
        return False
    try:
        with locked(path, wait=0.0):
            return False
    except LockHeldError:
        return True


def holder_file(path: Path) -> Path:
    """Where the process id of the holder is written; it may be of one that was killed."""
    return path.with_name(f"{path.name}.pid")


def _message(path: Path) -> str:
    try:
        pid = holder_file(path).read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        pid = ""
    who = f"Process {pid}" if pid.isdigit() else "Another process"
    run = path.parent
    return f"{who} is training {run}: wait until it ends, or stop it and call surelabel resume."
