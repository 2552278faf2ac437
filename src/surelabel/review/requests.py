"""What pages may send, with the limits of each field."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from surelabel.review.answering import Given
from surelabel.runs import AnswerKind, Purpose

ItemId = Annotated[str, Field(pattern="^[0-9a-f]{16}$")]
Client = Annotated[str, Field(pattern="^[0-9a-z]{1,32}$")]
Reviewer = Annotated[str, Field(max_length=60)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class AnswerBody(_Strict):
    """One answer."""

    id: ItemId
    kind: AnswerKind
    label: str | None = None
    expected_seq: Annotated[int, Field(ge=0)]
    new_class: bool = False

    def given(self) -> Given:
        """The same for ``answering``."""
        return Given(self.id, self.kind, self.label, self.expected_seq, self.new_class)


class AnswersBody(_Strict):
    """Answers of one reviewer, several at once from a grid."""

    reviewer: Reviewer
    client: Client
    purpose: Purpose | None = None
    """What the page was asked for when the person answered."""
    answers: Annotated[list[AnswerBody], Field(min_length=1, max_length=200)]


class SeenBody(_Strict):
    """An answer that a page has seen."""

    id: ItemId
    seq: Annotated[int, Field(ge=1)]


class UndoBody(_Strict):
    """Answers to take back; without any, the reviewer's newest."""

    reviewer: Reviewer
    client: Client
    purpose: Purpose | None = None
    answers: Annotated[list[SeenBody], Field(max_length=200)] = []


class LookingBody(_Strict):
    """Which image a page shows now, so that others are given other ones."""

    client: Client
    id: ItemId | None = None
