"""Files and folders that appear whole or not at all.

Everything is written under a temporary name in the same folder, forced to disk and renamed. A
temporary file or folder is locked (``flock``) while it is being written. That way the leftovers
of a killed process are not confused with files that another process is still writing.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

_SUFFIX = ".tmp"
_MANY_FILES = 1000


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
    claimed = {path: _claim(path, _open_new_file) for path in files}
    try:
        for path, (temporary, _) in claimed.items():
            temporary.write_bytes(files[path])
        for temporary, _ in claimed.values():
            fsync(temporary)
        for path, (temporary, _) in claimed.items():
            temporary.replace(path)
        for folder in {path.parent for path in files}:
            fsync(folder)
    except BaseException:
        for temporary, _ in claimed.values():
            temporary.unlink(missing_ok=True)
        raise
    finally:
        for _, lock in claimed.values():
            os.close(lock)


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
    temporary, lock = _claim(path, _open_new_file)
    try:
        yield temporary
        fsync(temporary)
        if replace:
            temporary.replace(path)
        else:
            os.link(temporary, path)
            temporary.unlink()
        fsync(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        os.close(lock)


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
    temporary, lock = _claim(path, _open_new_folder)
    try:
        yield temporary
        fsync_tree(temporary)
        if replace and path.exists():
            _swap(temporary, path)
        else:
            temporary.rename(path)
        fsync(path.parent)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        os.close(lock)


def fsync(path: Path) -> None:
    """Force the content of a file, or the list of names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def fsync_tree(folder: Path) -> None:
    """Force everything below ``folder`` to disk, each folder after its content.

    With many files, one flush of all disks is faster than one per file.
    """
    tree = [(Path(parent), names) for parent, _, names in os.walk(folder, topdown=False)]
    if sum(len(names) for _, names in tree) > _MANY_FILES:
        os.sync()
        return
    for parent, names in tree:
        for name in names:
            fsync(parent / name)
        fsync(parent)


def remove_folder(folder: Path) -> None:
    """Delete a folder; a crash never leaves half of it under its name."""
    aside = _temporary_name(folder)
    folder.rename(aside)
    shutil.rmtree(aside)


def remove_leftovers(folder: Path, name: str = "") -> None:
    """Delete what killed writers left in ``folder``; with ``name``, only of that target."""
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _is_temporary(entry.name, name)]
    for each in names:
        with contextlib.suppress(OSError):
            _remove_if_abandoned(folder / each)


def is_leftover(name: str) -> bool:
    """Whether a file of this name is one that is being written, or was when its writer died."""
    return _is_temporary(name, "")


def _is_temporary(candidate: str, name: str) -> bool:
    if not (candidate.startswith(".") and candidate.endswith(_SUFFIX)):
        return False
    target, dot, token = candidate[1 : -len(_SUFFIX)].rpartition(".")
    known = bool(dot) and len(token) == 16 and set(token) <= set("0123456789abcdef")
    return known and (not name or target == name)


def _remove_if_abandoned(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    finally:
        os.close(descriptor)


def _claim(path: Path, open_new: Callable[[Path], int]) -> tuple[Path, int]:
    """Create and lock a new temporary file or folder beside ``path``.

    Before it is locked, another process may take it for a leftover and delete it; then another
    one is created.
    """
    while True:
        temporary = _temporary_name(path)
        descriptor = open_new(temporary)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if temporary.exists():
            return temporary, descriptor
        os.close(descriptor)


def _temporary_name(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(8)}{_SUFFIX}")


def _open_new_file(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)


def _open_new_folder(path: Path) -> int:
    path.mkdir()
    return os.open(path, os.O_RDONLY)


def _swap(new: Path, path: Path) -> None:
    aside = _temporary_name(path)
    lock = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        path.rename(aside)
        try:
            new.rename(path)
        except BaseException:
            aside.rename(path)
            raise
        shutil.rmtree(aside, ignore_errors=True)
    finally:
        os.close(lock)
