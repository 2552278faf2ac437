"""Certify the labels of a run with its certify labels, which are read once, at the end.

A certified threshold then takes the place of the one from tune labels. Every reading of certify
labels is recorded in the run folder: ``runs.certification_record``. The statistics are in
``guarantees.certification``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pandas as pd

from surelabel.config.settings import Config
from surelabel.dataset.sampling import sampling_frame
from surelabel.dataset.splits import certify_population
from surelabel.guarantees.certification import (
    CertificationResult,
    CertificationStatus,
    CertifySample,
    count_accepted,
    wrong_images_upper_bound,
)
from surelabel.guarantees.targets import certify_targets, class_targets, parse_targets
from surelabel.runs.answers import Answer, AnswerKind, Purpose
from surelabel.runs.certification_record import BOUND, CertificationRecord, CertifiedPart
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import POOL_TABLE, RoundFiles
from surelabel.types import (
    NONE_OF_THESE,
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
    same_subject = record.subject == _subject(last, folder.config)
    same_labels = record.labels_digest == _labels_digest(folder, record.certify_ids)
    return record if same_subject and same_labels else None


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
    """Whether the round's labels come from an adaptation that was not shown to help.

    They are not accepted then, whatever certify labels show.
    """
    facts = metrics.get("learner", {}).get("adaptation")
    return facts is not None and not facts["is_trusted"]


def apply_certification(
    pool: pd.DataFrame, record: CertificationRecord | None, classes: Sequence[str]
) -> pd.DataFrame:
    """The pool table with the certified thresholds applied, where there are any.

    A label that the threshold from tune labels had not accepted was not trained on, so its weight
    stays 0.
    """
    if record is None:
        return pool
    guess = pool["guess"].to_numpy()
    for part in record.certified_parts:
        assert part.threshold is not None
        inside = record.members(part, classes)[guess]
        accepted = inside & (_scores(pool) <= part.threshold)
        newly_accepted = accepted & (pool["round"] == 0)
        pool = pool.assign(
            threshold=np.where(inside, part.threshold, pool["threshold"]),
            accepted=np.where(inside, accepted, pool["accepted"]).astype(bool),
            label=np.where(inside, np.where(accepted, guess, -1), pool["label"]),
            round=np.where(newly_accepted, record.round, pool["round"]),
            weight=np.where(inside & ~accepted, 0.0, pool["weight"]),
        )
    return pool


def certified_thresholds(record: CertificationRecord | None, classes: Sequence[str]) -> FloatArray:
    """(K,) the certified threshold per predicted class; nan where that from tune labels stays."""
    thresholds = np.full(len(classes), np.nan)
    for part in record.certified_parts if record else ():
        assert record is not None
        assert part.threshold is not None
        thresholds[record.members(part, classes)] = part.threshold
    return thresholds


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
    certify, population, alpha_spent = _readable(records, certify, population, config.alpha_share)
    frame = None if alpha_spent else sampling_frame(folder.catalog, pool_ids, population, certify)
    population, certify = frame or (population, certify)
    pool = last.read_table(POOL_TABLE)
    covered = pool[pool["id"].isin(population)]
    classes = tuple(last.metrics["classes"])
    sample = _certify_sample(folder, covered, certify, classes)
    parts, by_class = _test(sample, covered, classes, config) if frame else ((), ())
    splits = folder.catalog.splits[folder.catalog.rows(pool["id"].to_numpy())]
    not_covered = (splits != Split.CERTIFY) & ~pool["id"].isin(population).to_numpy()
    return CertificationRecord(
        subject=_subject(last, config),
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
        labels_digest=_labels_digest(folder, certify.tolist()),
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


def _certify_sample(
    folder: RunFolder, covered: pd.DataFrame, certify: Ids, classes: Sequence[str]
) -> CertifySample:
    """The pool as the test sees it.

    A certify image that nobody labeled, or that is none of the classes, differs from every
    prediction.
    """
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
        units=_sampling_units(catalog.groups[rows]),
        checked=np.isin(ids, certify),
        wrong=labels != covered["guess"].to_numpy(),
    )


def _sampling_units(groups: Ids) -> IntArray:
    """(N,) the sampling unit of each image, numbered from 0: its group, or itself."""
    alone = np.array([f"\x00{i}" for i in range(len(groups))], dtype=object)
    names = np.where(groups == "", alone, groups.astype(object)).astype(np.str_)
    _, units = np.unique(names, return_inverse=True)
    return units.astype(np.int64)


def _scores(pool: pd.DataFrame) -> FloatArray:
    """Scores, and inf for outliers: those are never accepted."""
    scores = pool["score"].to_numpy(dtype=np.float64)
    return np.where(pool["outlier"].to_numpy(dtype=bool), np.inf, scores)


def _test(
    sample: CertifySample, covered: pd.DataFrame, classes: Sequence[str], config: Config
) -> tuple[tuple[CertifiedPart, ...], tuple[CertifiedPart, ...]]:
    """Certify the targets; without any, bound the error at the threshold from tune labels.

    The second result are the bounds by predicted class, only in the second case.
    """
    guess = covered["guess"].to_numpy()
    accepted = covered["accepted"].to_numpy()
    delta = (1 - config.confidence) * config.alpha_share
    targets = parse_targets(config.max_error)
    if targets:
        results = certify_targets(sample, guess, class_targets(targets, classes), delta)
        return tuple(_part_of(name, result) for name, result in results.items()), ()
    by_class = tuple(
        _bound(name, sample, accepted & (guess == k), delta / len(classes))
        for k, name in enumerate(classes)
    )
    return (_bound("", sample, accepted, delta),), by_class


def _part_of(name: str, result: CertificationResult) -> CertifiedPart:
    certified = result.status is CertificationStatus.CERTIFIED
    return CertifiedPart(
        name,
        str(result.status),
        result.max_error,
        result.threshold if certified else None,
        result.counts.n_accepted,
        result.counts.n_checked,
        result.counts.n_wrong,
        result.smallest_error,
        result.n_needed,
    )


def _bound(name: str, sample: CertifySample, accepted: BoolArray, delta: float) -> CertifiedPart:
    counts = count_accepted(sample, accepted)
    status, error = str(CertificationStatus.TOO_FEW), 1.0
    if counts.n_checked:
        most_wrong = wrong_images_upper_bound(sample, accepted, delta)
        status, error = BOUND, most_wrong / counts.n_accepted
    return CertifiedPart(
        name, status, error, None, counts.n_accepted, counts.n_checked, counts.n_wrong
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


def _subject(last: RoundFiles, config: Config) -> str:
    """Digest of what a certification is about: the round's scores, the targets, the confidence."""
    facts = [last.digests()[POOL_TABLE], config.max_error, str(config.confidence)]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()
