"""Targets for the share of wrong labels: of the finished dataset, or of the accepted labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from surelabel.config.fields import percent_hint, share_of
from surelabel.errors import OptionError
from surelabel.guarantees.certification import (
    CertificationResult,
    CertificationStatus,
    CertifySample,
    certified_dataset_threshold,
    certified_threshold,
)
from surelabel.types import BoolArray, IntArray

OTHER_CLASSES = ""
"""The name of the target of all classes without a target of their own."""
_ACCEPTED = "accepted"
_EACH = "each"


class Scope(StrEnum):
    """Which labels a target is about."""

    DATASET = "dataset"
    """All labels, once people have labeled what is left."""
    ACCEPTED = "accepted"
    """The accepted labels, of all classes or of one."""


@dataclass(frozen=True)
class ErrorTargets:
    """The largest shares of wrong labels that the user allows."""

    dataset: float | None = None
    """Of all labels of the finished dataset."""
    accepted: float | None = None
    """Of the accepted labels of all classes without a target of their own, together."""
    each: float | None = None
    """Of the accepted labels of every class by itself."""
    by_class: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        shares = (self.dataset, self.accepted, self.each)
        return any(share is not None for share in shares) or bool(self.by_class)


@dataclass(frozen=True)
class Target:
    """The largest share of wrong labels, and the labels that it is about."""

    name: str
    """The class; ``OTHER_CLASSES`` for several, and for the finished dataset."""
    scope: Scope
    max_error: float
    members: BoolArray
    """(K,) the predicted classes that it is for."""


def parse_targets(text: str) -> ErrorTargets:
    """``0.02``, ``accepted=0.02``, ``OK=0.001``, ``each=0.05``, or several; empty: no target."""
    dataset, accepted, each, by_class = None, None, None, {}
    for part in (p.strip() for p in text.split(",") if p.strip()):
        name, _, number = part.rpartition("=")
        share = _share(number.strip(), text)
        name = name.strip()
        if not name:
            dataset = share
        elif name == _ACCEPTED:
            accepted = share
        elif name == _EACH:
            each = share
        else:
            by_class[name] = share
    if accepted is not None and each is not None:
        raise OptionError(
            f"max_error is '{text}': give accepted=NUMBER for all classes together or each=NUMBER "
            "for every class, not both."
        )
    return ErrorTargets(dataset, accepted, each, by_class)


def list_targets(targets: ErrorTargets, classes: Sequence[str]) -> tuple[Target, ...]:
    """What has to be certified: the finished dataset first, then parts of the accepted labels.

    No class is in two of the parts. Each class with a target of its own stands under its name. The
    classes without one stand together if there is a target for them, and nowhere otherwise.
    """
    unknown = [name for name in targets.by_class if name not in classes]
    if unknown:
        raise OptionError(
            f"max_error names the class '{unknown[0]}', and the classes are {', '.join(classes)}."
        )
    listed = []
    everything = np.ones(len(classes), dtype=bool)
    if targets.dataset is not None:
        listed.append(Target(OTHER_CLASSES, Scope.DATASET, targets.dataset, everything))
    has_own = np.zeros(len(classes), dtype=bool)
    for k, name in enumerate(classes):
        max_error = targets.by_class.get(name, targets.each)
        if max_error is not None:
            has_own[k] = True
            this = np.arange(len(classes)) == k
            listed.append(Target(name, Scope.ACCEPTED, max_error, this))
    if targets.accepted is not None and not has_own.all():
        listed.append(Target(OTHER_CLASSES, Scope.ACCEPTED, targets.accepted, ~has_own))
    return tuple(listed)


def certify_targets(
    sample: CertifySample,
    guess: IntArray,
    targets: Sequence[Target],
    delta: float,
    *,
    n_labels: int,
) -> list[CertificationResult]:
    """A result for each target; all that is certified holds together with probability 1 - delta.

    The pool of a target is what was predicted to be of its classes; ``guess`` (N,) does not depend
    on certify labels. Each of F targets gets delta / F (Bonferroni). No class gets a looser
    threshold than the finished dataset, so both targets are kept. ``n_labels`` is the size of the
    finished dataset.
    """
    share, limit = delta / max(1, len(targets)), math.inf
    results = []
    for target in targets:
        if target.scope is Scope.DATASET:
            result = certified_dataset_threshold(sample, target.max_error, share, n_labels=n_labels)
            if result.status is CertificationStatus.CERTIFIED:
                limit = result.threshold
        else:
            part = sample.restrict(target.members[guess])
            result = certified_threshold(part, target.max_error, share, limit=limit)
        results.append(result)
    return results


def _share(number: str, text: str) -> float:
    try:
        share = share_of(number)
    except ValueError:
        share = float("nan")
    if not 0 < share < 1:
        hint = "" if number.endswith("%") else percent_hint(share)
        raise OptionError(
            f"max_error is '{text}'.{hint} It can be a share as 0.02 or 2% of the finished "
            "dataset, accepted=0.02 for the accepted labels, CLASS=0.001 for those of one class, "
            "each=0.05 for those of every class, or several of them with commas between."
        )
    return share
