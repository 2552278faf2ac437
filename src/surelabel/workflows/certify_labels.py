"""Certify labels from the review page: a random sample of the pool, labeled without the guess."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surelabel.dataset.build import add_given_labels
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.sampling import open_looks, record_draw
from surelabel.dataset.splits import certify_population
from surelabel.errors import InputError
from surelabel.runs.answers import AnswerKind, Purpose
from surelabel.runs.certification_record import CertificationRecord
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.stopping import stop_reason
from surelabel.types import NONE_TEXT, Ids, Split
from surelabel.workflows.certify import certify_run, subject_of
from surelabel.workflows.certify_plan import (
    CertifyPlan,
    certifies_by_looks,
    next_to_certify,
    shuffled_units,
)
from surelabel.workflows.first_labels import lacks_labels, settle_first_answers
from surelabel.workflows.label import write_result
from surelabel.workflows.problem import problem_of


def ids_to_certify(folder: RunFolder, n: int) -> Ids:
    """Random images of the pool that are not certify images yet, for people to label.

    With a target for the finished dataset they are those of the look under way, the surest first
    (``certify_plan``). Otherwise they are the first ``n`` in a random order (``shuffled_units``),
    all to be labeled. Groups are taken as a whole.
    """
    if lacks_labels(folder):
        raise InputError(
            f"{folder.path} has no labels to learn from yet: give the first ones without --certify."
        )
    settle_first_answers(folder)
    if certifies_by_looks(folder):
        return next_to_certify(folder, n)
    catalog, seed = folder.catalog, folder.config.seed
    population, certify = certify_population(catalog, problem_of(folder).pool_ids)
    free = population[~np.isin(population, certify)]
    chosen: list[str] = []
    for unit in shuffled_units(catalog, free, seed, "certify on the page"):
        if len(chosen) >= n:
            break
        chosen += unit
    if not chosen:
        raise InputError(f"{folder.path} has no image left to draw for certification.")
    return np.array(chosen, dtype=np.str_)


def answered_to_adopt(folder: RunFolder, plan: CertifyPlan) -> list[str]:
    """Images of the plan's sample with an answer that is no certify label yet."""
    answered = folder.answers.standing(purpose=Purpose.CERTIFY)
    adopted = set(plan.draw.certify)
    return [i for i in plan.draw.drawn if i in answered and i not in adopted]


def n_unanswered(folder: RunFolder, ids: Sequence[str]) -> int:
    """How many of ``ids`` have no certify answer yet."""
    answered = folder.answers.standing(purpose=Purpose.CERTIFY)
    return sum(item_id not in answered for item_id in ids)


def are_certify_labels(catalog: Catalog, ids: Sequence[str]) -> bool:
    """Whether the answers to ``ids`` have become certify labels."""
    splits = catalog.splits[catalog.rows(np.array(ids, dtype=np.str_))]
    return bool(len(splits)) and bool((splits == Split.CERTIFY).all())


def adopt_certify_labels(folder: RunFolder, ids: Sequence[str]) -> CertificationRecord | None:
    """Make the answers to all ``ids`` certify labels; a finished run is certified at once.

    "None of these" and "unsure" differ from every prediction, so they count as wrong where one
    was accepted. Returns the new record; None if certification waits for the end of training.
    """
    answers = folder.answers.standing(purpose=Purpose.CERTIFY)
    labels = {
        item_id: answer.label if answer.kind is AnswerKind.LABEL and answer.label else NONE_TEXT
        for item_id, answer in ((item_id, answers[item_id]) for item_id in ids)
    }
    with folder.lock():
        config = folder.config
        labeled = add_given_labels(
            folder.catalog,
            labels,
            seed=config.seed,
            tune_share=config.tune_share,
            split=str(Split.CERTIFY),
        )
        problem, last = problem_of(folder, catalog=labeled), folder.last_round()
        subject = subject_of(last, config) if last else ""
        looks = open_looks(labeled, problem.pool_ids, subject)
        drawn = record_draw(labeled, problem.pool_ids, from_all=True, looks=looks)
        folder.replace_catalog(drawn)
        rounds = [RoundMetrics.from_json(r.metrics) for r in folder.finished_rounds()]
        finished = stop_reason(rounds, problem.inputs, config) is not None
        record = certify_run(folder, problem.pool_ids) if finished else None
        write_result(folder)
    return record
