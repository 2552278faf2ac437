"""Where the bytes of an image are: a file, an object of a remote store, or a part of either.

A location is text, so that a catalog can hold it: an absolute path, an address such as
``s3://bucket/a.jpg``, or ``bytes:START:LENGTH:SUFFIX:`` in front of either, for an image inside a
larger file. Nothing is unpacked for it: a part of a shard is read by its offset.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import IO

from surelabel.dataset import remote
from surelabel.dataset.remote import is_remote

_PART = re.compile(r"bytes:(\d+):(\d+):(\.?[^:/]*):(.*)", re.DOTALL)
MAX_BYTES = 2**29
"""Larger files are not read as images: one whose pixels are within bounds takes less, and a file
with holes may claim to be larger than the memory."""
TOO_LARGE = f"it has more than {MAX_BYTES // 2**20} MB"
_AT_ONCE = 16
"""Remote objects that are under way at a time: what is waiting in memory stays bounded."""


@dataclass(frozen=True)
class Location:
    """A file or remote object, or ``length`` bytes of it from ``start`` on."""

    file: str
    start: int = 0
    length: int | None = None
    """None for all of it."""
    suffix: str = ""
    """Of a part: what its name would end with as a file of its own."""

    @classmethod
    def parse(cls, text: str) -> Location:
        """The location that ``str`` of it gives."""
        part = _PART.fullmatch(text)
        if part is None:
            return cls(text, suffix=PurePosixPath(text).suffix.lower())
        start, length, suffix, file = part.groups()
        return cls(file, int(start), int(length), suffix)

    def __str__(self) -> str:
        if self.length is None:
            return self.file
        return f"bytes:{self.start}:{self.length}:{self.suffix}:{self.file}"

    @property
    def is_plain(self) -> bool:
        """Whether it is a whole file on this machine."""
        return self.length is None and not is_remote(self.file)


def local_files(locations: Iterable[str]) -> Iterator[str]:
    """The files on this machine among ``locations``; of parts, the files that they are in."""
    found = dict.fromkeys(Location.parse(text).file for text in locations if text)
    return (file for file in found if not is_remote(file))


def suffix_of(location: str) -> str:
    """How the name of the image ends, such as ``.jpg``."""
    return Location.parse(location).suffix


def read_content(location: str) -> bytes:
    """The bytes at ``location``; an ``OSError`` has the reason in its ``strerror``."""
    (content,) = read_contents([location])
    if isinstance(content, OSError):
        raise content
    return content


def read_contents(locations: Sequence[str]) -> Iterator[bytes | OSError]:
    """The bytes at each of ``locations``, or why there are none, in order.

    Remote objects are fetched side by side, a few at a time.
    """
    parsed = [Location.parse(text) for text in locations]
    for is_away, group in groupby(parsed, key=lambda each: is_remote(each.file)):
        if not is_away:
            yield from map(_read_local, group)
            continue
        wanted = [(each.file, each.start, each.length) for each in group]
        for start in range(0, len(wanted), _AT_ONCE):
            yield from remote.fetch(wanted[start : start + _AT_ONCE])


def _read_local(location: Location) -> bytes | OSError:
    try:
        with Path(location.file).open("rb") as file:
            length = location.length
            if length is None:
                length = os.fstat(file.fileno()).st_size
            if length > MAX_BYTES:
                return OSError(errno.EFBIG, TOO_LARGE)
            file.seek(location.start)
            return file.read(location.length if location.length is not None else -1)
    except OSError as error:
        return error


def n_bytes(location: str) -> int:
    """How many bytes are at ``location``; 0 where that is not known without asking a store."""
    found = Location.parse(location)
    if found.length is not None:
        return found.length
    file = Path(found.file)
    return file.stat().st_size if found.is_plain and file.is_file() else 0


def exists(location: str) -> bool:
    """Whether there is a file; a remote one counts as there until somebody reads it."""
    file = Location.parse(location).file
    return is_remote(file) or Path(file).is_file()


def open_stream(file: str) -> IO[bytes]:
    """A file or remote object, to be read from its start to its end; memory stays bounded."""
    return remote.open_stream(file) if is_remote(file) else Path(file).open("rb")


def stamp_of(file: str) -> str:
    """What changes when a file of this machine does; empty where it cannot be read."""
    try:
        facts = os.stat(file)  # noqa: PTH116 - a location is text
    except OSError:
        return ""
    return f"{facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns}"
