"""One trainer at a time: a lock that the operating system takes back when its holder dies."""

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
    """Hold the lock file ``path`` for the block, or say at once which process holds it.

    The file stays; only the lock on it comes and goes. Its text is the holder's process id.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.read(descriptor, 32)
        os.close(descriptor)
        raise RunLockedError(_sentence(path.parent, holder)) from None
    _held.add(descriptor)
    try:
        _write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        if descriptor in _held:
            _write(descriptor, b"")
            _held.discard(descriptor)
            os.close(descriptor)


def _write(descriptor: int, text: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)


def _sentence(run: Path, holder: bytes) -> str:
    pid = holder.decode(errors="replace").strip()
    who = f"Process {pid}" if pid.isdigit() else "Another process"
    return f"{who} is training {run}: wait until it ends, or stop it and call surelabel resume."


def _let_go_after_fork() -> None:
    """A forked worker that outlives its killed parent must not keep the parent's lock."""
    for descriptor in _held:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_let_go_after_fork)
