"""Targets for the error of accepted labels: overall, for single classes, or for every class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from surelabel.errors import OptionError
from surelabel.guarantees.certification import (
    CertificationResult,
    CertifySample,
    certified_threshold,
)
from surelabel.types import BoolArray, IntArray

OTHER_CLASSES = ""
"""The name under which all classes without a target of their own are certified together."""
_EACH = "each"


@dataclass(frozen=True)
class ErrorTargets:
    """The largest error of accepted labels that the user allows, as shares."""

    others: float | None = None
    """For all classes without a target of their own, together."""
    each: float | None = None
    """For every class by itself."""
    by_class: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.others is not None or self.each is not None or bool(self.by_class)


@dataclass(frozen=True)
class ClassTarget:
    """The largest error allowed for labels of one class, or of several classes together."""

    max_error: float
    members: BoolArray
    """(K,) the classes that it is for."""


def parse_targets(text: str) -> ErrorTargets:
    """``0.02``, ``OK=0.001``, ``0.02,OK=0.001`` or ``each=0.05``; empty: no target."""
    others, each, by_class = None, None, {}
    for part in (p.strip() for p in text.split(",") if p.strip()):
        name, _, number = part.rpartition("=")
        share = _share(number.strip(), text)
        name = name.strip()
        if not name:
            others = share
        elif name == _EACH:
            each = share
        else:
            by_class[name] = share
    if others is not None and each is not None:
        raise OptionError(
            f"max_error is '{text}': give one number for all classes together or each=NUMBER for "
            "every class, not both."
        )
    return ErrorTargets(others, each, by_class)


def class_targets(targets: ErrorTargets, classes: Sequence[str]) -> dict[str, ClassTarget]:
    """What has to be certified, by name; no class is in two of the targets.

    Each class with a target of its own stands under its name. The classes without one stand
    together under ``OTHER_CLASSES`` if there is a target for them, and nowhere otherwise.
    """
    unknown = [name for name in targets.by_class if name not in classes]
    if unknown:
        raise OptionError(
            f"max_error names the class '{unknown[0]}', and the classes are {', '.join(classes)}."
        )
    by_name = {}
    has_own = np.zeros(len(classes), dtype=bool)
    for k, name in enumerate(classes):
        max_error = targets.by_class.get(name, targets.each)
        if max_error is not None:
            has_own[k] = True
            by_name[name] = ClassTarget(max_error, np.arange(len(classes)) == k)
    if targets.others is not None and not has_own.all():
        by_name[OTHER_CLASSES] = ClassTarget(targets.others, ~has_own)
    return by_name


def certify_targets(
    sample: CertifySample, guess: IntArray, targets: Mapping[str, ClassTarget], delta: float
) -> dict[str, CertificationResult]:
    """A result for each target; all certified errors hold together with probability 1 - delta.

    The pool of a target is what was predicted to be of its classes; ``guess`` (N,) does not depend
    on certify labels. Each of F targets gets delta / F (Bonferroni).
    """
    share = delta / max(1, len(targets))
    return {
        name: certified_threshold(sample.restrict(target.members[guess]), target.max_error, share)
        for name, target in targets.items()
    }


def _share(number: str, text: str) -> float:
    try:
        share = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        share = float("nan")
    if not 0 < share < 1:
        raise OptionError(
            f"max_error is '{text}'; it can be a share as 0.02 or 2%, CLASS=0.001 for one class, "
            "each=0.05 for every class, or several of them with commas between."
        )
    return share
