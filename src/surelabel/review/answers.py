"""Takes people's answers: on disk before they are acknowledged, none replaces another unseen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from surelabel.dataset.items import tidy_key
from surelabel.errors import RunError
from surelabel.review.queue import ReviewQueue, answer_facts
from surelabel.runs.answers import AnswerConflictError, AnswerKind, Purpose

_TRIES = 5


@dataclass(frozen=True)
class Given:
    """One answer as it comes from a page."""

    item_id: str
    kind: AnswerKind
    label: str | None
    expected_seq: int
    """The answer that the person saw when they answered; 0 for none."""
    new_class: bool = False
    """The person said that ``label`` is a class of its own, not a slip."""


class RefusedError(RunError):
    """An answer that cannot be taken; the text says why."""


def check_purpose(queue: ReviewQueue, purpose: Purpose | None) -> None:
    """Refuse what a page of another task kept until a new server came: it was asked otherwise."""
    now = queue.task.purpose
    went_on = (purpose, now) == (Purpose.FIRST, Purpose.REVIEW)
    if purpose is not None and purpose != now and not went_on:
        raise RefusedError(
            f"This page asked for answers of another kind ({purpose}, and this is {now}): "
            "load it again."
        )


def take(queue: ReviewQueue, reviewer: str, answers: Sequence[Given]) -> list[dict[str, Any]]:
    """Store ``answers`` one by one; for each ``{id, answer}`` or ``{id, conflict}``.

    ``conflict`` is the answer that stands in the way, None if the one seen was taken back. All
    answers are checked before the first is stored.
    """
    answers = [replace(a, label=tidy_key(a.label)) if a.label else a for a in answers]
    classes = {tidy_key(name) for name in queue.classes}
    known = {item["id"] for item in queue.describe(answer.item_id for answer in answers)}
    for answer in answers:
        _check(queue, answer, classes, known)
    with queue.answering:
        return [_take_one(queue, reviewer, answer) for answer in answers]


def take_back(
    queue: ReviewQueue, reviewer: str, seen: Sequence[tuple[str, int]]
) -> list[dict[str, Any]]:
    """Undo the answers ``seen`` as (id, seq); without any, the reviewer's newest that stands."""
    with queue.answering:
        if seen:
            return _undo(queue, reviewer, seen)
        for _ in range(_TRIES):
            newest = queue.store.newest_by(reviewer, queue.task.purpose)
            if newest is None:
                return []
            (result,) = _undo(queue, reviewer, [(newest.item_id, newest.seq)])
            if "conflict" not in result:
                return [result]
    return []


def _undo(
    queue: ReviewQueue, reviewer: str, seen: Sequence[tuple[str, int]]
) -> list[dict[str, Any]]:
    standing = queue.store.standing_of([item_id for item_id, _ in seen], queue.task.purpose)
    if queue.final_among(standing):
        raise RefusedError(
            "That answer stands: in a blind check only the last one can be taken back."
        )
    undo = (Given(item_id, AnswerKind.UNDO, None, seq) for item_id, seq in seen)
    return [_take_one(queue, reviewer, each) for each in undo]


def _check(queue: ReviewQueue, answer: Given, classes: set[str], known: set[str]) -> None:
    if answer.item_id not in known:
        raise RefusedError(f"The run has no image {answer.item_id}.")
    if queue.task.blind and not queue.asks_for(answer.item_id):
        raise RefusedError("This check asks for other images: one that was chosen would spoil it.")
    if answer.kind is AnswerKind.UNSURE and not queue.task.blind:
        raise RefusedError("Only a blind check knows the answer unsure: skip the image instead.")
    if answer.expected_seq and queue.task.reveals:
        raise RefusedError("In a blind check the first answer stands.")
    if answer.kind is AnswerKind.UNDO:
        raise RefusedError("Taking an answer back is a request of its own.")
    if answer.kind is not AnswerKind.LABEL:
        return
    label = answer.label or ""
    if not label or label != label.strip() or not label.isprintable() or len(label) > 200:
        raise RefusedError("A class needs a name of at most 200 characters, without line breaks.")
    if label not in classes and not answer.new_class:
        raise RefusedError(f"The run has no class '{label}'. Add it first if it should have one.")


def _take_one(queue: ReviewQueue, reviewer: str, given: Given) -> dict[str, Any]:
    purpose = queue.task.purpose
    label = given.label if given.kind is AnswerKind.LABEL else None
    try:
        queue.store.add(
            given.item_id, given.kind, label, reviewer, given.expected_seq, purpose=purpose
        )
    except AnswerConflictError as conflict:
        standing = conflict.standing
        return {"id": given.item_id, "conflict": standing and answer_facts(standing)}
    now = queue.store.standing_of([given.item_id], purpose).get(given.item_id)
    return {"id": given.item_id, "answer": now and answer_facts(now)}
