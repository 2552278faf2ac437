"""What blind checks show, for the page and for the terminal."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from surelabel.messages.guarantees import (
    audit_class_rows,
    audit_sentence,
    certified_sentences,
    class_rows,
    more_certify_sentence,
    uncertified_sentence,
)
from surelabel.runs.answers import Purpose
from surelabel.runs.certification_record import CertificationRecord
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import JsonObject
from surelabel.workflows.audit import audit_result
from surelabel.workflows.certify import standing_certification
from surelabel.workflows.certify_labels import (
    adopt_certify_labels,
    answered_to_adopt,
    are_certify_labels,
    n_unanswered,
)
from surelabel.workflows.certify_plan import CertifyPlan, open_plan
from surelabel.workflows.label import annotations_of
from surelabel.workflows.summary import Summary, summarize


@dataclass(frozen=True)
class CheckResult:
    """Sentences, and for each class its name, labels checked, wrong among them, and the bound."""

    sentences: tuple[str, ...]
    rows: tuple[tuple[str, str, str, str], ...] = ()
    is_final: bool = True
    """Whether the answers have been used; False while certify answers are missing."""

    def to_json(self) -> JsonObject:
        """Plain values."""
        return dataclasses.asdict(self)


def result_of_audit(folder: RunFolder) -> CheckResult:
    """What the checks of an audit show so far; it may be read after every check."""
    result = audit_result(folder)
    return CheckResult((audit_sentence(result),), tuple(audit_class_rows(result)))


def result_of_certification(folder: RunFolder, ids: Sequence[str]) -> CheckResult:
    """Use the answers to ``ids``, if all are there and that was not done yet; what they show.

    Where the sample is certified by looks, the answers that are there are used.
    """
    record: CertificationRecord | None
    plan = open_plan(folder)
    if plan is not None and set(ids) <= set(plan.draw.drawn):
        return _result_of_looks(folder, plan)
    if are_certify_labels(RunFolder.open(folder.path).catalog, ids):
        record = standing_certification(folder)
    else:
        left = n_unanswered(folder, ids)
        if left:
            sentence = uncertified_sentence(str(folder.path), len(ids), left)
            return CheckResult((sentence,), is_final=False)
        record = adopt_certify_labels(folder, ids)
    sentences = certified_sentences(_summary(folder), len(ids), record=record)
    return CheckResult(tuple(sentences), tuple(class_rows(record)) if record else ())


def _result_of_looks(folder: RunFolder, plan: CertifyPlan) -> CheckResult:
    new = answered_to_adopt(folder, plan)
    record = adopt_certify_labels(folder, new) if new else standing_certification(folder)
    if record is None:
        return CheckResult((uncertified_sentence(str(folder.path), 1, 1),), is_final=False)
    status = plan.status(folder.answers.standing(purpose=Purpose.CERTIFY))
    sentences = certified_sentences(_summary(folder), status.n_answered, record=record)
    more = more_certify_sentence(str(folder.path), status)
    return CheckResult((*sentences, more), tuple(class_rows(record)), is_final=status.is_over)


def _summary(folder: RunFolder) -> Summary:
    rounds = [RoundMetrics.from_json(each.metrics) for each in folder.finished_rounds()]
    return summarize(folder, rounds, annotations_of(folder))
