"""The promise of a run: reads the certify labels once, at the end, and remembers that it did.

What is promised, to whom and why it holds: ``surelabel.accept.certify`` and ``docs/promise.md``.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from surelabel.accept import (
    CertifySample,
    Finding,
    Verdict,
    bound_at,
    certify_families,
    count_at,
    families,
    parse_wishes,
)
from surelabel.catalog import Catalog, certify_population
from surelabel.config import Config
from surelabel.runs import POOL_TABLE, RoundFiles, RunFolder
from surelabel.types import BoolArray, FloatArray, Ids, IntArray, Split


@dataclass(frozen=True)
class Part:
    """What is known of one part of the accepted labels: all, some classes, or one class."""

    name: str
    """The class; empty for all, or for all classes without a wish of their own."""
    finding: str
    """A ``Finding``; "bound" where no error was wished and the bound is what it is."""
    error: float
    """At most this share is wrong. With a refusal: what was wished."""
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
        return self.finding in (Finding.CERTIFIED, "bound")


@dataclass(frozen=True)
class Look:
    """One look at the certify labels, as kept in ``promise.json``."""

    subject: str
    """Digest of the round's scores and of the wishes: what the look was about."""
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
    """Pool images that the promise does not cover: of groups that were trained or tuned on."""
    parts: tuple[Part, ...]
    classes: tuple[Part, ...] = ()
    """Bounds by predicted class, all together at the confidence; where the fence was fixed."""
    spent: bool = False
    """The certify labels were used up by earlier looks."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Look:
        """The reverse of ``to_json``."""
        lists = {key: tuple(Part(**part) for part in values[key]) for key in ("parts", "classes")}
        return cls(**{**values, **lists, "certify": tuple(values["certify"])})

    @property
    def holds(self) -> bool:
        """Whether anything is promised."""
        return any(part.holds for part in self.parts)


def standing_promise(folder: RunFolder) -> Look | None:
    """What was seen about the labels as they are now; None before, and after relabelling."""
    last, looks = folder.last_round(), folder.read_looks()
    if last is None or not looks:
        return None
    look = Look.from_json(looks[-1])
    return look if look.subject == _subject(last, folder.config) else None


def renew_promise(folder: RunFolder, pool_ids: Ids) -> Look | None:
    """Look at the certify labels, if there are any and this has not been done yet.

    ``pool_ids`` are the images that the run labels, certify images among them.
    """
    last, standing = folder.last_round(), standing_promise(folder)
    looks = [Look.from_json(values) for values in folder.read_looks()]
    catalog = folder.catalog
    population, certify = certify_population(catalog, pool_ids)
    if last is None or not len(certify) or is_refused(last.metrics):
        return standing
    known = set().union(*(look.certify for look in looks))
    if standing is not None and not set(certify.tolist()) - known:
        return standing
    look = _look(folder, last, looks, population, certify)
    folder.write_looks([*folder.read_looks(), look.to_json()])
    return look


def is_refused(metrics: Mapping[str, Any]) -> bool:
    """Whether a round's labels are not to be accepted, whatever certify labels say: adapted ones
    that were not shown to be better than what is there without adaptation.
    """
    found = metrics.get("learner", {}).get("adaptation")
    return found is not None and not found["is_trusted"]


def apply_promise(pool: pd.DataFrame, look: Look | None, classes: Sequence[str]) -> pd.DataFrame:
    """A pool table whose labels follow the certified thresholds where there are any.

    A label that the fence had not accepted was not trained on, so its weight stays 0.
    """
    certified = [p for p in look.parts if p.finding == Finding.CERTIFIED] if look else []
    for part in certified:
        assert part.threshold is not None
        guess = pool["guess"].to_numpy()
        inside = _members(part.name, [p.name for p in look.parts] if look else [], classes)[guess]
        accepted = inside & (_scores(pool) <= part.threshold)
        pool = pool.assign(
            threshold=np.where(inside, part.threshold, pool["threshold"]),
            accepted=np.where(inside, accepted, pool["accepted"]).astype(bool),
            label=np.where(inside, np.where(accepted, guess, -1), pool["label"]),
            round=np.where(
                accepted & (pool["round"] == 0), look.round if look else 0, pool["round"]
            ),
            weight=np.where(inside & ~accepted, 0.0, pool["weight"]),
        )
    return pool


def promised_thresholds(look: Look | None, classes: Sequence[str]) -> FloatArray:
    """(K,) the certified threshold for guesses of each class; nan where the fence stands."""
    thresholds = np.full(len(classes), np.nan)
    for part in look.parts if look else ():
        if part.finding == Finding.CERTIFIED and part.threshold is not None and look:
            inside = _members(part.name, [p.name for p in look.parts], classes)
            thresholds[inside] = part.threshold
    return thresholds


def _members(name: str, names: list[str], classes: Sequence[str]) -> BoolArray:
    """(K,) the classes of a part: the one it names, or all that no part names."""
    if name:
        return np.array([each == name for each in classes])
    return np.array([each not in names for each in classes])


def _look(
    folder: RunFolder, last: RoundFiles, looks: Sequence[Look], population: Ids, certify: Ids
) -> Look:
    config = folder.config
    certify, population, spent = _unspent(looks, certify, population, config.look_share)
    pool = last.read_table(POOL_TABLE)
    covered = pool[pool["id"].isin(population)]
    others = folder.catalog.splits[folder.catalog.rows(pool["id"].to_numpy())] != Split.CERTIFY
    classes = tuple(last.metrics["classes"])
    guess = covered["guess"].to_numpy()
    sample = _sample(folder.catalog, covered, certify, classes)
    fence = covered["accepted"].to_numpy()
    delta = (1 - config.confidence) * config.look_share
    parts: tuple[Part, ...] = ()
    by_class: tuple[Part, ...] = ()
    wishes = parse_wishes(config.max_error)
    if wishes and not spent:
        wanted = families(wishes, classes)
        verdicts = certify_families(sample, guess, wanted, delta)
        parts = tuple(_from_verdict(name, verdict) for name, verdict in verdicts.items())
    elif not spent:
        parts = (_bound("", sample, fence, delta),)
        by_class = tuple(
            _bound(name, sample, fence & (guess == k), delta / len(classes))
            for k, name in enumerate(classes)
        )
    return Look(
        subject=_subject(last, config),
        round=last.number,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        confidence=config.confidence,
        share=config.look_share,
        certify=tuple(sorted(certify.tolist())),
        read=any(part.finding != Finding.TOO_FEW for part in parts),
        in_groups=len(sample.drawn) < len(sample.scores),
        n_outside=int((others & ~pool["id"].isin(population).to_numpy()).sum()),
        parts=parts,
        classes=by_class,
        spent=spent,
    )


def _unspent(
    looks: Sequence[Look], certify: Ids, population: Ids, share: float
) -> tuple[Ids, Ids, bool]:
    """The certify images that may be read now, what they are a sample of, and if there are none.

    All of them, while the shares of all looks at any of them add up to 1 at most. After that
    only fresh ones: given those that were read, they are a random sample of the rest.
    """
    earlier = [set(look.certify) for look in looks if look.read]
    known = set(certify.tolist())
    used = sum(look.share for look in looks if look.read and known & set(look.certify))
    if used + share <= 1 + 1e-9:
        return certify, population, False
    seen = np.array(sorted(set().union(*earlier)), dtype=np.str_)
    fresh = certify[~np.isin(certify, seen)]
    if not len(fresh):
        return certify, population, True
    return fresh, population[~np.isin(population, seen)], False


def _sample(
    catalog: Catalog, covered: pd.DataFrame, certify: Ids, classes: Sequence[str]
) -> CertifySample:
    """The pool as the test sees it. Passed over and none of these differ from every guess."""
    ids = covered["id"].to_numpy().astype(np.str_)
    rows = catalog.rows(ids)
    number = {name: k for k, name in enumerate(classes)}
    own = np.array([*(number.get(name, -3) for name in catalog.classes), -2, -1])
    return CertifySample(
        scores=_scores(covered),
        units=_units(catalog.groups[rows]),
        checked=np.isin(ids, certify),
        wrong=own[catalog.labels[rows]] != covered["guess"].to_numpy(),
    )


def _units(groups: Ids) -> IntArray:
    """(N,) the sampling unit of each image, numbered from 0: its group, or itself."""
    alone = np.array([f"\x00{i}" for i in range(len(groups))], dtype=object)
    names = np.where(groups == "", alone, groups.astype(object)).astype(np.str_)
    _, units = np.unique(names, return_inverse=True)
    return units.astype(np.int64)


def _scores(pool: pd.DataFrame) -> np.typing.NDArray[np.float64]:
    """Scores, and inf for strangers: those are never accepted."""
    scores = pool["score"].to_numpy(dtype=np.float64)
    return np.where(pool["stranger"].to_numpy(dtype=bool), np.inf, scores)


def _from_verdict(name: str, verdict: Verdict) -> Part:
    certified = verdict.finding is Finding.CERTIFIED
    count = verdict.count
    return Part(
        name,
        str(verdict.finding),
        verdict.max_error,
        verdict.threshold if certified else None,
        count.n_accepted,
        count.n_checked,
        count.n_wrong,
        verdict.least_error,
        verdict.n_needed,
    )


def _bound(name: str, sample: CertifySample, accepted: BoolArray, delta: float) -> Part:
    count = count_at(sample, accepted)
    most = bound_at(sample, accepted, delta)
    error = most / count.n_accepted if count.n_accepted else math.nan
    known = count.n_checked > 0 and error < 1
    finding = "bound" if known else str(Finding.TOO_FEW)
    counts = (count.n_accepted, count.n_checked, count.n_wrong)
    return Part(name, finding, error if known else 1.0, None, *counts)


def _subject(last: RoundFiles, config: Config) -> str:
    facts = [last.digests()[POOL_TABLE], config.max_error, str(config.confidence)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()
