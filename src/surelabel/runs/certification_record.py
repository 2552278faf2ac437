"""A look at the certify labels and what came of it, as a run keeps it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from surelabel.guarantees.certification import Finding


@dataclass(frozen=True)
class Part:
    """What is known of one part of the accepted labels: all, some classes, or one class."""

    name: str
    """The class; empty for all, or for all classes without a target of their own."""
    finding: str
    """A ``Finding``; "bound" where no error was asked and the bound is what it is."""
    error: float
    """At most this share is wrong. With a refusal: what was asked."""
    threshold: float | None
    """Scores up to it are accepted; None where the fence stands."""
    n_accepted: int
    n_checked: int
    n_wrong: int
    least_error: float = 1.0
    n_needed: int = 0

    @property
    def holds(self) -> bool:
        """Whether ``error`` is promised."""
        return self.finding in (Finding.CERTIFIED, "bound") and self.error < 1


@dataclass(frozen=True)
class CertificationRecord:
    """One look at the certify labels, as kept in ``certification.json``."""

    subject: str
    """Digest of the round's scores and of the targets: what the look was about."""
    round: int
    at: str
    confidence: float
    share: float
    """Share of 1 - confidence that it used up."""
    certify: tuple[str, ...]
    """Ids whose labels were read, or would have been."""
    read: bool
    """Whether labels were read: not when there were too few of them, or none left unread."""
    in_groups: bool
    n_outside: int
    """Pool images that the promise does not cover: the certify images are no sample of them."""
    parts: tuple[Part, ...]
    classes: tuple[Part, ...] = ()
    """Bounds by predicted class, all together at the confidence; where the fence was fixed."""
    spent: bool = False
    """The certify labels were used up by earlier looks."""
    stale: bool = False
    """The pool is not what they were drawn from any more."""
    left: tuple[str, ...] = ()
    """Certify images that were passed over: drawn from another part of the pool."""
    labels: str = ""
    """Digest of the labels of ``certify``: who corrects one later ends the promise."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> CertificationRecord:
        """The reverse of ``to_json``."""
        lists = {key: tuple(Part(**part) for part in values[key]) for key in ("parts", "classes")}
        ids = {key: tuple(values.get(key, ())) for key in ("certify", "left")}
        return cls(**{**values, **lists, **ids})

    @property
    def holds(self) -> bool:
        """Whether anything is promised."""
        return any(part.holds for part in self.parts)
