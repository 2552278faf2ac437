"""Certify the labels of a run with its certify labels, which are read once, at the end.

A certified threshold then takes the place of the one from tune labels. Every reading of certify
labels is recorded in the run folder: ``runs.certification_record``. The statistics are in
``guarantees.certification``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import pandas as pd

from surelabel.config.settings import Config
from surelabel.dataset.catalog import CertifyDraw
from surelabel.dataset.items import string_array
from surelabel.dataset.sampling import open_looks, sampling_frame
from surelabel.dataset.splits import certify_population
from surelabel.files.large_tables import ids_of
from surelabel.guarantees.bounds import whole_share
from surelabel.guarantees.certification import (
    CertificationResult,
    CertificationStatus,
    CertifySample,
    count_accepted,
    wrong_images_upper_bound,
)
from surelabel.guarantees.targets import (
    Scope,
    Target,
    certify_targets,
    list_targets,
    parse_targets,
)
from surelabel.runs.answers import Answer, AnswerKind, Purpose
from surelabel.runs.certification_record import BOUND, CertificationRecord, CertifiedPart
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import POOL_TABLE, RoundFiles
from surelabel.types import (
    NONE_OF_THESE,
    UNLABELED,
    BoolArray,
    FloatArray,
    Ids,
    IntArray,
    JsonObject,
    Split,
)


def standing_certification(folder: RunFolder) -> CertificationRecord | None:
    """The record about the current labels; None before there is one, and after relabeling."""
    last, records = folder.last_round(), folder.read_certifications()
    if last is None or not records:
        return None
    record = CertificationRecord.from_json(records[-1])
    same_subject = record.subject == subject_of(last, folder.config)
    same_labels = record.labels_digest == _labels_digest(folder, record.certify_ids)
    return record if same_subject and same_labels else None


@dataclass(frozen=True)
class StandingPromise:
    """The promise of the finished dataset while people label the rest and correct labels."""

    n_wrong: int
    """At most so many labels of the run are wrong now."""
    n_labels: int
    """Labels of the finished dataset."""
    n_present: int
    """Labels that there are now."""
    n_corrected: int
    """Accepted labels that people found wrong since; each makes ``n_wrong`` one less."""
    is_disproved: bool
    """Whether people found more wrong labels than were promised at most."""


def standing_promise(
    folder: RunFolder, record: CertificationRecord | None, n_left: int
) -> StandingPromise | None:
    """What is promised of all labels as they are now; None where nothing is, or not of all.

    The number of wrong labels that was promised holds from the certification on. It does not grow
    when people label what is left, and falls with each accepted label that they correct.
    """
    parts = [] if record is None or record.n_not_covered else record.parts
    part = next((p for p in parts if p.holds and p.scope == Scope.DATASET), None)
    if record is None or part is None:
        return None
    most = whole_share(part.error, part.n_labels)
    corrected = _n_corrected(folder, record)
    return StandingPromise(
        n_wrong=max(0, most - corrected),
        n_labels=part.n_labels,
        n_present=part.n_labels - n_left,
        n_corrected=corrected,
        is_disproved=corrected > most,
    )


def _n_corrected(folder: RunFolder, record: CertificationRecord) -> int:
    """Accepted labels of the run that people's answers since then contradict."""
    last, answers = folder.last_round(), folder.answers.standing()
    if last is None or not answers:
        return 0
    classes = last.metrics["classes"]
    pool = apply_certification(last.read_table(POOL_TABLE), record, classes)
    by_run = pool[pool["accepted"] & ~pool["id"].isin(record.certify_ids)]
    final = (AnswerKind.LABEL, AnswerKind.NONE)
    return sum(
        answers[item].kind in final and answers[item].label != classes[label]
        for item, label in zip(by_run["id"], by_run["label"], strict=True)
        if item in answers
    )


