"""Folder names for classes and file names for images: safe on every system, and reversible."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from urllib.parse import unquote

UNLABELED = "unlabeled"
"""Folder of images without a label; a class of this name is escaped."""

_MAX_BYTES = 200
_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f/\\:*?"<>|%\ud800-\udfff]')
_PLAIN = re.compile(r"[^a-z0-9_-]")
_RESERVED = re.compile(
    r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE | re.DOTALL
)


def class_folders(classes: Iterable[str]) -> dict[str, str]:
    """The folder name of each class, safe on Linux, macOS and Windows.

    To some file systems, names that differ only in case or in Unicode form are the same name. All
    such names are escaped letter by letter, whatever their order.
    """
    unique = list(dict.fromkeys(classes))
    counts = Counter(_folded(name) for name in unique)
    spell_out = {name: counts[_folded(name)] > 1 for name in unique}
    return {
        name: _shortened(name, _escaped(name, _PLAIN if spell_out[name] else _UNSAFE))
        for name in unique
    }


def safe_name(name: str) -> str:
    """``name`` as a file name that is valid on every file system."""
    return _shortened(name, _escaped(name, _UNSAFE))


def class_of_folder(folder: str) -> str:
    """The class of a folder whose name was not shortened."""
    return "" if folder == "%" else unquote(folder, errors="surrogatepass")


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())


def _escaped(name: str, unsafe: re.Pattern[str]) -> str:
    if not name:
        return "%"
    escaped = unsafe.sub(lambda match: _quoted(match[0]), name)
    if escaped[-1] in ". ":
        escaped = escaped[:-1] + _quoted(escaped[-1])
    reserved = _RESERVED.fullmatch(escaped) or escaped.casefold() == UNLABELED
    if escaped[0] in ". " or reserved:
        escaped = _quoted(escaped[0]) + escaped[1:]
    return escaped


def _quoted(character: str) -> str:
    """``%XX`` for each byte, even of characters that ``urllib.parse.quote`` keeps."""
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def _shortened(name: str, folder: str) -> str:
    """``folder``, or its start and a digest where it is too long for a file system."""
    if len(folder.encode()) <= _MAX_BYTES:
        return folder
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    start = folder.encode()[: _MAX_BYTES - 20].decode(errors="ignore").rstrip(". %")
    return f"{start}%~{digest}"


def file_names(folders: Sequence[str], paths: Sequence[str], ids: Sequence[str]) -> list[str]:
    """A file name for each image, unique within its target folder.

    ``paths`` are relative, with ``/``. A name is the last part of the path. Where two images would
    get the same name, parent folders are put in front until they differ (``lot3_0001.jpg``); if
    the whole paths are the same, the id is added. Names do not depend on the order of the images.
    """
    parts = [_parts(path) for path in paths]
    depths = [1] * len(parts)
    while True:
        names = [_name(*each) for each in zip(parts, depths, ids, strict=True)]
        groups: dict[tuple[str, str], list[int]] = {}
        for i, (folder, name) in enumerate(zip(folders, names, strict=True)):
            groups.setdefault((folder, _folded_name(name)), []).append(i)
        clashes = [group for group in groups.values() if len(group) > 1]
        if not clashes:
            return names
        for group in clashes:
            for i in [i for i in group if depths[i] < len(parts[i])] or group:
                depths[i] += 1


def _parts(path: str) -> tuple[str, ...]:
    kept = tuple(part for part in PurePosixPath(path).parts if part not in ("/", ".."))
    return kept or ("image",)


def _name(parts: tuple[str, ...], depth: int, item_id: str) -> str:
    """The last ``depth`` parts joined; with the id if there are no more, or if it is too long."""
    name = "_".join(parts[-depth:])
    if depth <= len(parts) and len(name.encode(errors="surrogateescape")) <= _MAX_BYTES:
        return name
    last = PurePosixPath(parts[-1])
    return f"{last.stem[:32]}-{item_id}{last.suffix[:16]}"


def _folded_name(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
