"""Content digests and headers of image files, remembered between runs."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from surelabel.dataset.decode import UnreadableImageError, is_gray, open_image, strict_pillow
from surelabel.dataset.parallel import Ticker, in_batches
from surelabel.errors import InputError
from surelabel.types import OnProgress

_BATCH = 64
#: A file younger than this may change again without a new time stamp.
_SETTLED_NS = 2 * 10**9
_SCHEMA = """CREATE TABLE IF NOT EXISTS stamped (
    path TEXT PRIMARY KEY, bytes INTEGER, mtime_ns INTEGER, ctime_ns INTEGER,
    digest TEXT, width INTEGER, height INTEGER, gray INTEGER
) WITHOUT ROWID"""


@dataclass(frozen=True)
class Header:
    """What a file is before it is decoded; ``problem`` is empty for an image."""

    digest: str = ""
    width: int = 0
    height: int = 0
    gray: bool = False
    problem: str = ""


@dataclass(frozen=True)
class _Stamp:
    """What tells that a file is the one seen before.

    A file that was unpacked or moved to the place of another may have its size and time; the time
    of its last change, ``ctime_ns``, is set by the system alone.
    """

    path: str
    n_bytes: int = 0
    mtime_ns: int = 0
    ctime_ns: int = 0

    @classmethod
    def of(cls, path: str, facts: os.stat_result) -> _Stamp:
        """From what the system says of the file."""
        return cls(path, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)


def content_digest(content: bytes) -> str:
    """The key of a file's content: 32 hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def read_headers(files: Sequence[str], cache: Path, on_progress: OnProgress) -> list[Header]:
    """The header of each of ``files``, (N,), hashing only those that are new or changed."""
    ticker = Ticker(on_progress, "checking files", len(files))
    headers: dict[str, Header] = {}
    with _open_index(cache) as index:
        for start in range(0, len(files), 4096):
            part = files[start : start + 4096]
            known = _recall(index, part)
            headers |= known
            ticker.advance(len(known))
            new = [path for path in part if path not in known]
            fresh: list[tuple[_Stamp, Header]] = []
            with strict_pillow():
                for batch, found in in_batches(_inspect_all, new, _BATCH):
                    headers |= {
                        path: header for path, (_, header) in zip(batch, found, strict=True)
                    }
                    fresh += [pair for pair in found if pair[1].digest]
                    ticker.advance(len(batch))
            _remember(index, fresh)
    return [headers[path] for path in files]


def _inspect_all(paths: Sequence[str]) -> list[tuple[_Stamp, Header]]:
    return [_inspect(path) for path in paths]


def _inspect(path: str) -> tuple[_Stamp, Header]:
    """Hash one file and read its header, from one opening of it."""
    stamp = _Stamp(path)
    try:
        if not Path(path).is_file():
            return stamp, Header(problem=_not_a_file(path))
        with Path(path).open("rb") as file:
            facts = os.fstat(file.fileno())
            stamp = _Stamp.of(path, facts)
            if not facts.st_size:
                return stamp, Header(problem="the file is empty")
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
    """The index in ``cache``; a damaged one holds nothing of worth and is begun anew."""
    path = cache / "files.sqlite"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        if not _is_sound(path):
            path.unlink()
        with contextlib.closing(sqlite3.connect(path, timeout=60)) as database:
            with database:
                database.execute("DROP TABLE IF EXISTS files")  # of an earlier form
                database.execute(_SCHEMA)
            yield database
    except (OSError, sqlite3.OperationalError) as error:
        raise InputError(
            f"{path} cannot be used ({error}). Make room there, or name another folder with "
            "--cache or SURELABEL_CACHE."
        ) from error
    except sqlite3.DatabaseError as error:
        path.unlink(missing_ok=True)
        raise InputError(
            f"{path} was damaged ({error}) and has been removed; it only saved time. Call again."
        ) from error


def _is_sound(path: Path) -> bool:
    """Whether SQLite takes the file for one of its own; one that is not there yet is."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=60)) as database:
            database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return False
    return True


def _recall(index: sqlite3.Connection, paths: Sequence[str]) -> dict[str, Header]:
    """The headers of those ``paths`` whose size and times are as they were."""
    query = "SELECT * FROM stamped WHERE path IN (SELECT value FROM json_each(?))"
    headers = {}
    for *known, digest, width, height, gray in index.execute(query, (json.dumps(list(paths)),)):
        with contextlib.suppress(OSError):
            path = known[0]
            if _Stamp.of(path, Path(path).stat()) == _Stamp(*known):
                headers[path] = Header(digest, width, height, bool(gray))
    return headers


def _remember(index: sqlite3.Connection, fresh: list[tuple[_Stamp, Header]]) -> None:
    settled = time.time_ns() - _SETTLED_NS
    rows = [
        (s.path, s.n_bytes, s.mtime_ns, s.ctime_ns, h.digest, h.width, h.height, h.gray)
        for s, h in fresh
        if max(s.mtime_ns, s.ctime_ns) < settled
    ]
    with index:
        index.executemany("REPLACE INTO stamped VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
