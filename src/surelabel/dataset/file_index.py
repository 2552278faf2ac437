"""Content digests and headers of images, wherever their bytes are; cached between runs."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from surelabel.dataset.decode import UnreadableImageError, is_gray, open_image, strict_pillow
from surelabel.dataset.locations import MAX_BYTES, TOO_LARGE, Location, read_contents
from surelabel.dataset.parallel import ProgressCounter, map_batches
from surelabel.errors import InputError
from surelabel.types import OnProgress

_BATCH_SIZE = 64
_FILES_PER_QUERY = 4096
_SETTLED_NS = 2 * 10**9
"""A file that changed less than this ago may change again without a new time stamp."""
_SCHEMA = """CREATE TABLE IF NOT EXISTS headers (
    path TEXT PRIMARY KEY, bytes INTEGER, mtime_ns INTEGER, ctime_ns INTEGER,
    digest TEXT, width INTEGER, height INTEGER, gray INTEGER, checksum INTEGER
) WITHOUT ROWID"""
_EARLIER_TABLES = ("files", "stamped")


@dataclass(frozen=True)
class Header:
    """What is known of a file before it is decoded; ``problem`` is empty for an image."""

    digest: str = ""
    width: int = 0
    height: int = 0
    gray: bool = False
    problem: str = ""
    unread: bool = False
    """Whether the problem is one of reach: a remote object that may be readable later."""


NO_STAMPS: Mapping[str, str] = {}


@dataclass(frozen=True)
class _Stamp:
    """Shows whether a file is still the one that was read before.

    A file that was unpacked or moved over another may have its size and modification time; but
    ``ctime_ns`` is set by the system alone. Of a remote object the store tells what changes with
    the content; a hash of that takes the place of the times.
    """

    path: str
    n_bytes: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0

    @classmethod
    def of(cls, path: str, facts: os.stat_result) -> _Stamp:
        """The stamp of a file with these facts."""
        return cls(path, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)

    @classmethod
    def now(cls, path: str, stamps: Mapping[str, str]) -> _Stamp | None:
        """The stamp of a location as it is now; None where nothing shows a change."""
        location = Location.parse(path)
        if location.is_plain:
            return cls.of(path, Path(path).stat())
        told = stamps.get(location.file, "")
        if not told:
            return None
        digest = hashlib.blake2b(told.encode(), digest_size=7).digest()
        return cls(path, 0, int.from_bytes(digest, "big"))


def content_digest(content: bytes) -> str:
    """The key of a file's content: 32 hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def inspect_content(content: bytes) -> Header:
    """The header of an image whose bytes are in memory."""
    if not content:
        return Header(problem="the file is empty")
    try:
        with open_image(io.BytesIO(content)) as image:
            width, height = image.size
            return Header(content_digest(content), width, height, is_gray(image))
    except UnreadableImageError as error:
        return Header(problem=str(error))


def read_headers(
    files: Sequence[str],
    cache: Path,
    on_progress: OnProgress,
    stamps: Mapping[str, str] = NO_STAMPS,
) -> list[Header]:
    """The header of each of ``files``, (N,), hashing only those that are new or changed.

    ``stamps`` tell which remote files changed; without one a remote file is read again.
    """
    progress = ProgressCounter(on_progress, "checking files", len(files))
    headers: dict[str, Header] = {}
    inspect_all = partial(_inspect_all, stamps=stamps)
    with _open_index(cache) as index:
        for start in range(0, len(files), _FILES_PER_QUERY):
            part = files[start : start + _FILES_PER_QUERY]
            known = _cached_headers(index, part, stamps)
            headers |= known
            progress.advance(len(known))
            new = [path for path in part if path not in known]
            fresh: list[tuple[_Stamp, Header]] = []
            with strict_pillow():
                for batch, inspected in map_batches(inspect_all, new, _BATCH_SIZE):
                    headers |= {
                        path: header for path, (_, header) in zip(batch, inspected, strict=True)
                    }
                    fresh += [pair for pair in inspected if pair[1].digest]
                    progress.advance(len(batch))
            _cache_headers(index, fresh)
    return [headers[path] for path in files]


