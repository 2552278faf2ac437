"""The vocabulary of a dataset: keys and ids of images, given labels, and the source of both."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from surelabel.config.choices import Strategy
from surelabel.dataset.array_store import Pixels
from surelabel.dataset.file_index import Header
from surelabel.errors import LabelsError
from surelabel.files.mapped_arrays import concatenate
from surelabel.types import Ids, LabelSource, Split

_GIVEN_SPLITS = (Split.TRAIN, Split.TUNE, Split.CERTIFY)
_DIGITS = re.compile(r"(\d+)")
_AT_ONCE = 1 << 16
"""Texts that are held as Python objects at a time."""
ID_LENGTH = 16
"""Hexadecimal digits of an id."""
MAX_NAME = 200
"""Characters in the name of a class."""
_CONTROLS = frozenset({"Cc", "Cs", "Zl", "Zp"})
_BIDIRECTIONAL = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""They make text look like other text."""


@dataclass(frozen=True)
class Skipped:
    """A file that was left out, and the reason in plain words."""

    path: str
    reason: str
    unread: bool = False
    """Whether it may be readable later: a remote object, a shard that is damaged or away."""


class Vote(NamedTuple):
    """The label that one person gave to an image; ``annotator`` may be empty."""

    annotator: str
    label: str


FOLDER_NAME = "folder"
"""How an image was drawn whose label is the name of the folder that somebody sorted it into."""


@dataclass(frozen=True)
class LabelRow:
    """What one row of a label table states about the image ``key``; an empty field states nothing.

    Labels in an array and class folders become such rows too.
    """

    key: str
    where: str
    """File and line, for messages."""
    label: str = ""
    split: str = ""
    group: str = ""
    source: str = ""
    """Where the label comes from, in a table that surelabel wrote; a ``LabelSource``."""
    drawn: str = ""
    """By which ``Strategy`` the image was drawn, in a table that surelabel wrote."""
    annotator: str = ""
    """Who gave the label."""
    votes: tuple[Vote, ...] = ()
    """In a merged row: the labels of several people, from which ``label`` follows."""

    @property
    def all_votes(self) -> tuple[Vote, ...]:
        """The labels that people gave the image, one per person."""
        return self.votes or ((Vote(self.annotator, self.label),) if self.label else ())

    @property
    def is_chosen(self) -> bool:
        """Whether the image was chosen by what it looks like: it is no part of a random sample."""
        return self.drawn in (Strategy.COVERAGE, Strategy.UNCERTAIN, FOLDER_NAME)

    def __post_init__(self) -> None:
        problem = name_problem(self.label)
        if problem:
            raise LabelsError(f"{self.where}: the label {problem}. Give the class another name.")
        for what, name in (("annotator", self.annotator), ("group", self.group)):
            problem = name_problem(name)
            if problem:
                raise LabelsError(f"{self.where}: the {what} {problem}. Give another name.")
        if self.is_chosen and self.split in (Split.TUNE, Split.CERTIFY):
            raise LabelsError(
                f"{self.where}: '{self.key}' was drawn by the strategy {self.drawn}, which is no "
                f"random sample, so its split cannot be {self.split}: empty it. To certify, draw "
                "at random: surelabel draw IMAGES --certify 1 --without THIS-TABLE."
            )
        if self.split and self.split not in _GIVEN_SPLITS:
            raise LabelsError(
                f"{self.where}: the split is '{self.split}'; it can be train, tune or certify, "
                "or empty."
            )


@dataclass(frozen=True)
class Source:
    """N images that exist, with the labels that came with them."""

    name: str
    """What the user called it, for messages."""
    root: Path | None
    """The folder that keys are relative to; None for arrays."""
    keys: tuple[str, ...]
    """(N,) what ids are made from."""
    files: tuple[str, ...]
    """(N,) where their bytes are (see ``locations``); empty strings for arrays."""
    array: Pixels | None = None
    """(N, H, W) or (N, H, W, C), where the images are not files."""
    label_rows: tuple[LabelRow, ...] = ()
    """Labels, splits and groups, by key."""
    skipped: tuple[Skipped, ...] = ()
    headers: tuple[Header, ...] = ()
    """Of the first images, as far as they were read already; see ``pixels.with_headers``."""
    address: str = ""
    """The remote folder that keys are relative to, where there is one."""
    stamps: Mapping[str, str] = field(default_factory=dict)
    """Of remote files, by address: what changes when the content does."""

    @property
    def has_folders(self) -> bool:
        """Whether keys are paths below a folder, so that the folders in them may be classes."""
        return self.root is not None or bool(self.address)


def normalize_key(key: str) -> str:
    """``key`` in composed Unicode, because macOS and Linux spell the same file name differently."""
    return key if key.isascii() else unicodedata.normalize("NFC", key)


def name_problem(name: str) -> str:
    """Why ``name`` cannot be the name of a class, as the rest of a sentence; empty if it can be.

    Terminals, pages, folders and tables show these names.
    """
    if len(name) > MAX_NAME:
        return f"has {len(name):,} characters, and {MAX_NAME} are allowed"
    for character in name:
        if unicodedata.category(character) in _CONTROLS or character in _BIDIRECTIONAL:
            return f"holds the control character U+{ord(character):04X}"
    return ""


