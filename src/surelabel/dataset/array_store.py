"""A cache of arrays on disk, written once and memory-mapped: decoded pixels and features."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from surelabel.errors import InputError
from surelabel.files.locks import locked
from surelabel.files.mapped_arrays import slices, take, zeros
from surelabel.types import BoolArray, Ids, IntArray

Pixels: TypeAlias = npt.NDArray[np.uint8]
Scalar = TypeVar("Scalar", bound=np.generic)

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS {} (digest TEXT PRIMARY KEY, row INTEGER, checksum INTEGER) "
    "WITHOUT ROWID"
)
_ROW_INDEX = "CREATE INDEX IF NOT EXISTS {0}_by_row ON {0} (row)"
_INDEX_CACHE_KB = 32_000
"""Digests come in random order, so that every page of the index is written to again and again."""
_DIGEST = "S32"
_Known: TypeAlias = tuple[npt.NDArray[np.bytes_], IntArray]
"""Digests in sorted order, and the row of each."""
_Entry: TypeAlias = tuple[str, int, int | None]
"""Digest, row, and CRC-32 of the row; None in stores of earlier versions."""


def cache_folder(option: str) -> Path:
    """The folder in the option ``cache``; the default if it is empty."""
    return Path(option).expanduser() if option else default_cache()


def default_cache() -> Path:
    """The folder in ``SURELABEL_CACHE``, else the user's cache folder of this platform."""
    folder = os.environ.get("SURELABEL_CACHE", "").strip()
    if folder:
        return Path(folder).expanduser()
    import platformdirs

    return platformdirs.user_cache_path("surelabel", appauthor=False)


def refuse_no_room(folder: Path, n_bytes: int, what: str) -> None:
    """``InputError`` where the disk of ``folder``, which may not exist yet, lacks ``n_bytes``."""
    place = next(p for p in (folder, *folder.absolute().parents) if p.exists())
    free = shutil.disk_usage(place).free
    if n_bytes > free:
        raise InputError(
            f"{what} take {bytes_text(n_bytes)} and {place} has {bytes_text(free)} left: make "
            "room, or name another folder with --cache."
        )