def _inspect_all(paths: Sequence[str], stamps: Mapping[str, str]) -> list[tuple[_Stamp, Header]]:
    others = [path for path in paths if not Location.parse(path).is_plain]
    found = {
        path: (_Stamp.now(path, stamps) or _Stamp(path), _inspect_read(content))
        for path, content in zip(others, read_contents(others), strict=True)
    }
    return [found[path] if path in found else _inspect(path) for path in paths]


def _inspect_read(content: bytes | OSError) -> Header:
    if isinstance(content, OSError):
        return Header(problem=f"it cannot be read ({content.strerror})", unread=True)
    return inspect_content(content)


def _inspect(path: str) -> tuple[_Stamp, Header]:
    """Hash a file and read its header, while it is opened once."""
    stamp = _Stamp(path)
    try:
        if not Path(path).is_file():
            return stamp, Header(problem=_not_a_file(path))
        with Path(path).open("rb") as file:
            facts = os.fstat(file.fileno())
            stamp = _Stamp.of(path, facts)
            if not facts.st_size:
                return stamp, Header(problem="the file is empty")
            if facts.st_size > MAX_BYTES:
                return stamp, Header(problem=f"the file cannot be read ({TOO_LARGE})")
            digest = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
            file.seek(0)
            with open_image(file) as image:
                width, height = image.size
                return stamp, Header(digest, width, height, is_gray(image))
    except UnreadableImageError as error:
        return stamp, Header(problem=str(error))
    except OSError as error:
        return stamp, Header(problem=f"the file cannot be read ({error.strerror})")


def _not_a_file(path: str) -> str:
    if Path(path).is_symlink():
        return "the link points to no file"
    return "it is not a file" if Path(path).exists() else "there is no such file"


@contextlib.contextmanager
def _open_index(cache: Path) -> Iterator[sqlite3.Connection]:
    """The index in ``cache``; a damaged one is replaced, because it only saves time."""
    path = cache / "files.sqlite"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        if not _is_sound(path):
            path.unlink()
        with contextlib.closing(sqlite3.connect(path, timeout=60)) as database:
            with database:
                for table in _EARLIER_TABLES:
                    database.execute(f"DROP TABLE IF EXISTS {table}")
                database.execute(_SCHEMA)
            yield database
    except (OSError, sqlite3.OperationalError) as error:
        raise InputError(
            f"{path} cannot be used ({error}). Free some space, or name another folder with "
            "--cache or SURELABEL_CACHE."
        ) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        path.unlink(missing_ok=True)
        raise InputError(
            f"{path} was damaged ({error}) and has been removed; it only saved time. Try again."
        ) from error


def _is_sound(path: Path) -> bool:
    """Whether SQLite can read the file; one that does not exist yet counts as sound."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=60)) as database:
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        raise
    except (sqlite3.DatabaseError, UnicodeDecodeError):
        return False
    return True


def _cached_headers(
    index: sqlite3.Connection, paths: Sequence[str], stamps: Mapping[str, str]
) -> dict[str, Header]:
    """The headers of those ``paths`` whose size and times have not changed."""
    query = "SELECT * FROM headers WHERE path IN (SELECT value FROM json_each(?))"
    headers = {}
    for *row, checksum in index.execute(query, (json.dumps(list(paths)),)):
        *known, digest, width, height, gray = row
        with contextlib.suppress(OSError):
            path = known[0]
            is_same = _Stamp.now(path, stamps) == _Stamp(*known)
            if is_same and _checksum(row) == checksum:
                headers[path] = Header(digest, width, height, bool(gray))
    return headers


def _cache_headers(index: sqlite3.Connection, fresh: list[tuple[_Stamp, Header]]) -> None:
    settled = time.time_ns() - _SETTLED_NS
    rows = [
        [s.path, s.n_bytes, s.mtime_ns, s.ctime_ns, h.digest, h.width, h.height, int(h.gray)]
        for s, h in fresh
        if 0 < max(s.mtime_ns, s.ctime_ns) < settled
    ]
    with index:
        index.executemany(
            "REPLACE INTO headers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [(*row, _checksum(row)) for row in rows],
        )


def _checksum(row: Sequence[object]) -> int:
    """CRC-32 of a row: SQLite itself does not notice a flipped bit in a value."""
    return zlib.crc32(repr(list(row)).encode(errors="surrogatepass"))
