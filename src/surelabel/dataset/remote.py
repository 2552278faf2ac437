"""Remote file systems through ``fsspec``: S3, HTTP, memory and whatever else it has a driver for.

Credentials and endpoints are those of the driver, from its own files and variables; surelabel
neither asks for them nor writes them down. Every failure becomes an ``OSError`` whose ``strerror``
says in plain words what is wrong.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, cast
from urllib.parse import urlsplit

from surelabel.errors import InputError

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_BLOCK = 8 * 2**20
"""Bytes that are read ahead in a stream."""
_STAMPS = ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "mtime", "created")
"""Facts in listings of the drivers that change with the content, the best first."""
_LOCAL = ("file://", "local://")
_DENIED = ("token", "credential", "access key", "access denied", "forbidden", "signature")


@dataclass(frozen=True)
class Listed:
    """One remote file."""

    address: str
    stamp: str
    """Changes when the content does; empty where the store does not tell."""


def is_remote(text: str) -> bool:
    """Whether ``text`` is the address of a remote file or folder, such as ``s3://bucket/a``."""
    return _ADDRESS.match(text) is not None


def local_path(text: str) -> str:
    """``text``, or the path in it if it is the address of a file of this machine."""
    is_address = text.lower().startswith(_LOCAL)
    return text.partition("://")[2] if is_address else text


def list_files(address: str) -> dict[str, Listed]:
    """All files below a remote folder by their path below it; a single file has the path ''."""
    folder = address.rstrip("/")
    with _as_input_error(folder):
        _refuse_password(address)
        system, path = _system(folder)
        system.invalidate_cache()  # what it listed before may have changed since
        found = system.find(path, detail=True)
        if not found and system.isfile(path):
            found = {path: system.info(path)}
    if not found:
        raise InputError(f"{folder}: there is no such remote folder or file, or it is empty.")
    scheme = folder.partition("://")[0]
    start = path.rstrip("/")
    listed = {}
    for name, facts in found.items():
        full = name if is_remote(name) else f"{scheme}://{name.lstrip('/')}"
        listed[name[len(start) :].lstrip("/")] = Listed(full, _stamp(facts))
    return dict(sorted(listed.items()))


def fetch(wanted: Sequence[tuple[str, int, int | None]]) -> list[bytes | OSError]:
    """(address, start, length) -> the bytes of each, read side by side, or why there are none."""
    try:
        system, _ = _system(wanted[0][0])
        paths = [_system(address)[1] for address, _, _ in wanted]
        starts = [start if length is not None else None for _, start, length in wanted]
        ends = [start + length if length is not None else None for _, start, length in wanted]
        contents = system.cat_ranges(paths, starts, ends, on_error="return")
    except Exception as error:  # drivers raise nearly anything
        return [as_os_error(error)] * len(wanted)
    return [each if isinstance(each, bytes) else as_os_error(each) for each in contents]


def open_stream(address: str) -> IO[bytes]:
    """The remote file, to be read from its start to its end."""
    try:
        system, path = _system(address)
        opened = system.open(path, "rb", block_size=_BLOCK, cache_type="readahead")
        return cast(IO[bytes], opened)
    except Exception as error:
        raise as_os_error(error) from error


@contextmanager
def local_copy(address: str) -> Iterator[Path]:
    """A copy of a remote file, under its own name, for readers of local files."""
    with TemporaryDirectory(prefix="surelabel-") as folder:
        with _as_input_error(address):
            _refuse_password(address)
            copy = Path(folder) / urlsplit(address).path.rsplit("/", 1)[-1]
            system, path = _system(address)
            system.get_file(path, str(copy))
        yield copy


def as_os_error(error: BaseException) -> OSError:
    """Any failure of a driver, with the reason in ``strerror``."""
    text = " ".join((str(error) or type(error).__name__).split()).rstrip(".")
    if isinstance(error, FileNotFoundError):
        return FileNotFoundError(errno.ENOENT, "there is no such object")
    lower = text.lower()
    if isinstance(error, PermissionError) or any(word in lower for word in _DENIED):
        return PermissionError(errno.EACCES, f"access was refused: {text}")
    return OSError(errno.EIO, f"the store answered: {text}")


def parent(address: str) -> str:
    """The remote folder of a remote file."""
    return address.rstrip("/").rpartition("/")[0]


def _system(address: str) -> tuple[Any, str]:
    """The driver for ``address``, and the path that the driver calls it by."""
    import fsspec

    scheme = address.partition("://")[0].lower()
    if f"{scheme}://" in _LOCAL:
        raise ValueError("it names a file of this machine, which is named by its path")
    system = fsspec.filesystem(scheme)
    return system, system._strip_protocol(address)


def _stamp(facts: dict[str, Any]) -> str:
    told = next((str(facts[name]) for name in _STAMPS if facts.get(name)), "")
    return f"{facts.get('size')} {told}" if told else ""


def _refuse_password(address: str) -> None:
    if "@" in urlsplit(address).netloc:
        raise InputError(
            f"The address of {address.rpartition('@')[2]} contains a user or a password, which "
            "would be written into the run: leave it out, and give it to the driver instead."
        )


@contextmanager
def _as_input_error(address: str) -> Iterator[None]:
    try:
        yield
    except InputError:
        raise
    except ImportError as error:
        raise InputError(
            f"{address} needs a driver that is not installed ({error}): for S3 and HTTP, "
            "pip install 'surelabel[remote]'."
        ) from None
    except ValueError as error:
        raise InputError(f"{address} is no address that can be read: {error}.") from None
    except Exception as error:
        reason = as_os_error(error).strerror
        raise InputError(
            f"{address} cannot be read: {reason}. Is the address right, and are the credentials "
            "valid?"
        ) from error