def bytes_text(n_bytes: int) -> str:
    """In MB or GB."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.1f} MB"


class ArrayStore(Generic[Scalar]):
    """Arrays of one shape by content digest: a file of rows, and an SQLite index of the rows.

    The file only grows. Rows reach the disk before the transaction that indexes them, so a
    program that is killed leaves at most rows without an index entry at the end of the file,
    which the next writer overwrites. Writers take turns by a file lock; readers never wait.
    Threads may share a store.

    The index holds a checksum of each row. It is compared when a program first asks for the row,
    and a row that does not fit counts as missing, so that whoever needs it makes it again.
    """

    name: ClassVar[str]
    """Of the file and of the table in the index."""
    what: ClassVar[str]
    """What is stored, for messages."""

    def __init__(
        self, folder: Path, shape: tuple[int, ...], dtype: type[Scalar], suffix: str
    ) -> None:
        self.folder, self.shape, self.dtype = folder, shape, np.dtype(dtype)
        self._file = folder / f"{self.name}.{suffix}"
        self._index = folder / "index.sqlite"
        self.row_bytes = int(np.prod(shape)) * self.dtype.itemsize
        self._known: _Known = (np.empty(0, dtype=_DIGEST), np.empty(0, dtype=np.int64))
        self._cache_lock = threading.Lock()
        self._map: npt.NDArray[Scalar] = np.empty((0, *shape), dtype=dtype)

    @property
    def file(self) -> Path:
        """The file of rows."""
        return self._file

    def bytes_for(self, n: int) -> int:
        """What ``n`` rows take beyond the file as it is, if all its rows are among them."""
        there = self._file.stat().st_size if self._file.exists() else 0
        return max(0, n * self.row_bytes - there)

    def missing(self, digests: Ids) -> Ids:
        """The distinct ``digests`` that are not stored, in the order of their first use."""
        _, known = self._locate(digests)
        unknown = np.asarray(take(digests, ~known) if known.any() else digests, dtype=np.str_)
        _, first = np.unique(_as_bytes(unknown), return_index=True)
        return unknown if len(first) == len(unknown) else take(unknown, np.sort(first))

    def add(self, digests: Ids, arrays: npt.NDArray[Scalar]) -> None:
        """Store ``arrays`` (N, ...) under ``digests``; those already stored stay."""
        wanted = (len(digests), *self.shape)
        if arrays.shape != wanted or arrays.dtype != self.dtype:
            raise ValueError(
                f"{self.name} are {arrays.dtype} {arrays.shape}, not {self.dtype} {wanted}"
            )
        if any(len(digest) != 32 for digest in digests):
            raise ValueError("a digest is not 32 hexadecimal digits")
        with self._writing() as database:
            names, first = np.unique(np.asarray(digests, dtype=np.str_), return_index=True)
            stored = {digest for digest, _ in self._intact(self._look_up(database, names))}
            fresh = [(str(n), int(f)) for n, f in zip(names, first, strict=True) if n not in stored]
            fresh.sort(key=lambda pair: pair[1])
            (end,) = database.execute(
                f"SELECT coalesce(max(row) + 1, 0) FROM {self.name}"
            ).fetchone()
            rows = np.ascontiguousarray(arrays[[position for _, position in fresh]])
            self._append(end, rows)
            entries = [
                (digest, end + i, zlib.crc32(rows[i].data)) for i, (digest, _) in enumerate(fresh)
            ]
            with database:
                # In the order of the index, so that each of its pages is visited once.
                database.executemany(
                    f"INSERT OR REPLACE INTO {self.name} (digest, row, checksum) VALUES (?, ?, ?)",
                    sorted(entries),
                )

    def gather(self, digests: Ids) -> npt.NDArray[Scalar]:
        """(N, ...) arrays of ``digests``, in that order."""
        return self.read(self.rows(digests))

    def rows(self, digests: Ids) -> IntArray:
        """(N,) rows of ``digests`` in the file, for ``read``; they never change."""
        rows, known = self._locate(digests)
        if not known.all():
            raise InputError(
                f"{self.folder} lacks the {self.name} of {int((~known).sum())} images: the cache "
                "was emptied or damaged, or belongs to another machine. Read the images again."
            )
        return rows

    def read(self, rows: IntArray) -> npt.NDArray[Scalar]:
        """(N, ...) arrays at ``rows``, as a copy."""
        if not len(rows):
            return np.empty((0, *self.shape), dtype=self.dtype)
        stored = self._mapped(int(rows.max()) + 1)
        if rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            return np.array(stored[rows[0] : rows[-1] + 1])
        return np.asarray(stored[rows])

    def _locate(self, digests: Ids) -> tuple[IntArray, BoolArray]:
        """(N,) rows in the file, and (N,) whether they are there at all."""
        wanted = _as_bytes(digests)
        rows, known = self._locate_cached(wanted)
        if not known.all():
            self._cache_rows(wanted[~known])
            rows, known = self._locate_cached(wanted)
        return rows, known

    def _locate_cached(self, wanted: npt.NDArray[np.bytes_]) -> tuple[IntArray, BoolArray]:
        digests, rows = self._known
        found, known = np.zeros(len(wanted), dtype=np.int64), np.zeros(len(wanted), dtype=np.bool_)
        for part in slices(len(wanted)) if len(digests) else ():
            at = np.minimum(np.searchsorted(digests, wanted[part]), len(digests) - 1)
            found[part], known[part] = rows[at], digests[at] == wanted[part]
        return found, known

    def _cache_rows(self, digests: npt.NDArray[np.bytes_]) -> None:
        """Look ``digests`` up in the index and keep their rows in memory."""
        if not self._index.exists():
            return
        new, at = [np.empty(0, dtype=_DIGEST)], [np.empty(0, dtype=np.int64)]
        with self._reading() as database:
            for part in slices(len(digests)):
                stored = self._intact(self._look_up(database, digests[part].astype(np.str_)))
                new.append(np.array([digest for digest, _ in stored], dtype=_DIGEST))
                at.append(np.array([row for _, row in stored], dtype=np.int64))
        with self._cache_lock:  # otherwise entries that another thread adds now would be lost
            names = np.concatenate([self._known[0], *new])
            rows = np.concatenate([self._known[1], *at])
            order = np.argsort(names)
            self._known = take(names, order), rows[order]

    def _intact(self, entries: list[_Entry]) -> list[tuple[str, int]]:
        """(digest, row) of the entries whose rows are in the file and fit their checksums."""
        whole = self._file.stat().st_size // self.row_bytes if self._file.exists() else 0
        inside = [entry for entry in entries if isinstance(entry[1], int) and 0 <= entry[1] < whole]
        if not inside:
            return []
        mapped = self._mapped(max(row for _, row, _ in inside) + 1)
        return [
            (digest, row)
            for digest, row, checksum in sorted(inside, key=lambda entry: entry[1])
            if checksum is None or zlib.crc32(mapped[row].data) == checksum
        ]

    def _mapped(self, n_rows: int) -> npt.NDArray[Scalar]:
        stored = self._map
        if len(stored) < n_rows:
            n_rows = self._file.stat().st_size // self.row_bytes
            shape = (n_rows, *self.shape)
            self._map = stored = np.memmap(self._file, dtype=self.dtype, mode="r", shape=shape)
        return stored

    def _append(self, row: int, arrays: npt.NDArray[Scalar]) -> None:
        self._file.touch()
        with self._file.open("r+b") as file:
            file.seek(row * self.row_bytes)
            arrays.tofile(file)
            file.flush()
            os.fsync(file.fileno())

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        database = sqlite3.connect(self._index, timeout=60)
        try:
            yield database
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise self._damaged(error) from error
        finally:
            database.close()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """The index, locked for one writer; entries whose rows the file lost are deleted first."""
        with self._write_errors():
            self.folder.mkdir(parents=True, exist_ok=True)
        lock = self.folder / "lock"
        with self._write_errors(), locked(lock), self._reading() as database:
            database.execute("PRAGMA synchronous = FULL")
            database.execute(f"PRAGMA cache_size = -{_INDEX_CACHE_KB}")
            whole = self._file.stat().st_size // self.row_bytes if self._file.exists() else 0
            with database:
                database.execute(_SCHEMA.format(self.name))
                # The last row is asked for at every writing.
                database.execute(_ROW_INDEX.format(self.name))
                if not self._has_checksums(database):
                    database.execute(f"ALTER TABLE {self.name} ADD COLUMN checksum INTEGER")
                database.execute(f"DELETE FROM {self.name} WHERE row >= ?", (whole,))
            yield database

    @contextlib.contextmanager
    def _write_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(
                f"{self.what.capitalize()} cannot be written to {self.folder}: "
                f"{error.strerror or error}. Free some space, or name another folder with "
                "--cache or SURELABEL_CACHE."
            ) from error

    def _damaged(self, error: Exception) -> InputError:
        if isinstance(error, sqlite3.OperationalError):
            return InputError(
                f"{self._index} cannot be used now ({error}). Is the disk full, or is another "
                "program using it? Try again, or name another folder with --cache."
            )
        return InputError(
            f"{self._index} cannot be used ({error}). It holds only {self.what}: "
            f"delete the folder {self.folder} and start again."
        )

    def _look_up(self, database: sqlite3.Connection, digests: Ids) -> list[_Entry]:
        table_exists = "SELECT 1 FROM sqlite_master WHERE name = ?"
        if not database.execute(table_exists, (self.name,)).fetchone():
            return []
        checksum = "checksum" if self._has_checksums(database) else "NULL"
        is_wanted = "digest IN (SELECT value FROM json_each(?))"
        query = f"SELECT digest, row, {checksum} FROM {self.name} WHERE {is_wanted}"
        return database.execute(query, (json.dumps(digests.tolist()),)).fetchall()

    def _has_checksums(self, database: sqlite3.Connection) -> bool:
        """False in stores of earlier versions; their rows are taken as they are."""
        columns = database.execute(f"SELECT name FROM pragma_table_info('{self.name}')")
        return ("checksum",) in columns.fetchall()


def n_distinct(digests: Ids) -> int:
    """How many of ``digests`` (N,) are different."""
    return len(np.unique(_as_bytes(digests)))


def _as_bytes(digests: Ids) -> npt.NDArray[np.bytes_]:
    """(N,) digests in a quarter of the memory."""
    short: npt.NDArray[np.bytes_] = zeros((len(digests),), _DIGEST)
    for part in slices(len(digests)):
        short[part] = digests[part]
    return short


class PixelStore(ArrayStore[np.uint8]):
    """Images of one size, (S, S, C), by the digest of their files.

    ``resize`` is how they were resized (see ``Decoding``).
    """

    name = "pixels"
    what = "decoded images"

    def __init__(self, cache: Path, size: int, channels: int, resize: str = "") -> None:
        self.size, self.channels, self.resize = size, channels, resize
        folder = f"pixels-{size}x{size}x{channels}" + (f"-{resize}" if resize else "")
        super().__init__(Path(cache) / folder, (size, size, channels), np.uint8, "u8")


class FeatureStore(ArrayStore[np.float16]):
    """Features of one shape by image digest, from one net and one preprocessing.

    ``key`` names both; runs on the same images share the features.
    """

    name = "features"
    what = "features of images"

    def __init__(self, cache: Path, key: str, shape: tuple[int, ...]) -> None:
        super().__init__(Path(cache) / f"features-{key}", shape, np.float16, "f16")
