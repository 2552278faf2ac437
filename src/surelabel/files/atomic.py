"""Files and folders that appear whole or not at all.

Everything is written under a temporary name in the same folder, forced to disk and renamed. While
it is being written, a lock file beside it is held. That way the leftovers of a killed process are
not confused with files that another process is still writing.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from surelabel.files.locks import LockHeldError, locked

_SUFFIX = ".tmp"
_LOCK_SUFFIX = ".lock"
_TOKEN_BYTES = 8
_MANY_FILES = 1000
_BUSY_SECONDS = 5.0
"""How long Windows is asked again for a file that some reader has open."""


def atomic_write_bytes(path: Path, data: bytes, *, parents: bool = True) -> None:
    """Replace ``path`` by ``data`` in one step: readers see the old bytes or the new ones."""
    atomic_write_with(path, lambda temporary: temporary.write_bytes(data), parents=parents)


def atomic_write_with(
    path: Path, writer: Callable[[Path], object], *, parents: bool = True
) -> None:
    """Let ``writer`` fill a temporary file, then rename it to ``path``."""
    with atomic_path(path, parents=parents) as temporary:
        writer(temporary)


def atomic_write_many(files: Mapping[Path, bytes]) -> None:
    """Write several files, each whole or not at all; faster than one after the other."""
    with contextlib.ExitStack() as claims:
        token = {folder: claims.enter_context(_claim(folder)) for folder in _parents(files)}
        temporaries = {path: _temporary_name(path, token[path.parent]) for path in files}
        try:
            for path, temporary in temporaries.items():
                temporary.write_bytes(files[path])
            for temporary in temporaries.values():
                fsync(temporary)
            for path, temporary in temporaries.items():
                replace_file(temporary, path)
            for folder in token:
                fsync(folder)
        except BaseException:
            for temporary in temporaries.values():
                temporary.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def atomic_path(path: Path, *, replace: bool = True, parents: bool = True) -> Iterator[Path]:
    """A temporary path to write to, which becomes ``path`` when the block ends without error.

    Without ``replace``, a file that exists at ``path`` stays: ``FileExistsError``. Without
    ``parents``, its folder has to be there: one that somebody deleted is not made again.
    """
    if not replace and path.exists():
        raise FileExistsError(path)
    if parents:
        path.parent.mkdir(parents=True, exist_ok=True)
    with _claim(path.parent) as token:
        temporary = _temporary_name(path, token)
        try:
            temporary.touch(exist_ok=False)
            yield temporary
            fsync(temporary)
            if replace:
                replace_file(temporary, path)
            else:
                _place_file(temporary, path)
            fsync(path.parent)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise


@contextlib.contextmanager
def atomic_folder(path: Path, *, replace: bool = False) -> Iterator[Path]:
    """A temporary sibling folder to fill, which becomes ``path`` when the block ends.

    An empty folder at ``path`` is replaced; one with files in it only with ``replace``, and then
    its files are deleted once the new folder is in place.
    """
    path = path.resolve()
    if path == Path.cwd():
        raise OSError(errno.EBUSY, "it is the working folder of this program")
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path.parent, path.name)
    with _claim(path.parent) as token:
        temporary = _temporary_name(path, token)
        try:
            temporary.mkdir()
            yield temporary
            fsync_tree(temporary)
            if replace:
                _replace_folder(temporary, path)
            else:
                _place_folder(temporary, path)
            fsync(path.parent)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def fsync(path: Path) -> None:
    """Force the content of a file, or the list of names in a folder, to disk.

    Windows has no call for folders, and wants a file to be open for writing.
    """
    if sys.platform == "win32" and path.is_dir():
        return
    descriptor = os.open(path, os.O_RDWR if sys.platform == "win32" else os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_tree(folder: Path) -> None:
    """Force everything below ``folder`` to disk, each folder after its content.

    With many files, one flush of all disks is faster than one per file, where there is such a call.
    """
    tree = [(Path(parent), names) for parent, _, names in os.walk(folder, topdown=False)]
    if sys.platform != "win32" and sum(len(names) for _, names in tree) > _MANY_FILES:
        os.sync()
        return
    for parent, names in tree:
        for name in names:
            fsync(parent / name)
        fsync(parent)


def replace_file(source: Path, target: Path) -> None:
    """Rename a file to ``target``, over one that is there.

    Windows refuses while somebody has ``target`` open: there it is tried for some seconds.
    """
    give_up = time.monotonic() + (_BUSY_SECONDS if sys.platform == "win32" else 0.0)
    while True:
        try:
            source.replace(target)
            return
        except PermissionError:
            if time.monotonic() >= give_up:
                raise
            time.sleep(0.05)


def _place_file(new: Path, path: Path) -> None:
    """Give a file the name ``path`` unless one has it: ``FileExistsError``.

    File systems of memory cards and some network drives have no hard links. There, of two
    programs that write the same name at the same moment, the later one wins.
    """
    try:
        os.link(new, path)
    except FileExistsError:
        raise
    except OSError:
        if path.exists():
            raise FileExistsError(path) from None
        new.rename(path)
    else:
        new.unlink()


def remove_folder(folder: Path) -> None:
    """Delete a folder; a crash never leaves half of it under its name."""
    aside = _temporary_name(folder, _new_token())
    folder.rename(aside)
    shutil.rmtree(aside)


def remove_leftovers(folder: Path, name: str = "") -> None:
    """Delete what killed writers left in ``folder``; with ``name``, of that target, and locks."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries]
    for each in names:
        target, token = _parts_of(each)
        if token and (not name or target in (name, "")):
            with contextlib.suppress(OSError, LockHeldError):
                _remove_if_abandoned(folder / each, token)


