"""From a catalog and people's answers to what self-training works on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from surelabel.dataset.catalog import Catalog
from surelabel.runs.answers import Answer, AnswerKind
from surelabel.selftraining.learner import Problem
from surelabel.types import Ids, IntArray, LabelSource, Split


def build_problem(catalog: Catalog, answers: Mapping[str, Answer], answers_upto: int) -> Problem:
    """Given labels, and the answers people gave since, which win over them.

    Certify images are part of the pool: they go through the loop like any other, their labels
    unread. Images that are none of the classes are neither trained on nor labeled. What people
    answered is trained on, and not held out to set thresholds by: it is not a random sample. But
    what is held out stays so when its label is corrected, and nothing that a group or equal bytes
    tie to it is trained on.
    """
    known = set(catalog.ids.tolist())
    labeled = {i: a.label for i, a in answers.items() if a.kind is AnswerKind.LABEL and i in known}
    outliers = [i for i, a in answers.items() if a.kind is AnswerKind.NONE and i in known]
    new = sorted({name for name in labeled.values() if name} - set(catalog.classes))
    classes = (*catalog.classes, *new)
    number = {name: k for k, name in enumerate(classes)}

    answered = np.array(sorted(labeled), dtype=np.str_)
    taken = np.concatenate([answered, np.array(outliers, dtype=np.str_)])
    tune = _without(_held_out(catalog), np.array(outliers, dtype=np.str_))
    taught = answered
    if len(answered) and not catalog.cross_fit:
        tied = _without(_tied_to(tune, catalog), catalog.in_split(Split.TRAIN))
        taught = _without(answered, tied)
    train = _without(catalog.in_split(Split.TRAIN), taken)
    hidden = [catalog.in_split(Split.POOL), catalog.in_split(Split.CERTIFY)]
    among_others = catalog.ids[np.isin(catalog.ids, np.concatenate(hidden))]
    pool = _without(among_others, taken)
    given = {i: number[name or ""] for i, name in labeled.items()}
    relevant = [f"{i}={labeled[i]}" for i in answered.tolist()] + sorted(outliers)
    text = "\n".join([catalog.training_digest, *classes, *relevant])
    return Problem(
        classes=classes,
        human_ids=np.concatenate([train, taught]),
        human_labels=_labels_of(np.concatenate([train, taught]), catalog, given),
        tune_ids=tune,
        tune_labels=_labels_of(tune, catalog, given),
        pool_ids=pool,
        cross_fit=catalog.cross_fit,
        inputs=hashlib.sha256(text.encode()).hexdigest(),
        answers_upto=answers_upto,
    )


def said_otherwise(
    before: Catalog, after: Catalog, answers: Mapping[str, Answer]
) -> list[tuple[str, str, str]]:
    """Id, path and label of what ``after`` says anew against an answer; none of these is empty."""
    found = []
    there = set(before.ids.tolist())
    for item_id, answer in answers.items():
        if item_id not in there:
            continue
        (was,), (row,) = (catalog.rows(np.array([item_id])) for catalog in (before, after))
        label, given = int(after.labels[row]), after.sources[row] == LabelSource.GIVEN
        new = label != before.labels[was] or before.sources[was] != LabelSource.GIVEN
        name = after.classes[label] if label >= 0 else ""
        hidden = after.splits[row] == Split.CERTIFY
        if given and new and not hidden and name != (answer.label or ""):
            found.append((item_id, str(after.paths[row]), name))
    return found


def _held_out(catalog: Catalog) -> Ids:
    """What sets thresholds: tune images, or with cross-fitting a random sample of those trained on.

    Where every train label was chosen or has its split from a person there is no such sample, and
    all of them have to do.
    """
    if not catalog.cross_fit:
        return catalog.in_split(Split.TUNE)
    trained = catalog.in_split(Split.TRAIN)
    return trained[np.isin(trained, catalog.undivided)] if catalog.undivided else trained


def _tied_to(tune: Ids, catalog: Catalog) -> Ids:
    """Tune images and those of their groups, or with equal bytes."""
    units = catalog.units(catalog.ids)
    tied: Ids = catalog.ids[np.isin(units, units[catalog.rows(tune)])]
    return tied


def _labels_of(ids: Ids, catalog: Catalog, given: Mapping[str, int]) -> IntArray:
    """(M,) people's answers, and where there is none the labels of the catalog."""
    labels = catalog.labels_of(ids).tolist()
    return np.array(
        [given.get(i, label) for i, label in zip(ids.tolist(), labels, strict=True)], dtype=np.int64
    )


def _without(ids: Ids, taken: Ids) -> Ids:
    return ids[~np.isin(ids, taken)]
