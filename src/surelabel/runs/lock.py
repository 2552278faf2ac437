"""One training process at a time: a lock that the operating system frees when its holder dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from surelabel.errors import RunLockedError

_held: set[int] = set()


@contextlib.contextmanager
def run_lock(path: Path) -> Iterator[None]:
    """Hold the lock on the file ``path``; ``RunLockedError`` at once if another process has it.

    The file itself stays. Its text is the process id of the holder.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 32)
        os.close(descriptor)
        raise RunLockedError(_message(path.parent, holder)) from None
    _held.add(descriptor)
    try:
        _write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        if descriptor in _held:
            _write(descriptor, b"")
            _held.discard(descriptor)
            os.close(descriptor)


def is_locked(path: Path) -> bool:
    """Whether some process holds the lock on the file ``path``.

    The lock is not touched unless the file names a process that lives: a process that is about to
    take it must not find it taken.
    """
    holder = path.read_text(errors="replace").strip() if path.exists() else ""
    if not holder.isdigit() or not _lives(int(holder)):
        return False
    try:
        with run_lock(path):
            return False
    except RunLockedError:
        return True


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _write(descriptor: int, text: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)


def _message(run: Path, holder: bytes) -> str:
    pid = holder.decode(errors="replace").strip()
    who = f"Process {pid}" if pid.isdigit() else "Another process"
    return f"{who} is training {run}: wait until it ends, or stop it and call surelabel resume."


def _release_after_fork() -> None:
    """Release the lock in a forked worker: it may outlive its parent, the holder."""
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_release_after_fork)
