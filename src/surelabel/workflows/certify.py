"""Certification of a run: reads the certify labels once, at the end, and records that it did."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd

from surelabel.config.settings import Config
from surelabel.dataset.sampling import drawn_from
from surelabel.dataset.splits import certify_population
from surelabel.guarantees.certification import CertifySample, Finding, Verdict, bound_at, count_at
from surelabel.guarantees.targets import certify_families, families, parse_targets
from surelabel.runs.answers import Answer, AnswerKind, Purpose
from surelabel.runs.certification_record import CertificationRecord, Part
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import POOL_TABLE, RoundFiles
from surelabel.types import (
    NONE_OF_THESE,
    BoolArray,
    FloatArray,
    Ids,
    IntArray,
    Split,
)


def standing_certification(folder: RunFolder) -> CertificationRecord | None:
    """What was seen about the labels as they are now; None before, and after relabeling."""
    last, looks = folder.last_round(), folder.read_certifications()
    if last is None or not looks:
        return None
    look = CertificationRecord.from_json(looks[-1])
    same = look.subject == _subject(last, folder.config)
    corrected = look.labels not in ("", _labels_digest(folder, look.certify))
    return look if same and not corrected else None


def certify_run(folder: RunFolder, pool_ids: Ids) -> CertificationRecord | None:
    """CertificationRecord at the certify labels, if there are any and this has not been done yet.

    ``pool_ids`` are the images that the run labels, certify images among them.
    """
    last, standing = folder.last_round(), standing_certification(folder)
    looks = [CertificationRecord.from_json(values) for values in folder.read_certifications()]
    catalog = folder.catalog
    population, certify = certify_population(catalog, pool_ids)
    if last is None or not len(certify) or is_refused(last.metrics):
        return standing
    known = set().union(*(look.certify + look.left for look in looks if not look.stale))
    waits = standing is None or standing.stale or bool(set(certify.tolist()) - known)
    if not waits:
        return standing
    look = _look(folder, last, looks, pool_ids, population, certify)
    if standing is not None and standing.holds and not look.read:
        return standing
    if standing is not None and standing.stale and look.stale:
        return standing
    folder.write_certifications([*folder.read_certifications(), look.to_json()])
    return look


def is_refused(metrics: Mapping[str, Any]) -> bool:
    """Whether a round's labels are not to be accepted, whatever certify labels say: adapted ones
    that were not shown to be better than what is there without adaptation.
    """
    found = metrics.get("learner", {}).get("adaptation")
    return found is not None and not found["is_trusted"]


def apply_certification(
    pool: pd.DataFrame, look: CertificationRecord | None, classes: Sequence[str]
) -> pd.DataFrame:
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


def certified_thresholds(look: CertificationRecord | None, classes: Sequence[str]) -> FloatArray:
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
    folder: RunFolder,
    last: RoundFiles,
    looks: Sequence[CertificationRecord],
    pool_ids: Ids,
    population: Ids,
    certify: Ids,
) -> CertificationRecord:
    config = folder.config
    there = set(certify.tolist())
    certify, population, spent = _unspent(looks, certify, population, config.alpha_share)
    part = None if spent else drawn_from(folder.catalog, pool_ids, population, certify)
    population, certify = part or (population, certify)
    pool = last.read_table(POOL_TABLE)
    covered = pool[pool["id"].isin(population)]
    others = folder.catalog.splits[folder.catalog.rows(pool["id"].to_numpy())] != Split.CERTIFY
    classes = tuple(last.metrics["classes"])
    guess = covered["guess"].to_numpy()
    sample = _sample(folder, covered, certify, classes)
    fence = covered["accepted"].to_numpy()
    delta = (1 - config.confidence) * config.alpha_share
    parts: tuple[Part, ...] = ()
    by_class: tuple[Part, ...] = ()
    targets = parse_targets(config.max_error)
    if targets and part:
        wanted = families(targets, classes)
        verdicts = certify_families(sample, guess, wanted, delta)
        parts = tuple(_from_verdict(name, verdict) for name, verdict in verdicts.items())
    elif part:
        parts = (_bound("", sample, fence, delta),)
        by_class = tuple(
            _bound(name, sample, fence & (guess == k), delta / len(classes))
            for k, name in enumerate(classes)
        )
    return CertificationRecord(
        subject=_subject(last, config),
        round=last.number,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        confidence=config.confidence,
        share=config.alpha_share,
        certify=tuple(sorted(certify.tolist())),
        read=any(part.finding != Finding.TOO_FEW for part in parts),
        in_groups=len(sample.drawn) < len(sample.scores),
        n_outside=int((others & ~pool["id"].isin(population).to_numpy()).sum()),
        parts=parts,
        classes=by_class,
        spent=spent,
        stale=not (part or spent),
        left=tuple(sorted(there - set(certify.tolist()))),
        labels=_labels_digest(folder, certify.tolist()),
    )


def _unspent(
    looks: Sequence[CertificationRecord], certify: Ids, population: Ids, share: float
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


def answers_of_new_classes(folder: RunFolder) -> dict[str, Answer]:
    """Certify labels from the page whose class came by review: the catalog has no number for it."""
    catalog = folder.catalog
    nameless = set(catalog.ids[catalog.labels == NONE_OF_THESE].tolist())
    answers = folder.answers.standing(purpose=Purpose.CERTIFY)
    return {i: a for i, a in answers.items() if a.kind is AnswerKind.LABEL and i in nameless}


def _sample(
    folder: RunFolder, covered: pd.DataFrame, certify: Ids, classes: Sequence[str]
) -> CertifySample:
    """The pool as the test sees it. Passed over and none of these differ from every guess."""
    catalog = folder.catalog
    ids = covered["id"].to_numpy().astype(np.str_)
    rows = catalog.rows(ids)
    number = {name: k for k, name in enumerate(classes)}
    own = np.array([*(number.get(name, -3) for name in catalog.classes), -2, -1])
    labels = own[catalog.labels[rows]]
    for item_id, answer in answers_of_new_classes(folder).items():
        labels[ids == item_id] = number.get(answer.label or "", -3)
    return CertifySample(
        scores=_scores(covered),
        units=_units(catalog.groups[rows]),
        checked=np.isin(ids, certify),
        wrong=labels != covered["guess"].to_numpy(),
    )


def _units(groups: Ids) -> IntArray:
    """(N,) the sampling unit of each image, numbered from 0: its group, or itself."""
    alone = np.array([f"\x00{i}" for i in range(len(groups))], dtype=object)
    names = np.where(groups == "", alone, groups.astype(object)).astype(np.str_)
    _, units = np.unique(names, return_inverse=True)
    return units.astype(np.int64)


def _scores(pool: pd.DataFrame) -> np.typing.NDArray[np.float64]:
    """Scores, and inf for outliers: those are never accepted."""
    scores = pool["score"].to_numpy(dtype=np.float64)
    return np.where(pool["outlier"].to_numpy(dtype=bool), np.inf, scores)


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
    known = count.n_checked > 0
    finding = "bound" if known else str(Finding.TOO_FEW)
    counts = (count.n_accepted, count.n_checked, count.n_wrong)
    return Part(name, finding, error if known else 1.0, None, *counts)


def _labels_digest(folder: RunFolder, certify: Sequence[str]) -> str:
    """Of what people say the ``certify`` images are."""
    catalog, named = folder.catalog, answers_of_new_classes(folder)
    labels = catalog.labels_of(np.array(certify, dtype=np.str_)).tolist()
    words = [
        f"{item_id} {named[item_id].label if item_id in named else label}"
        for item_id, label in sorted(zip(certify, labels, strict=True))
    ]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def _subject(last: RoundFiles, config: Config) -> str:
    facts = [last.digests()[POOL_TABLE], config.max_error, str(config.confidence)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()
