"""Stable ids: what an item is called in every table, on every machine."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable

import numpy as np

from surelabel.types import Ids


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
