"""Decoded images on disk: written once, mapped into memory by every reader."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from surelabel.errors import InputError
from surelabel.types import BoolArray, Ids, IntArray

Pixels: TypeAlias = npt.NDArray[np.uint8]

_SCHEMA = "CREATE TABLE IF NOT EXISTS pixels (digest TEXT PRIMARY KEY, row INTEGER) WITHOUT ROWID"
_DIGEST = "S32"


class PixelStore:
    """Images of one size by content digest: ``pixels.u8`` and an SQLite index digest -> row.

    The file only grows. Pixels reach the disk before the transaction that indexes them, so a
    program killed anywhere leaves at most an unindexed tail, which the next writer overwrites.
    Writers take turns by a file lock; readers wait for nobody.
    """

    def __init__(self, cache: Path, size: int, channels: int) -> None:
        self.size, self.channels = size, channels
        self.folder = Path(cache) / f"pixels-{size}x{size}x{channels}"
        self._file = self.folder / "pixels.u8"
        self._index = self.folder / "index.sqlite"
        self._row_bytes = size * size * channels
        self._digests: npt.NDArray[np.bytes_] = np.empty(0, dtype=_DIGEST)
        self._rows: IntArray = np.empty(0, dtype=np.int64)
        self._map: Pixels = np.empty((0, size, size, channels), dtype=np.uint8)

    def missing(self, digests: Ids) -> Ids:
        """The distinct ``digests`` that are not stored, in the order of their first use."""
        unique, first = np.unique(np.asarray(digests, dtype=np.str_), return_index=True)
        _, known = self._locate(unique)
        return unique[~known][np.argsort(first[~known])]

    def add(self, digests: Ids, pixels: Pixels) -> None:
        """Store ``pixels`` (N, S, S, C) under ``digests``; those already stored stay."""
        wanted = (len(digests), self.size, self.size, self.channels)
        if pixels.shape != wanted or pixels.dtype != np.uint8:
            raise ValueError(f"pixels are {pixels.dtype} {pixels.shape}, not uint8 {wanted}")
        if any(len(digest) != 32 for digest in digests):
            raise ValueError("a digest is not 32 hexadecimal digits")
        with self._writing() as database:
            names, first = np.unique(np.asarray(digests, dtype=np.str_), return_index=True)
            stored = {digest for digest, _ in _look_up(database, names)}
            fresh = [(str(n), int(f)) for n, f in zip(names, first, strict=True) if n not in stored]
            fresh.sort(key=lambda pair: pair[1])
            (end,) = database.execute("SELECT coalesce(max(row) + 1, 0) FROM pixels").fetchone()
            self._append(end, pixels[[position for _, position in fresh]])
            with database:
                database.executemany(
                    "INSERT INTO pixels VALUES (?, ?)",
                    [(digest, end + i) for i, (digest, _) in enumerate(fresh)],
                )

    def gather(self, digests: Ids) -> Pixels:
        """(N, S, S, C) pixels of ``digests``, in that order."""
        rows, known = self._locate(np.asarray(digests, dtype=np.str_))
        if not known.all():
            raise InputError(
                f"{self.folder} lacks the pixels of {int((~known).sum())} images: the cache was "
                "emptied or belongs to another machine. Let the images be read again."
            )
        if not len(rows):
            return np.empty((0, self.size, self.size, self.channels), dtype=np.uint8)
        self._remap(int(rows.max()) + 1)
        if rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            return np.array(self._map[rows[0] : rows[-1] + 1])
        return np.asarray(self._map[rows])

    def _locate(self, digests: Ids) -> tuple[IntArray, BoolArray]:
        """(N,) rows in the file, and (N,) whether they are there at all."""
        wanted = digests.astype(_DIGEST) if len(digests) else np.empty(0, dtype=_DIGEST)
        rows, known = self._recall(wanted)
        if not known.all():
            self._learn(np.unique(wanted[~known]).astype(np.str_))
            rows, known = self._recall(wanted)
        return rows, known

    def _recall(self, wanted: npt.NDArray[np.bytes_]) -> tuple[IntArray, BoolArray]:
        if not len(self._digests):
            return np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
        at = np.minimum(np.searchsorted(self._digests, wanted), len(self._digests) - 1)
        return self._rows[at], self._digests[at] == wanted

    def _learn(self, digests: Ids) -> None:
        """Look ``digests`` up in the index and remember where they are."""
        if not self._index.exists():
            return
        whole = self._file.stat().st_size // self._row_bytes if self._file.exists() else 0
        with self._reading() as database:
            found = [pair for pair in _look_up(database, digests) if pair[1] < whole]
        names = np.array([digest for digest, _ in found], dtype=_DIGEST)
        rows = np.array([row for _, row in found], dtype=np.int64)
        names, rows = np.concatenate([self._digests, names]), np.concatenate([self._rows, rows])
        order = np.argsort(names)
        self._digests, self._rows = names[order], rows[order]

    def _remap(self, n_rows: int) -> None:
        if len(self._map) < n_rows:
            n_rows = self._file.stat().st_size // self._row_bytes
            shape = (n_rows, self.size, self.size, self.channels)
            self._map = np.memmap(self._file, dtype=np.uint8, mode="r", shape=shape)

    def _append(self, row: int, pixels: Pixels) -> None:
        with os.fdopen(os.open(self._file, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as file:
            file.seek(row * self._row_bytes)
            np.ascontiguousarray(pixels).tofile(file)
            file.flush()
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self._index, timeout=60)
        try:
            yield database
        except sqlite3.DatabaseError as error:
            raise self._damaged(error) from error
        finally:
            database.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """The index, ready for one writer; rows that the file lost are forgotten first."""
        with self._explained():
            self.folder.mkdir(parents=True, exist_ok=True)
        with self._explained(), (self.folder / "lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with self._reading() as database:
                database.execute("PRAGMA synchronous = FULL")
                whole = self._file.stat().st_size // self._row_bytes if self._file.exists() else 0
                with database:
                    database.execute(_SCHEMA)
                    database.execute("DELETE FROM pixels WHERE row >= ?", (whole,))
                yield database

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"Decoded images cannot be written to {self.folder}: {error.strerror}. Make room "
                "there, or name another folder with --cache or SURELABEL_CACHE."
            ) from error

    def _damaged(self, error: sqlite3.DatabaseError) -> InputError:
        if isinstance(error, sqlite3.OperationalError):
            return InputError(
                f"{self._index} cannot be used now ({error}). Is the disk full, or another "
                "program at work on it? Try again, or name another folder with --cache."
            )
        return InputError(
            f"{self._index} cannot be used ({error}). It holds nothing but decoded images: "
            f"delete the folder {self.folder} and start again."
        )


def _look_up(database: sqlite3.Connection, digests: Ids) -> list[tuple[str, int]]:
    if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'pixels'").fetchone():
        return []
    query = "SELECT digest, row FROM pixels WHERE digest IN (SELECT value FROM json_each(?))"
    return database.execute(query, (json.dumps(digests.tolist()),)).fetchall()
