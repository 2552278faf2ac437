"""The record of every time that a run read its certify labels, kept in ``certification.json``.

Each reading is one more statistical test on the same labels and uses up a share of alpha, which is
1 - confidence. So a run records what it tested, which labels it read, how much of alpha that used
and what came of it. Once alpha is spent, the same labels cannot certify anything again.
``workflows.certify`` decides; this module only holds the facts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from surelabel.guarantees.certification import CertificationStatus
from surelabel.guarantees.targets import Scope
from surelabel.types import BoolArray, FloatArray, JsonObject

BOUND = "bound"
"""Status of a part without a target: the bound at the threshold from tune labels."""


@dataclass(frozen=True)
class CertifiedPart:
    """What is known about the finished dataset, the accepted labels, or those of some classes."""

    name: str
    """The predicted class; empty for all classes, or for all without a target of their own."""
    scope: str
    """A ``Scope``: all labels of the finished dataset, or accepted ones."""
    status: str
    """A ``CertificationStatus``, or ``BOUND`` where there is no target."""
    error: float
    """At most this share of ``n_labels`` is wrong. Where nothing could be certified: the target."""
    threshold: float | None
    """Scores up to it are accepted; None where the threshold from tune labels stays."""
    n_labels: int
    """Labels that ``error`` is a share of: human and accepted ones, or all of the dataset."""
    n_accepted: int
    """Images accepted in the pool, certify images included."""
    n_checked: int
    """Sampling units (images or groups) of those that have certify labels."""
    n_wrong: int
    """Units of those with a wrong prediction."""
    smallest_error: float = 1.0
    """The smallest error that these certify labels could show if none were wrong."""
    n_needed: int = 0
    """Units that have to be accepted and checked, with none wrong, to show the target."""
    look: int = 1
    """Of a sample that grows: the look that showed it."""

    @property
    def is_certified(self) -> bool:
        """Whether its threshold was certified for its target."""
        return self.status == CertificationStatus.CERTIFIED

    @property
    def holds(self) -> bool:
        """Whether ``error`` is guaranteed."""
        return (self.is_certified or self.status == BOUND) and self.error < 1


@dataclass(frozen=True)
class CertificationRecord:
    """One reading of the certify labels, or the reason why they were not read."""

    subject: str
    """Digest of the round's scores and of the targets: what was tested."""
    round: int
    at: str
    """UTC time."""
    confidence: float
    alpha_share: float
    """Share of alpha = 1 - confidence that the reading used up."""
    certify_ids: tuple[str, ...]
    """Images whose labels were read, or would have been."""
    labels_read: bool
    """False if there were too few labels to show anything, or none that may still be read."""
    in_groups: bool
    """Whether the sampling units are groups of images."""
    n_not_covered: int
    """Pool images that it does not cover: the certify images are no sample of them."""
    parts: tuple[CertifiedPart, ...]
    by_class: tuple[CertifiedPart, ...] = ()
    """Bounds by predicted class, which hold together; only where there is no target."""
    alpha_spent: bool = False
    """Earlier readings used up alpha for all of these certify labels."""
    pool_changed: bool = False
    """The pool is no longer the one that the certify images were drawn from."""
    unused_ids: tuple[str, ...] = ()
    """Certify images that were not used: they were drawn from another part of the pool."""
    unlabeled_ids: tuple[str, ...] = ()
    """Certify images, and others of their groups, that nobody labeled: they are left to people."""
    labels_digest: str = ""
    """Digest of the labels of ``certify_ids``: correcting one later ends the certification."""

    def to_json(self) -> JsonObject:
        """Plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: JsonObject) -> CertificationRecord:
        """The reverse of ``to_json``."""
        parts = {
            key: tuple(CertifiedPart(**part) for part in values[key])
            for key in ("parts", "by_class")
        }
        ids = {key: tuple(values[key]) for key in ("certify_ids", "unused_ids", "unlabeled_ids")}
        return cls(**{**values, **parts, **ids})

    @property
    def holds(self) -> bool:
        """Whether anything is guaranteed."""
        return any(part.holds for part in self.parts)

    @property
    def certified_parts(self) -> tuple[CertifiedPart, ...]:
        """The parts with a certified threshold."""
        return tuple(part for part in self.parts if part.is_certified)

    def thresholds(self, classes: Sequence[str]) -> FloatArray:
        """(K,) the certified threshold per predicted class; nan where there is none.

        The target of a class counts before that of the dataset, which it does not exceed.
        """
        thresholds = np.full(len(classes), np.nan)
        for part in sorted(self.certified_parts, key=lambda part: part.scope != Scope.DATASET):
            assert part.threshold is not None
            thresholds[self.members(part, classes)] = part.threshold
        return thresholds

    def members(self, part: CertifiedPart, classes: Sequence[str]) -> BoolArray:
        """(K,) the classes of a part: all, the one it names, or all that no part names."""
        if part.scope == Scope.DATASET:
            return np.ones(len(classes), dtype=bool)
        if part.name:
            return np.array([name == part.name for name in classes])
        named = [each.name for each in self.parts if each.name]
        return np.array([name not in named for name in classes])
