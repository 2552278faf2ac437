"""From a catalog and people's answers to what self-training works on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np

from surelabel.catalog import Catalog
from surelabel.runs import Answer, AnswerKind
from surelabel.selftrain import Problem
from surelabel.types import Ids, Split


def build_problem(catalog: Catalog, answers: Mapping[str, Answer], answers_upto: int) -> Problem:
    """Given labels, and the answers people gave since, which win over them.

    Certify images are part of the pool: they go through the loop like any other, their labels
    unread. Images that are none of the classes are neither trained on nor labelled. What people
    answered is trained on, never held out to set thresholds by: it is not a random sample.
    """
    known = set(catalog.ids.tolist())
    labelled = {i: a.label for i, a in answers.items() if a.kind is AnswerKind.LABEL and i in known}
    strangers = [i for i, a in answers.items() if a.kind is AnswerKind.NONE and i in known]
    new = sorted({name for name in labelled.values() if name} - set(catalog.classes))
    classes = (*catalog.classes, *new)
    number = {name: k for k, name in enumerate(classes)}

    answered = np.array(sorted(labelled), dtype=np.str_)
    taken = np.concatenate([answered, np.array(strangers, dtype=np.str_)])
    train = _without(catalog.in_split(Split.TRAIN), taken)
    tune = _without(_held_out(catalog), taken)
    hidden = [catalog.in_split(Split.POOL), catalog.in_split(Split.CERTIFY)]
    among_others = catalog.ids[np.isin(catalog.ids, np.concatenate(hidden))]
    pool = _without(among_others, taken)
    given = [number[labelled[i] or ""] for i in answered.tolist()]
    human_labels = np.concatenate([catalog.labels_of(train), np.array(given, dtype=np.int64)])
    relevant = [f"{i}={labelled[i]}" for i in answered.tolist()] + sorted(strangers)
    text = "\n".join([catalog.training_digest, *classes, *relevant])
    return Problem(
        classes=classes,
        human_ids=np.concatenate([train, answered]),
        human_labels=human_labels,
        tune_ids=tune,
        tune_labels=catalog.labels_of(tune),
        pool_ids=pool,
        cross_fit=catalog.cross_fit,
        inputs=hashlib.sha256(text.encode()).hexdigest(),
        answers_upto=answers_upto,
    )


def _held_out(catalog: Catalog) -> Ids:
    """What sets thresholds: tune images, or with cross-fitting a random sample of those trained on.

    Where every train label was chosen or has its split from a person there is no such sample, and
    all of them have to do.
    """
    if not catalog.cross_fit:
        return catalog.in_split(Split.TUNE)
    trained = catalog.in_split(Split.TRAIN)
    return trained[np.isin(trained, catalog.undivided)] if catalog.undivided else trained


def _without(ids: Ids, taken: Ids) -> Ids:
    return ids[~np.isin(ids, taken)]