def is_leftover(name: str) -> bool:
    """Whether a file of this name is one that is being written, or was when its writer died."""
    return bool(_parts_of(name)[1])


def _parts_of(name: str) -> tuple[str, str]:
    """Target and token of a temporary name, of a lock the token; empty for another one."""
    stem, suffix = Path(name).stem, Path(name).suffix
    target, dot, token = stem.rpartition(".")
    known = len(token) == 2 * _TOKEN_BYTES and set(token) <= set("0123456789abcdef")
    if not dot or not known or not name.startswith("."):
        return "", ""
    if suffix == _SUFFIX and len(target) > 1:
        return target[1:], token
    return ("", token) if suffix == _LOCK_SUFFIX and not target else ("", "")


def _remove_if_abandoned(path: Path, token: str) -> None:
    with locked(_lock_name(path.parent, token), wait=0.0, keep=False):
        if path.suffix == _LOCK_SUFFIX:
            return
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


@contextlib.contextmanager
def _claim(folder: Path) -> Iterator[str]:
    """A token for temporary names in ``folder``, whose lock is held."""
    token = _new_token()
    with locked(_lock_name(folder, token), keep=False):
        yield token


def _new_token() -> str:
    return secrets.token_hex(_TOKEN_BYTES)


def _temporary_name(path: Path, token: str) -> Path:
    return path.with_name(f".{path.name}.{token}{_SUFFIX}")


def _lock_name(folder: Path, token: str) -> Path:
    return folder / f".{token}{_LOCK_SUFFIX}"


def _parents(files: Mapping[Path, bytes]) -> set[Path]:
    return {path.parent for path in files}


def _replace_folder(new: Path, path: Path) -> None:
    """Put ``new`` in the place of ``path``; the name gives a lock, so one process at a time."""
    name = path.name.encode(errors="surrogateescape")
    one = hashlib.blake2b(name, digest_size=_TOKEN_BYTES).hexdigest()
    with locked(_lock_name(path.parent, one), keep=False), _claim(path.parent) as token:
        if not path.exists():
            _place_folder(new, path)
            return
        aside = _temporary_name(path, token)
        path.rename(aside)
        try:
            new.rename(path)
        except BaseException:
            aside.rename(path)
            raise
        shutil.rmtree(aside, ignore_errors=True)


def _place_folder(new: Path, path: Path) -> None:
    """Rename a folder; an empty one at ``path`` gives way, by itself except on Windows."""
    if sys.platform == "win32" and path.is_dir():
        path.rmdir()
    new.rename(path)
