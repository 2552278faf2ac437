"""Locks between processes, on every operating system.

A lock is a file beside what it protects, held through ``filelock``: ``flock`` on Linux and macOS,
``LockFileEx`` on Windows. The system frees it when its holder dies. What is protected is never the
lock file itself, because Windows neither renames nor deletes a file that somebody has open.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filelock import BaseFileLock

FOREVER = -1.0
_POLL_SECONDS = 0.02


class LockHeldError(Exception):
    """Another holder has the lock."""


@contextlib.contextmanager
def locked(path: Path, *, wait: float = FOREVER, keep: bool = True) -> Iterator[None]:
    """Hold the lock file ``path``; ``LockHeldError`` if others hold it for ``wait`` seconds.

    A forked child does not hold it. Without ``keep`` the file is deleted at the end.
    """
    lock = acquire(path, wait=wait)
    try:
        yield
    finally:
        release(lock, keep=keep)


def acquire(path: Path, *, wait: float = FOREVER) -> BaseFileLock:
    """As ``locked``; for ``release``, in whatever thread. Its folder is not made."""
    from filelock import FileLock, Timeout

    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path.parent))
    if not path.exists():
        path.touch()  # filelock would try forever where no file can be made, as in /proc
    lock = FileLock(path, thread_local=False)
    try:
        lock.acquire(timeout=wait, poll_interval=_POLL_SECONDS)
    except Timeout:
        raise LockHeldError(str(path)) from None
    return lock


def release(lock: BaseFileLock, *, keep: bool) -> None:
    """Free the lock and, without ``keep``, delete its file unless the next holder has it."""
    lock.release()
    if not keep:
        with contextlib.suppress(OSError):
            Path(lock.lock_file).unlink()
