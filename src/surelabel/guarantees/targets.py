"""How wrong the user lets labels be: for all classes together, for some of them, or for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from surelabel.errors import OptionError
from surelabel.guarantees.certification import CertifySample, Verdict, certified_threshold
from surelabel.types import BoolArray, FloatArray, IntArray

#: The name under which classes without a target of their own are judged together.
REST = ""
_EACH = "each"


@dataclass(frozen=True)
class ErrorTargets:
    """The largest error of accepted labels, as shares."""

    rest: float | None = None
    """For all classes without a target of their own, together."""
    each: float | None = None
    """For every class by itself."""
    by_class: Mapping[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.rest is not None or self.each is not None or bool(self.by_class)


def parse_targets(text: str) -> ErrorTargets:
    """``0.02``, ``OK=0.001``, ``0.02,OK=0.001`` or ``each=0.05``; empty: no target."""
    rest, each, by_class = None, None, {}
    for part in (p.strip() for p in text.split(",") if p.strip()):
        name, _, number = part.rpartition("=")
        share = _share(number.strip(), text)
        name = name.strip()
        if not name:
            rest = share
        elif name == _EACH:
            each = share
        else:
            by_class[name] = share
    if rest is not None and each is not None:
        raise OptionError(
            f"max_error is '{text}': give one number for all classes together or each=NUMBER for "
            "every class, not both."
        )
    return ErrorTargets(rest, each, by_class)


def families(targets: ErrorTargets, classes: Sequence[str]) -> dict[str, tuple[float, BoolArray]]:
    """Disjoint sets of classes, each with its largest error: name -> (error, (K,) members).

    Each class with a target is a family; classes without one are the family ``REST``, if there is a
    target for them, and otherwise in none.
    """
    unknown = [name for name in targets.by_class if name not in classes]
    if unknown:
        raise OptionError(
            f"max_error names the class '{unknown[0]}', and the classes are {', '.join(classes)}."
        )
    found = {}
    own = np.zeros(len(classes), dtype=bool)
    for k, name in enumerate(classes):
        error = targets.by_class.get(name, targets.each)
        if error is not None:
            own[k] = True
            found[name] = (error, np.arange(len(classes)) == k)
    if targets.rest is not None and not own.all():
        found[REST] = (targets.rest, ~own)
    return found


def certify_families(
    sample: CertifySample,
    guess: IntArray,
    wanted: Mapping[str, tuple[float, BoolArray]],
    delta: float,
) -> dict[str, Verdict]:
    """A verdict for each family, all together with probability 1 - delta.

    The pool of a family is what was guessed to be of its classes; (N,) ``guess`` knows no certify
    label. F families get delta / F each (Bonferroni), so all promises hold at once.
    """
    share = delta / max(1, len(wanted))
    return {
        name: certified_threshold(sample.part(members[guess]), error, share)
        for name, (error, members) in wanted.items()
    }


def class_thresholds(
    verdicts: Mapping[str, Verdict],
    wanted: Mapping[str, tuple[float, BoolArray]],
    fallback: FloatArray,
) -> FloatArray:
    """(K,) the threshold of each guessed class: the certified one, or the ``fallback`` (K,)."""
    thresholds = fallback.astype(np.float64).copy()
    for name, verdict in verdicts.items():
        if verdict.threshold > -np.inf:
            thresholds[wanted[name][1]] = verdict.threshold
    return thresholds


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