def certify_run(folder: RunFolder, pool_ids: Ids) -> CertificationRecord | None:
    """Certify the labels of the last round, unless that was done before.

    ``pool_ids`` are the images that the run labels, certify images among them. Without certify
    labels nothing happens, and after a refused adaptation neither.
    """
    last, standing = folder.last_round(), standing_certification(folder)
    records = [CertificationRecord.from_json(values) for values in folder.read_certifications()]
    population, certify = certify_population(folder.catalog, pool_ids)
    if last is None or not len(certify) or is_refused_adaptation(last.metrics):
        return standing
    settled = [record for record in records if not record.pool_changed]
    known = set().union(*(record.certify_ids + record.unused_ids for record in settled))
    has_new = bool(set(certify.tolist()) - known)
    if standing is not None and not standing.pool_changed and not has_new:
        return standing
    record = _certify(folder, last, records, pool_ids, population, certify)
    if standing is not None and standing.holds and not record.labels_read:
        return standing
    if standing is not None and standing.pool_changed and record.pool_changed:
        return standing
    folder.write_certifications([*folder.read_certifications(), record.to_json()])
    return record


def is_refused_adaptation(metrics: JsonObject) -> bool:
    """Whether an earlier version refused the round's labels: adaptation was not shown to help.

    They are not accepted then, whatever certify labels show.
    """
    return not metrics.get("learner", {}).get("adaptation", {}).get("is_trusted", True)


def apply_certification(
    pool: pd.DataFrame, record: CertificationRecord | None, classes: Sequence[str]
) -> pd.DataFrame:
    """The pool table with the certified thresholds applied, where there are any.

    A label that the threshold from tune labels had not accepted was not trained on, so its weight
    stays 0. Certify images that nobody labeled are left to people.
    """
    if record is None or not record.holds:
        return pool
    guess = pool["guess"].to_numpy()
    thresholds = record.thresholds(classes)[guess]
    unlabeled = pool["id"].isin(record.unlabeled_ids).to_numpy()
    inside = ~np.isnan(thresholds) | unlabeled
    accepted = ~unlabeled & (_scores(pool) <= np.nan_to_num(thresholds, nan=-np.inf))
    newly_accepted = accepted & (pool["round"] == 0)
    return pool.assign(
        threshold=np.where(np.isnan(thresholds), pool["threshold"], thresholds),
        accepted=np.where(inside, accepted, pool["accepted"]).astype(bool),
        label=np.where(inside, np.where(accepted, guess, -1), pool["label"]),
        round=np.where(newly_accepted, record.round, pool["round"]),
        weight=np.where(inside & ~accepted, 0.0, pool["weight"]),
    )


def certified_thresholds(record: CertificationRecord | None, classes: Sequence[str]) -> FloatArray:
    """(K,) the certified threshold per predicted class; nan where that from tune labels stays."""
    return np.full(len(classes), np.nan) if record is None else record.thresholds(classes)


def answers_of_new_classes(folder: RunFolder) -> dict[str, Answer]:
    """Certify answers with a class that review added: the catalog has no number for it."""
    catalog = folder.catalog
    nameless = set(catalog.ids[catalog.labels == NONE_OF_THESE].tolist())
    answers = folder.answers.standing(purpose=Purpose.CERTIFY)
    return {i: a for i, a in answers.items() if a.kind is AnswerKind.LABEL and i in nameless}


def _certify(
    folder: RunFolder,
    last: RoundFiles,
    records: Sequence[CertificationRecord],
    pool_ids: Ids,
    population: Ids,
    certify: Ids,
) -> CertificationRecord:
    """Test the labels of the round ``last``, as far as the certify labels may be read."""
    config = folder.config
    all_certify = set(certify.tolist())
    looks = open_looks(folder.catalog, pool_ids, subject_of(last, config))
    earlier = [record for record in records if not _is_earlier_look(record, looks, config)]
    certify, population, alpha_spent = _readable(earlier, certify, population, config.alpha_share)
    frame = None if alpha_spent else sampling_frame(folder.catalog, pool_ids, population, certify)
    population, certify = frame or (population, certify)
    pool = last.read_table(POOL_TABLE)
    ids = ids_of(pool["id"])
    inside = folder.catalog.among(ids, population)
    covered = pool if inside.all() else pool[inside]
    classes = tuple(last.metrics["classes"])
    if looks is not None and not set(certify.tolist()) <= set(looks.certify):
        looks = None
    sample = certify_sample(folder, covered, certify, classes, looks)
    n_labels = len(covered) + n_settled(folder, pool_ids)
    parts, by_class = _test(sample, covered, classes, config, n_labels) if frame else ((), ())
    look = max((part.look for part in parts), default=1)
    not_covered = (folder.catalog.splits[folder.catalog.rows(ids)] != Split.CERTIFY) & ~inside
    return CertificationRecord(
        subject=subject_of(last, config),
        round=last.number,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        confidence=config.confidence,
        alpha_share=config.alpha_share,
        certify_ids=tuple(sorted(certify.tolist())),
        labels_read=any(part.status != CertificationStatus.TOO_FEW for part in parts),
        in_groups=sample.in_groups,
        n_not_covered=int(not_covered.sum()),
        parts=parts,
        by_class=by_class,
        alpha_spent=alpha_spent,
        pool_changed=not (frame or alpha_spent),
        unused_ids=tuple(sorted(all_certify - set(certify.tolist()))),
        unlabeled_ids=_unlabeled(folder, covered, sample.up_to(max(look, 1))),
        labels_digest=_labels_digest(folder, certify.tolist()),
    )


