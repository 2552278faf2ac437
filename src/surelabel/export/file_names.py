"""File names for images from many folders that end up in one."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from pathlib import PurePosixPath

_MAX_BYTES = 200


def file_names(folders: Sequence[str], paths: Sequence[str], ids: Sequence[str]) -> list[str]:
    """A name for each image that no other in its target folder has.

    ``paths`` are relative, with ``/``. A name is the last part of the path; where two meet, as
    many parts before it are put in front as tell them apart (``lot3_0001.jpg``), and where even
    whole paths meet, the id is added. Names do not depend on the order of the images.
    """
    parts = [_parts(path) for path in paths]
    depths = [1] * len(parts)
    while True:
        names = [_name(*each) for each in zip(parts, depths, ids, strict=True)]
        groups: dict[tuple[str, str], list[int]] = {}
        for i, (folder, name) in enumerate(zip(folders, names, strict=True)):
            groups.setdefault((folder, _folded(name)), []).append(i)
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
    """The last ``depth`` parts; beyond the whole path, and for long names, with the id."""
    name = "_".join(parts[-depth:])
    if depth <= len(parts) and len(name.encode(errors="surrogateescape")) <= _MAX_BYTES:
        return name
    last = PurePosixPath(parts[-1])
    return f"{last.stem[:32]}-{item_id}{last.suffix[:16]}"


def _folded(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold()
