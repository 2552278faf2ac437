"""SHA-256 of files. A file is read once per process while it stays as it is."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path

_SETTLED_NS = 2 * 10**9
"""A file that changed less than this ago may change again without a new time stamp."""
_MOST = 4096

_known: dict[str, tuple[tuple[int, ...], str]] = {}
_lock = threading.Lock()


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal; about a second per gigabyte or two."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def known_digest(path: Path) -> str:
    """``file_digest``, remembered while size, times and inode of the file stay the same."""
    facts = path.stat()
    stamp = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
    name = str(path.absolute())
    with _lock:
        known = _known.get(name)
    if known is not None and known[0] == stamp:
        return known[1]
    digest = file_digest(path)
    if max(facts.st_mtime_ns, facts.st_ctime_ns) < time.time_ns() - _SETTLED_NS:
        with _lock:
            if len(_known) >= _MOST:
                _known.clear()
            _known[name] = (stamp, digest)
    return digest
