"""A connection to an SQLite file that stays open, so that a question costs microseconds."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from surelabel.errors import RunDamagedError, RunError

_BUSY_SECONDS = 60.0


class KeptConnection:
    """One connection to the file of answers, for one thread at a time.

    It is opened at its first use, and again where the file is no longer the same one: somebody may
    put back a copy while a server runs. It is not kept where the folder cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self.file: tuple[int, ...] = ()
        """Which file is open; see ``_identity``."""

    def __del__(self) -> None:
        self._close()

    @contextlib.contextmanager
    def use(self) -> Iterator[sqlite3.Connection]:
        """The connection; errors of SQLite become those that users see."""
        with self._lock:
            keep = True
            try:
                mode = self._mode()
                keep = mode == "rw"
                if self._connection is None or self.file != self._identity():
                    self._open(mode)
                assert self._connection is not None
                yield self._connection
            except sqlite3.OperationalError as error:
                keep = False
                raise RunError(f"{self.path}: the answers cannot be used ({error}).") from error
            except (sqlite3.DatabaseError, UnicodeDecodeError, OverflowError) as error:
                keep = False
                raise RunDamagedError(
                    f"{self.path} is damaged ({error}). Put back a copy of it, which surelabel "
                    f"backup makes; surelabel doctor {self.path.parent} says what else is damaged."
                ) from error
            finally:
                if not keep:
                    self._close()

    def close(self) -> None:
        """Close the connection; the next use opens another."""
        with self._lock:
            self._close()

    def check_file(self) -> None:
        """``RunError`` if the file that was written to is no longer at its place."""
        if self.file != self._identity():
            raise RunError(
                f"{self.path} was replaced while an answer was stored: give the answer again."
            )

    def _open(self, mode: str) -> None:
        self._close()
        self.file = self._identity()
        uri = f"{self.path.absolute().as_uri()}?mode={mode}"
        self._connection = sqlite3.connect(
            uri, uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
        )
        self._connection.execute("PRAGMA synchronous = FULL")

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()

    def _identity(self) -> tuple[int, ...]:
        """Tells one file at this path, used by one process, from another."""
        try:
            facts = self.path.stat()
        except FileNotFoundError:
            raise RunDamagedError(f"{self.path} is missing: it holds people's answers.") from None
        return facts.st_dev, facts.st_ino, os.getpid()

    def _mode(self) -> str:
        """Read-only where the folder cannot be written to and no journal has to be replayed."""
        if os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK):
            return "rw"
        journal = self.path.with_name(f"{self.path.name}-wal")
        try:
            waits = journal.stat().st_size > 0
        except FileNotFoundError:  # the last connection to close deletes it
            waits = False
        return "rw" if waits else "ro&immutable=1"
