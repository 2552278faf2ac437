"""The order of class names."""

from __future__ import annotations

import re
from collections.abc import Iterable

_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which "2" comes before "10" and "a2" before "a10"."""
    parts = [part for part in _DIGITS.split(name.casefold()) if part]
    pieces = [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts]
    return (*pieces, (-1, 0, name))


def class_order(names: Iterable[str]) -> tuple[str, ...]:
    """The distinct ``names``, sorted the way a person would."""
    return tuple(sorted(set(names), key=natural_key))
