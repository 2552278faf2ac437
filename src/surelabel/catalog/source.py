"""Images that the user named, before any is read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from surelabel.catalog.items import Skipped
from surelabel.catalog.marks import Mark
from surelabel.catalog.pixels import Pixels


def absolute(path: str | os.PathLike[str]) -> str:
    """``path`` from the top, without ``..`` but with links as they are: what people recognize."""
    return os.path.normpath(Path(path).absolute())


@dataclass(frozen=True)
class Source:
    """N images that exist, with what people said about them."""

    name: str
    """What the user called it, for messages."""
    root: Path | None
    """The folder that keys are relative to; none for arrays."""
    keys: tuple[str, ...]
    """(N,) what ids are made of."""
    files: tuple[str, ...]
    """(N,) absolute paths; empty for arrays."""
    array: Pixels | None = None
    """(N, H, W) or (N, H, W, C), where images are not files."""
    marks: tuple[Mark, ...] = ()
    """Labels, splits and groups, by key."""
    skipped: tuple[Skipped, ...] = ()
