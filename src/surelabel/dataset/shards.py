"""Large files with many images inside: how they are found, and an index of each in the cache."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from surelabel.dataset.items import Skipped, absolute
from surelabel.dataset.locations import stamp_of
from surelabel.dataset.remote import Listed
from surelabel.files.atomic import atomic_write_bytes

_FOLDER = "shards"
BROKEN = "this shard is broken or away"
"""How the reasons of unreadable shards begin."""


@dataclass(frozen=True)
class Shard:
    """A Parquet, Arrow or tar file with images in it, on this machine or remote."""

    file: str
    """Its path or address."""
    name: str
    """Its path below the dataset; empty if it is the dataset."""
    stamp: str
    """Changes when its content does; empty where nothing tells."""

    @property
    def stem(self) -> str:
        """The name of the file without its last suffix."""
        return Path(self.file.rpartition("/")[2]).stem


class BrokenShardError(Exception):
    """A shard that cannot be read to its end; the text is the reason in plain words."""


def broken(shard: Shard, reason: str) -> Skipped:
    """The entry about a shard that could not be read to its end."""
    return Skipped(shard.name or shard.file, f"{BROKEN}: {reason}", unread=True)


def shard_of(path: Path, name: str = "") -> Shard:
    """The shard in a file of this machine."""
    file = absolute(path)
    return Shard(file, name, stamp_of(file))


def shards_below(folder: Path, suffixes: frozenset[str]) -> list[Shard]:
    """The files below ``folder`` that end like this, in order; hidden ones are passed over."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in suffixes)
    named = ((path.relative_to(folder).as_posix(), path) for path in found if path.is_file())
    return [shard_of(path, name) for name, path in sorted(named) if not is_hidden(name)]


def remote_shards(listed: Iterable[tuple[str, Listed]], suffixes: frozenset[str]) -> list[Shard]:
    """The remote files that end like this."""
    return [
        Shard(each.address, name, each.stamp)
        for name, each in listed
        if Path(name or each.address).suffix.lower() in suffixes
    ]


def is_hidden(name: str) -> bool:
    """Whether a part of the path begins with a dot, or is a folder that macOS adds to archives."""
    return any(part.startswith(".") or part == "__MACOSX" for part in name.split("/"))


def index_path(cache: Path, shard: Shard, *facts: str) -> Path:
    """Where the index of a shard is kept."""
    key = hashlib.sha256(json.dumps([shard.file, shard.stamp, *facts]).encode()).hexdigest()[:24]
    return cache / _FOLDER / f"{key}.json"


def read_index(path: Path) -> Any | None:
    """What ``write_index`` wrote; None if there is none, or if it was damaged since."""
    try:
        checksum, _, content = path.read_bytes().partition(b"\n")
        return json.loads(content) if checksum == _checksum(content) else None
    except (OSError, ValueError):
        return None


def write_index(path: Path, value: object) -> None:
    """Keep ``value`` as JSON behind a checksum; it only saves time, so a full disk is no error."""
    content = json.dumps(value).encode()
    try:
        atomic_write_bytes(path, _checksum(content) + b"\n" + content)
    except OSError:
        return


def _checksum(content: bytes) -> bytes:
    return f"{zlib.crc32(content):08x}".encode()
