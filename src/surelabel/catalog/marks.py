"""What people said about images: label, split and group, and where they said it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from surelabel.errors import LabelsError
from surelabel.types import LabelSource, Split

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