def _is_earlier_look(
    record: CertificationRecord, looks: CertifyDraw | None, config: Config
) -> bool:
    """Whether ``record`` is about the same sample when it was smaller: all looks are one test."""
    return (
        looks is not None
        and record.subject == looks.subject
        and record.alpha_share == config.alpha_share
        and set(record.certify_ids) <= set(looks.certify)
    )


def _readable(
    records: Sequence[CertificationRecord], certify: Ids, population: Ids, alpha_share: float
) -> tuple[Ids, Ids, bool]:
    """The certify images that may be read now, what they are a sample of, and if there are none.

    All of them may be, while the alpha shares of all readings of any of them add up to 1 at most.
    After that only fresh ones: given those that were read, they are a random sample of the rest.
    """
    earlier = [record for record in records if record.labels_read]
    known = set(certify.tolist())
    used = sum(record.alpha_share for record in earlier if known & set(record.certify_ids))
    if used + alpha_share <= 1 + 1e-9:
        return certify, population, False
    already_read = np.array(
        sorted(set().union(*(record.certify_ids for record in earlier))), dtype=np.str_
    )
    fresh = certify[~np.isin(certify, already_read)]
    if not len(fresh):
        return certify, population, True
    return fresh, population[~np.isin(population, already_read)], False


def certify_sample(
    folder: RunFolder,
    covered: pd.DataFrame,
    certify: Ids,
    classes: Sequence[str],
    draw: CertifyDraw | None = None,
) -> CertifySample:
    """The pool as the test sees it; ``draw`` is the one that ``certify`` were drawn by looks in.

    A certify image that nobody labeled, or that is none of the classes, differs from every
    prediction.
    """
    catalog = folder.catalog
    ids = ids_of(covered["id"])
    rows = catalog.rows(ids)
    number = {name: k for k, name in enumerate(classes)}
    own = np.array([*(number.get(name, -3) for name in catalog.classes), -2, -1])
    labels = own[catalog.labels[rows]]
    for item_id, answer in answers_of_new_classes(folder).items():
        labels[ids == item_id] = number.get(answer.label or "", -3)
    looks = None
    if draw is not None:
        looks = np.zeros(len(ids), dtype=np.int64)
        for look, drawn in enumerate(draw.looks, 1):
            looks[catalog.among(ids, string_array(drawn))] = look
    return CertifySample(
        scores=_scores(covered),
        units=_sampling_units(catalog.groups[rows]),
        checked=catalog.among(ids, certify),
        wrong=labels != covered["guess"].to_numpy(),
        looks=looks,
    )


def _sampling_units(groups: Ids) -> IntArray:
    """(N,) the sampling unit of each image, numbered from 0: its group, or itself."""
    if not (groups != "").any():
        return np.arange(len(groups))
    alone = np.array([f"\x00{i}" for i in range(len(groups))], dtype=object)
    names = np.where(groups == "", alone, groups.astype(object)).astype(np.str_)
    _, units = np.unique(names, return_inverse=True)
    return units.astype(np.int64)


def _scores(pool: pd.DataFrame) -> FloatArray:
    """Scores, and inf for outliers: those are never accepted."""
    scores = pool["score"].to_numpy(dtype=np.float64)
    return np.where(pool["outlier"].to_numpy(dtype=bool), np.inf, scores)


def n_settled(folder: RunFolder, pool_ids: Ids) -> int:
    """Images of the dataset whose label is not the run's: given by people, or copied from those."""
    population, _ = certify_population(folder.catalog, pool_ids)
    catalog = folder.catalog
    groups = catalog.groups[catalog.rows(pool_ids)]
    uncovered = ~catalog.among(pool_ids, population) & (groups != "")
    return len(catalog) - len(population) - int(uncovered.sum())


