"""Checks and stores reviewers' answers: on disk before they are acknowledged, none overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NotRequired, TypedDict

from surelabel.dataset.items import MAX_NAME, name_problem, normalize_key
from surelabel.errors import RunError
from surelabel.review.queue import ReviewQueue, ShownAnswer, shown_answer
from surelabel.runs.answers import AnswerConflictError, AnswerKind, NewAnswer, Purpose

_UNDO_TRIES = 5


@dataclass(frozen=True)
class SubmittedAnswer:
    """One answer as it comes from a page."""

    item_id: str
    kind: AnswerKind
    label: str | None
    expected_seq: int
    """The answer that the reviewer saw when they answered; 0 for none."""
    new_class: bool = False
    """The reviewer confirmed that ``label`` is a new class and not a typo."""


class Stored(TypedDict):
    """What became of one answer. Exactly one of the two optional keys is there.

    ``answer`` is the answer that stands now, None after an undo left the image without one.
    ``conflict`` is an answer that the reviewer had not seen, None if the one they saw was undone.
    """

    id: str
    answer: NotRequired[ShownAnswer | None]
    conflict: NotRequired[ShownAnswer | None]


class RefusedError(RunError):
    """An answer that cannot be accepted; the text says why."""


def check_reviewer(name: str) -> str:
    """``name``; ``ValueError`` if it holds control characters or half characters."""
    if name_problem(name):
        raise ValueError("a name without line breaks and control characters is needed")
    return name


def check_purpose(queue: ReviewQueue, purpose: Purpose | None) -> None:
    """Refuse answers that come too late: for a task of an earlier server, or after its result."""
    if queue.is_settled:
        raise RefusedError("The result has been read, so these answers are final.")
    now = queue.task.purpose
    trained_since = (purpose, now) == (Purpose.FIRST, Purpose.REVIEW)
    if purpose is not None and purpose != now and not trained_since:
        raise RefusedError(
            f"This page was opened for another task ({purpose}); the server now serves {now}. "
            "Reload the page."
        )


def store_answers(
    queue: ReviewQueue,
    reviewer: str,
    answers: Sequence[SubmittedAnswer],
    purpose: Purpose | None = None,
) -> list[Stored]:
    """Store ``answers`` one by one. All are checked before the first is stored.

    ``purpose`` is what the page was for: an answer to a random draw stays one even if the first
    round has ended meanwhile.
    """
    answers = [replace(a, label=normalize_key(a.label)) if a.label else a for a in answers]
    classes = {normalize_key(name) for name in queue.classes}
    known = {item["id"] for item in queue.describe(answer.item_id for answer in answers)}
    n_checked = queue.n_checked()
    if n_checked:
        raise RefusedError(
            f"A check is under way, with {n_checked:,} answers, and a new label would end it. "
            "Finish it first, in the step Wish; or choose there to go on without a promise."
        )
    for answer in answers:
        _check(queue, answer, classes, known)
    return _store(queue, reviewer, answers, purpose)


def undo_answers(
    queue: ReviewQueue, reviewer: str, seen: Sequence[tuple[str, int]]
) -> list[Stored]:
    """Undo the answers ``seen`` as (id, seq); if empty, the reviewer's newest that stands."""
    with queue.answer_lock:
        if seen:
            return _undo(queue, reviewer, seen)
        for _ in range(_UNDO_TRIES):
            own = (a for a in queue.standing().values() if a.reviewer == reviewer)
            newest = max(own, key=lambda answer: answer.seq, default=None)
            if newest is None:
                return []
            (result,) = _undo(queue, reviewer, [(newest.item_id, newest.seq)])
            if "conflict" not in result:
                return [result]
    return []


def _undo(queue: ReviewQueue, reviewer: str, seen: Sequence[tuple[str, int]]) -> list[Stored]:
    standing = queue.standing_of([item_id for item_id, _ in seen])
    if queue.final_among(standing):
        raise RefusedError(
            "That answer is final: in a blind check only your last answer can be undone."
        )
    undos = [SubmittedAnswer(item_id, AnswerKind.UNDO, None, seq) for item_id, seq in seen]
    return _store(queue, reviewer, undos)


def _check(queue: ReviewQueue, answer: SubmittedAnswer, classes: set[str], known: set[str]) -> None:
    if answer.item_id not in known:
        raise RefusedError(f"The run has no image {answer.item_id}.")
    if queue.task.blind and answer.item_id not in queue:
        raise RefusedError(
            "This check asks for other images: an answer to one of your choice would bias it."
        )
    if queue.task.purpose is Purpose.REVIEW and answer.item_id in queue.kept:
        raise RefusedError(
            "This image belongs to a random check of the run. Its label is evidence for the "
            "promise, so it cannot be changed here."
        )
    if answer.kind is AnswerKind.UNSURE and not queue.task.blind:
        raise RefusedError("Unsure is an answer in blind checks only: skip the image instead.")
    if answer.expected_seq and queue.task.reveals:
        raise RefusedError("In a blind check the first answer stands.")
    if answer.kind is AnswerKind.UNDO:
        raise RefusedError("An undo is not an answer: send it to /api/undo.")
    if answer.kind is not AnswerKind.LABEL:
        return
    label = answer.label or ""
    if not label or label != label.strip() or name_problem(label):
        raise RefusedError(
            f"A class needs a name of at most {MAX_NAME} characters, without line breaks."
        )
    if label not in classes and not answer.new_class:
        raise RefusedError(f"The run has no class '{label}'. Add it first if it is a new one.")


def _store(
    queue: ReviewQueue,
    reviewer: str,
    answers: Sequence[SubmittedAnswer],
    given_as: Purpose | None = None,
) -> list[Stored]:
    """Store ``answers`` in one transaction, which other reviewers' answers may share."""
    new = [
        NewAnswer(
            each.item_id,
            each.kind,
            each.label if each.kind is AnswerKind.LABEL else None,
            reviewer,
            each.expected_seq,
            Purpose.FIRST if given_as is Purpose.FIRST else queue.purpose_of(each.item_id),
        )
        for each in answers
    ]
    results = queue.answers.add_all(new)
    now = queue.standing_of([each.item_id for each in answers])
    stored: list[Stored] = []
    for each, result in zip(answers, results, strict=True):
        if isinstance(result, AnswerConflictError):
            stored.append({"id": each.item_id, "conflict": shown_answer(result.standing)})
        elif isinstance(result, RunError):
            raise result
        else:
            stored.append({"id": each.item_id, "answer": shown_answer(now.get(each.item_id))})
    return stored