def item_id(key: str) -> str:
    """16 hexadecimal digits that depend on nothing but the key (a path relative to the root)."""
    return hashlib.sha256(normalize_key(key).encode()).hexdigest()[:ID_LENGTH]


def item_ids(keys: Iterable[str]) -> Ids:
    """The ids of ``keys``, (N,) in the same order."""
    return string_array(map(item_id, keys))


def string_array(values: Iterable[str]) -> Ids:
    """``values`` as an array of strings; NumPy alone would make an empty one of floats."""
    given, parts = iter(values), [np.array([], dtype=np.str_)]
    while part := list(itertools.islice(given, _AT_ONCE)):
        parts.append(np.array(part, dtype=np.str_))
    return concatenate(parts) if len(parts) > 2 else parts[-1]


def absolute(path: str | os.PathLike[str]) -> str:
    """``path`` from the root, without ``..``; links stay, because people recognize them."""
    return os.path.normpath(Path(path).absolute())


def class_order(names: Iterable[str]) -> tuple[str, ...]:
    """The distinct ``names`` in natural order."""
    return tuple(sorted(set(names), key=natural_key))


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """A sort key under which "2" comes before "10" and "a2" before "a10"."""
    parts = [part for part in _DIGITS.split(name.casefold()) if part]
    pieces = [(0, int(p), "") if p.isdecimal() else (1, 0, p) for p in parts]
    return (*pieces, (-1, 0, name))


def merge_label_rows(rows: Iterable[LabelRow]) -> dict[str, LabelRow]:
    """One row for each key, or a ``LabelsError`` that names both places of a contradiction.

    Of labels by several people the majority counts; ``LabelRow.votes`` keeps all of them.
    Keys are in the order of their last row, so a table that was drawn at random keeps its order.
    Pseudo-labels are refused: only people's labels are given.
    """
    merged: dict[str, LabelRow] = {}
    for row in rows:
        if row.label and row.source == LabelSource.PSEUDO:
            raise LabelsError(
                f"{row.where} has a pseudo-label (source {LabelSource.PSEUDO}), not a person's: "
                "empty it, or keep only rows whose source is given or reviewed."
            )
        known = merged.pop(row.key, None)
        merged[row.key] = row if known is None else merge_rows(known, row)
    return merged


def majority(votes: Iterable[Vote]) -> str:
    """The label that most people gave; empty if several labels have most votes."""
    counts = Counter(vote.label for vote in votes).most_common(2)
    tied = len(counts) == 2 and counts[0][1] == counts[1][1]
    return "" if tied or not counts else counts[0][0]


def merge_rows(first: LabelRow, second: LabelRow) -> LabelRow:
    """What two rows state about one image, or a ``LabelsError`` if they contradict each other.

    Different people may give different labels: then the majority counts, and none at a tie.
    """
    for name in ("split", "group"):
        one, other = getattr(first, name), getattr(second, name)
        if one and other and one != other:
            raise LabelsError(_contradiction(first, second, name, one, other))
    for one, other in itertools.product(first.all_votes, second.all_votes):
        is_person = one.annotator and other.annotator and one.annotator != other.annotator
        if one.label != other.label and not is_person:
            raise LabelsError(_contradiction(first, second, "label", one.label, other.label))
    votes = tuple(dict.fromkeys(first.all_votes + second.all_votes))
    return LabelRow(
        key=first.key,
        where=first.where if first.all_votes or not second.all_votes else second.where,
        label=majority(votes),
        split=first.split or second.split,
        group=first.group or second.group,
        drawn=first.drawn if first.is_chosen else second.drawn,
        votes=votes if any(vote.annotator for vote in votes) else (),
    )


def _contradiction(first: LabelRow, second: LabelRow, name: str, one: str, other: str) -> str:
    people = " If two people gave them, say who in a column 'annotator'."
    return (
        f"{second.where}: '{second.key}' has the {name} '{other}', and '{one}' in "
        f"{first.where}. Keep one of the two.{people if name == 'label' else ''}"
    )


def similar_names(names: Iterable[str]) -> list[list[str]]:
    """Groups of class names that differ only in case, spaces, hyphens or Unicode form."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(_spelling_key(name), []).append(name)
    return [group for group in groups.values() if len(group) > 1]


def one_spelling(rows: Mapping[str, LabelRow]) -> dict[str, LabelRow]:
    """``rows`` with the labels of ``similar_names`` spelled as most rows spell them."""
    counts = Counter(row.label for row in rows.values() if row.label)
    chosen = {
        name: max(group, key=lambda each: (counts[each], each))
        for group in similar_names(counts)
        for name in group
    }
    return {
        key: replace(
            row,
            label=chosen.get(row.label, row.label),
            votes=tuple(Vote(v.annotator, chosen.get(v.label, v.label)) for v in row.votes),
        )
        for key, row in rows.items()
    }


def _spelling_key(name: str) -> str:
    return re.sub(r"[\s_-]+", " ", unicodedata.normalize("NFKC", name).casefold()).strip()