def _unlabeled(folder: RunFolder, covered: pd.DataFrame, sample: CertifySample) -> tuple[str, ...]:
    """Images of drawn units that nobody labeled. They count as wrong, and are left to people."""
    ids = ids_of(covered["id"])
    drawn = sample.drawn[sample.units]
    nobody = folder.catalog.labels[folder.catalog.rows(ids)] == UNLABELED
    return tuple(sorted(ids[drawn & nobody].tolist()))


def _test(
    sample: CertifySample,
    covered: pd.DataFrame,
    classes: Sequence[str],
    config: Config,
    n_labels: int,
) -> tuple[tuple[CertifiedPart, ...], tuple[CertifiedPart, ...]]:
    """Certify the targets; without any, bound the error at the threshold from tune labels.

    ``n_labels`` is the size of the finished dataset. The second result are the bounds by predicted
    class, only in the second case.
    """
    guess = covered["guess"].to_numpy()
    accepted = covered["accepted"].to_numpy()
    delta = (1 - config.confidence) * config.alpha_share
    targets = list_targets(parse_targets(config.max_error), classes)
    if targets:
        results = certify_targets(sample, guess, targets, delta, n_labels=n_labels)
        pairs = zip(targets, results, strict=True)
        return tuple(_part_of(target, result, n_labels) for target, result in pairs), ()
    by_class = tuple(
        _bound(name, sample, accepted & (guess == k), delta / len(classes))
        for k, name in enumerate(classes)
    )
    parts: tuple[CertifiedPart, ...] = (_bound("", sample, accepted, delta),)
    if parts[0].holds:
        parts = (_bound("", sample, accepted, delta, n_labels=n_labels), *parts)
    return parts, by_class


def _part_of(target: Target, result: CertificationResult, n_labels: int) -> CertifiedPart:
    certified = result.status is CertificationStatus.CERTIFIED
    whole = target.scope is Scope.DATASET
    return CertifiedPart(
        name=target.name,
        scope=str(target.scope),
        status=str(result.status),
        error=result.max_error,
        threshold=result.threshold if certified else None,
        n_labels=n_labels if whole else result.counts.n_accepted,
        n_accepted=result.counts.n_accepted,
        n_checked=result.counts.n_checked,
        n_wrong=result.counts.n_wrong,
        smallest_error=result.smallest_error,
        n_needed=result.n_needed,
        look=result.look,
    )


def _bound(
    name: str, sample: CertifySample, accepted: BoolArray, delta: float, n_labels: int = 0
) -> CertifiedPart:
    """The bound at a fixed threshold: of the accepted labels, or of all ``n_labels``."""
    counts = count_accepted(sample, accepted)
    status, error = str(CertificationStatus.TOO_FEW), 1.0
    if counts.n_checked:
        most_wrong = wrong_images_upper_bound(sample, accepted, delta)
        n_unchecked = int((accepted & ~sample.drawn[sample.units]).sum())
        shows_nothing = bool(n_unchecked) and most_wrong == n_unchecked
        share = most_wrong / (n_labels or counts.n_accepted)
        status, error = BOUND, 1.0 if shows_nothing else share
    return CertifiedPart(
        name=name,
        scope=str(Scope.DATASET if n_labels else Scope.ACCEPTED),
        status=status,
        error=error,
        threshold=None,
        n_labels=n_labels or counts.n_accepted,
        n_accepted=counts.n_accepted,
        n_checked=counts.n_checked,
        n_wrong=counts.n_wrong,
    )


def _labels_digest(folder: RunFolder, certify: Sequence[str]) -> str:
    """Digest of the labels that people gave the ``certify`` images."""
    catalog, named = folder.catalog, answers_of_new_classes(folder)
    labels = catalog.labels_of(np.array(certify, dtype=np.str_)).tolist()
    lines = [
        f"{item_id} {named[item_id].label if item_id in named else label}"
        for item_id, label in sorted(zip(certify, labels, strict=True))
    ]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def subject_of(last: RoundFiles, config: Config) -> str:
    """Digest of what a certification is about: the round's scores, the targets, the confidence."""
    facts = [last.digests()[POOL_TABLE], config.max_error, str(config.confidence)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()
