"""Every image file under a folder, in a fixed order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from surelabel.catalog.decode import readable_suffixes
from surelabel.catalog.items import Skipped
from surelabel.errors import InputError

_UNREADABLE = frozenset(
    [".heic", ".heif", ".cr2", ".cr3", ".nef", ".arw", ".dng", ".raf", ".orf", ".rw2", ".pef"]
)
"""What phones and cameras write and Pillow does not decode by itself."""
_NO_IMAGES = frozenset(
    [
        ".csv",
        ".db",
        ".gz",
        ".htm",
        ".html",
        ".ini",
        ".json",
        ".log",
        ".md",
        ".npy",
        ".npz",
        ".parquet",
        ".pdf",
        ".pq",
        ".py",
        ".tar",
        ".toml",
        ".tsv",
        ".txt",
        ".xlsx",
        ".xml",
        ".yaml",
        ".yml",
        ".zip",
    ]
)
"""What often lies beside images and is no image."""


def walk_images(root: Path) -> tuple[list[str], list[Skipped]]:
    """Paths relative to ``root`` with '/' of all images that can be decoded, and what was left out.

    Names that begin with a dot are left alone. A link to a folder is followed when it leads out
    of ``root`` and not to a folder above it, so no file comes twice and no loop is entered.
    """
    if not _is_unicode(str(root)):
        raise InputError(f"{printable(str(root))}: the name is not valid Unicode: rename it.")
    skipped: list[Skipped] = []
    names = sorted(_walk(str(root), "", {os.path.realpath(root)}, skipped))
    odd = [name for name in names if not _is_unicode(name)]
    skipped += [Skipped(printable(n), "its name is not valid Unicode: rename it") for n in odd]
    return [name for name in names if _is_unicode(name)], skipped


def printable(name: str) -> str:
    """``name`` with bytes that are no Unicode shown as escapes."""
    return name.encode("utf-8", "backslashreplace").decode()


def _walk(folder: str, prefix: str, seen: set[str], skipped: list[Skipped]) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        reason = f"the folder cannot be read ({error.strerror})"
        skipped.append(Skipped(printable(prefix), reason))
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name == "__MACOSX":
            continue
        if _is_folder(entry):
            if not entry.is_symlink() or _leads_elsewhere(entry.path, seen):
                yield from _walk(entry.path, f"{prefix}{entry.name}/", seen, skipped)
            continue
        ending = Path(entry.name).suffix.lower()
        if ending in readable_suffixes():
            yield prefix + entry.name
        elif ending in _UNREADABLE:
            reason = f"{ending[1:].upper()} files cannot be decoded: save it as JPEG or PNG"
            skipped.append(Skipped(printable(prefix + entry.name), reason))
        elif ending not in _NO_IMAGES:
            reason = "its name does not end like that of an image that can be read"
            skipped.append(Skipped(printable(prefix + entry.name), reason))


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _leads_elsewhere(link: str, seen: set[str]) -> bool:
    """Whether the target of ``link`` has nothing in common with what is walked already."""
    target = os.path.realpath(link)
    if any(_contains(known, target) or _contains(target, known) for known in seen):
        return False
    seen.add(target)
    return True


def _contains(folder: str, path: str) -> bool:
    return os.path.commonpath([folder, path]) == folder


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
