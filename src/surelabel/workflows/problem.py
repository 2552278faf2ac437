"""What self-training works on: the human labels, held-out labels and pool of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from surelabel.dataset.catalog import Catalog
from surelabel.dataset.items import string_array
from surelabel.files.mapped_arrays import take
from surelabel.runs.answers import Answer, AnswerKind
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.round_inputs import Problem
from surelabel.types import Ids, IntArray, LabelSource, Split


def problem_of(
    folder: RunFolder, upto: int | None = None, *, catalog: Catalog | None = None
) -> Problem:
    """The problem of a run as it is now, or as it was after answer number ``upto``.

    ``catalog`` is one that is about to replace the run's catalog.
    """
    answers = folder.answers
    newest = answers.last_seq() if upto is None else upto
    return build_problem(
        catalog if catalog is not None else folder.catalog, answers.standing(newest), newest
    )


def build_problem(catalog: Catalog, answers: Mapping[str, Answer], answers_upto: int) -> Problem:
    """Combine the labels of ``catalog`` with people's answers, which win over them.

    Certify images are part of the pool: they are labeled like any other image, and their own
    labels are not read. Images that belong to no class are neither trained on nor labeled.
    Answers are trained on. They do not set thresholds, because they are not a random sample; but
    a held-out image whose label is corrected stays held out, and no image of its group or with
    equal bytes is trained on.
    """
    there = string_array(answers)
    known = set(there[catalog.has(there)].tolist())
    labeled = {i: a.label for i, a in answers.items() if a.kind is AnswerKind.LABEL and i in known}
    none_of_these = [i for i, a in answers.items() if a.kind is AnswerKind.NONE and i in known]
    new = sorted({name for name in labeled.values() if name} - set(catalog.classes))
    classes = (*catalog.classes, *new)
    number = {name: k for k, name in enumerate(classes)}

    answered = np.array(sorted(labeled), dtype=np.str_)
    taken = np.concatenate([answered, np.array(none_of_these, dtype=np.str_)])
    tune = _without(_held_out(catalog), np.array(none_of_these, dtype=np.str_))
    trained_answers = answered
    if len(answered) and not catalog.cross_fit:
        tied = _without(_tied_to(tune, catalog), catalog.in_split(Split.TRAIN))
        trained_answers = _without(answered, tied)
    train = _without(catalog.in_split(Split.TRAIN), taken)
    unlabeled = (catalog.splits == Split.POOL) & (catalog.sources == LabelSource.NONE)
    unlabeled |= catalog.splits == Split.CERTIFY
    unlabeled[catalog.rows(taken)] = False
    pool = take(catalog.ids, unlabeled)
    human = np.concatenate([train, trained_answers])
    given = {i: number[name or ""] for i, name in labeled.items()}
    relevant = [f"{i}={labeled[i]}" for i in answered.tolist()] + sorted(none_of_these)
    text = "\n".join([catalog.training_digest, *classes, *relevant])
    return Problem(
        classes=classes,
        human_ids=human,
        human_labels=_labels_of(human, catalog, given),
        tune_ids=tune,
        tune_labels=_labels_of(tune, catalog, given),
        pool_ids=pool,
        cross_fit=catalog.cross_fit,
        inputs=hashlib.sha256(text.encode()).hexdigest(),
        answers_upto=answers_upto,
    )


def _held_out(catalog: Catalog) -> Ids:
    """The images that set thresholds: tune images, or with cross-fitting train images.

    With cross-fitting they are a random sample of the train images. Where a person chose every
    train label or its split there is no such sample, and all train images are used.
    """
    if not catalog.cross_fit:
        return catalog.in_split(Split.TUNE)
    trained = catalog.in_split(Split.TRAIN)
    return trained[np.isin(trained, catalog.undivided)] if catalog.undivided else trained


def _tied_to(tune: Ids, catalog: Catalog) -> Ids:
    """The tune images, all images of their groups, and images with equal bytes."""
    units = catalog.units(catalog.ids)
    tied: Ids = catalog.ids[np.isin(units, units[catalog.rows(tune)])]
    return tied


def _labels_of(ids: Ids, catalog: Catalog, given: Mapping[str, int]) -> IntArray:
    """(M,) people's answers, or the labels of the catalog where there is none."""
    labels = catalog.labels_of(ids).tolist()
    return np.array(
        [given.get(i, label) for i, label in zip(ids.tolist(), labels, strict=True)], dtype=np.int64
    )


def _without(ids: Ids, taken: Ids) -> Ids:
    return ids[~np.isin(ids, taken)]
