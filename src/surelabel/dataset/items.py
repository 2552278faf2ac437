"""What an image is called, what people said about it, and where it comes from."""

from __future__ import annotations

import hashlib
import os
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surelabel.dataset.array_store import Pixels
from surelabel.errors import LabelsError
from surelabel.types import Ids, LabelSource, Split


def tidy_key(key: str) -> str:
    """``key`` in composed Unicode, because macOS and Linux spell the same file name differently."""
    return key if key.isascii() else unicodedata.normalize("NFC", key)


def item_id(key: str) -> str:
    """16 hexadecimal digits that depend on nothing but the key (a path relative to the root)."""
    return hashlib.sha256(tidy_key(key).encode()).hexdigest()[:16]


def item_ids(keys: Iterable[str]) -> Ids:
    """The ids of ``keys``, (N,) in the same order."""
    return strings([item_id(key) for key in keys])


def strings(values: Iterable[str]) -> Ids:
    """``values`` as an array of strings that is one even when it is empty."""
    return np.array(list(values), dtype=np.str_)


_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which "2" comes before "10" and "a2" before "a10"."""
    parts = [part for part in _DIGITS.split(name.casefold()) if part]
    pieces = [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts]
    return (*pieces, (-1, 0, name))


def class_order(names: Iterable[str]) -> tuple[str, ...]:
    """The distinct ``names``, sorted the way a person would."""
    return tuple(sorted(set(names), key=natural_key))


@dataclass(frozen=True)
class Skipped:
    """A file that was left out, and why, in plain words."""

    path: str
    reason: str


_GIVEN_SPLITS = (Split.TRAIN, Split.TUNE, Split.CERTIFY)


@dataclass(frozen=True)
class Mark:
    """One statement about the image ``key``; an empty string says nothing."""

    key: str
    where: str
    label: str = ""
    split: str = ""
    group: str = ""
    source: str = ""
    """Whose label it is, where an earlier run says so."""

    def __post_init__(self) -> None:
        if self.split and self.split not in _GIVEN_SPLITS:
            raise LabelsError(
                f"{self.where}: the split is '{self.split}'; it can be train, tune or certify, "
                "or empty."
            )


def merge_marks(marks: Iterable[Mark]) -> dict[str, Mark]:
    """All that is said of each key, or a ``LabelsError`` with both places of a contradiction.

    Keys are in the order in which they were last spoken of: a draw keeps its own.
    """
    merged: dict[str, Mark] = {}
    for mark in marks:
        if mark.label and mark.source == LabelSource.PSEUDO:
            raise LabelsError(
                f"{mark.where} has a label by the machine (source {LabelSource.PSEUDO}), not by a "
                "person: empty it, or keep only rows whose source is given or reviewed."
            )
        known = merged.pop(mark.key, None)
        merged[mark.key] = mark if known is None else _merge(known, mark)
    return merged


def _merge(first: Mark, second: Mark) -> Mark:
    for name in ("label", "split", "group"):
        one, other = getattr(first, name), getattr(second, name)
        if one and other and one != other:
            raise LabelsError(
                f"{second.where}: '{second.key}' has the {name} '{other}', and '{one}' in "
                f"{first.where}. Keep one of the two."
            )
    return Mark(
        key=first.key,
        where=first.where if first.label or not second.label else second.where,
        label=first.label or second.label,
        split=first.split or second.split,
        group=first.group or second.group,
    )


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
