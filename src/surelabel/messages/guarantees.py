"""Messages about certification, audits and forecasts, for people who are not statisticians."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from surelabel.messages.run import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surelabel.guarantees.forecast import Outlook
    from surelabel.runs.certification_record import CertificationRecord, CertifiedPart
    from surelabel.workflows.audit import AuditResult
    from surelabel.workflows.summary import Summary

_DATASET = "dataset"
"""The ``Scope`` of a part; importing it would import NumPy and SciPy for ``--help``."""


def ceiling_percent(share: float) -> str:
    """An upper bound in percent, never rounded down."""
    if share >= 1:
        return "100 %"
    step = 0.1 if share >= 0.001 else 0.01
    return f"{math.ceil(100 * share / step - 1e-9) * step:.{1 if step == 0.1 else 2}f} %"


def confidence_text(confidence: float) -> str:
    """``95 % confidence``."""
    return f"{100 * confidence:.6g} % confidence"


def certification_sentences(summary: Summary) -> list[str]:
    """What the run promises about its labels, one sentence per target; or why nothing."""
    if not summary.is_finished or not summary.rounds:
        return []
    record, audit = summary.certification, _audit_advice(summary)
    certify = f"surelabel review {shlex.quote(summary.path)} --certify 300"
    if record is None:
        return [
            "The run promises nothing about its labels, because no label was drawn at random to "
            f"certify it ({certify} collects some). {audit}"
        ]
    if record.alpha_spent:
        return [
            "The certify labels were used up for an earlier result, so the run promises nothing "
            "about the current labels. Add new certify labels (split certify, drawn at random). "
            f"{audit}"
        ]
    if record.pool_changed:
        return [
            "People labeled images of the pool after the certify labels were drawn. The certify "
            "labels are no longer a random sample of it, so the run promises nothing. Collect new "
            f"ones ({certify}). {audit}"
        ]
    sentences = [_part_sentence(part, record, summary.n_left) for part in record.parts]
    if not record.holds:
        sentences.append(f"The run promises nothing about its labels. {audit}")
    if record.n_not_covered:
        sentences.append(
            f"This does not cover {record.n_not_covered:,} images that the certify labels do not "
            "represent (added later, or in a group with train or tune labels)."
        )
    return sentences


def certified_sentences(
    summary: Summary, n: int, *, record: CertificationRecord | None
) -> list[str]:
    """What happened to ``n`` certify labels from the review page."""
    if record is not None:
        return [f"{n:,} new certify labels.", *certification_sentences(summary)]
    return [
        f"{n:,} new certify labels. They are read at the end of training: "
        f"surelabel resume {shlex.quote(summary.path)}"
    ]


def uncertified_sentence(path: str, n: int, left: int) -> str:
    """Some certify labels are still missing."""
    return (
        f"{n - left:,} of {n:,} images are labeled. The labels are used once all of them are "
        f"there: continue with surelabel review {shlex.quote(path)} --certify {n}."
    )


def class_rows(record: CertificationRecord) -> list[tuple[str, str, str, str]]:
    """Per class: its name, labels checked, wrong among them, and the bound."""
    parts = record.by_class or [p for p in record.parts if p.name]
    return [
        (
            part.name,
            f"{part.n_checked:,}",
            f"{part.n_wrong:,}",
            _bound_text(part.error) if part.holds else "cannot be certified with these labels",
        )
        for part in parts
    ]


def audit_sentence(result: AuditResult) -> str:
    """``300 checked, 1 wrong: at most 2.2 % of ...``."""
    total = result.all
    return (
        f"{total.n_checked:,} checked, {total.n_wrong:,} wrong: at most "
        f"{ceiling_percent(total.error)} of the {total.n_accepted:,} accepted labels are wrong "
        f"({confidence_text(result.confidence)}). This does not depend on the model."
    )


def audit_class_rows(result: AuditResult) -> list[tuple[str, str, str, str]]:
    """Per class: its name, labels checked, wrong among them, and the bound."""
    return [
        (
            name,
            f"{checked.n_checked:,}",
            f"{checked.n_wrong:,}",
            _bound_text(checked.error) if checked.error < 1 else "needs more checks",
        )
        for name, checked in result.by_class.items()
    ]


def checks_sentence(n: int, out: str, path: str, *, began: bool, void: bool) -> str:
    """What ``audit --checks`` did, and what to do next."""
    text = f"Wrote {n:,} accepted labels to {out}, in random order. "
    if void:
        text = "The labels have changed since the last audit, so a new one begins. " + text
    elif not began:
        text += "Earlier answers are filled in. "
    return (
        f"{text}In the column answer write right, wrong or the true class, from the top down; "
        "if you cannot tell, write wrong. Then:\n"
        f"  surelabel audit {shlex.quote(path)} --answers {shlex.quote(out)}"
    )


def forecast_rows(
    outlooks: Sequence[Outlook], label_seconds: float
) -> list[tuple[str, str, str, str, str]]:
    """Number of certify labels, labeling time, median coverage, its range, share of refusals."""
    return [
        (
            f"{o.n_certify:,}",
            f"{o.n_certify * label_seconds / 60:,.0f} min",
            f"{100 * o.middle:.0f} %",
            f"{100 * o.low:.0f} to {100 * o.high:.0f} %",
            f"{100 * o.refused:.0f} %",
        )
        for o in outlooks
    ]


def _part_sentence(part: CertifiedPart, record: CertificationRecord, n_left: int) -> str:
    which = _which(part, record)
    checked = f"{part.n_checked:,} {'groups' if record.in_groups else 'of them'}"
    accepted = f"the {part.n_accepted:,} accepted labels{which}"
    if part.holds:
        against = f"{checked} were checked against certify labels, {part.n_wrong:,} wrong"
        if part.scope == _DATASET:
            against = f"{part.n_accepted:,} are accepted, {against}"
        statement = f"most {ceiling_percent(part.error)} of {_labels(part, which)} are wrong"
        sure = f"({confidence_text(record.confidence)}; {against})."
        if part.scope == _DATASET and n_left:
            left = (
                f"the {n_left:,} images that are left" if n_left > 1 else "the image that is left"
            )
            return f"When you have labeled {left}, at {statement} {sure}"
        return f"At {statement} {sure}"
    if part.status == "too_few":
        return _too_few_sentence(part, which, record)
    if part.status == "bound":
        return (
            f"Nothing can be promised about {_labels(part, which)}: {checked} were checked against "
            f"certify labels, {part.n_wrong:,} wrong."
        )
    return (
        f"An error of at most {percent(part.error)}{which} cannot be certified: of "
        f"{accepted.replace('accepted labels', 'most certain images')}, {checked} were checked and "
        f"{part.n_wrong:,} wrong. The threshold from tune labels stays in use."
    )


def _which(part: CertifiedPart, record: CertificationRecord) -> str:
    """The labels of a part, after "error" or "labels"."""
    if part.scope == _DATASET:
        return " of the finished dataset"
    if part.name:
        return f" of the class '{part.name}'"
    return " of the other classes" if any(p.name for p in record.parts) else ""


def _labels(part: CertifiedPart, which: str) -> str:
    if part.scope == _DATASET:
        return f"all {part.n_labels:,} labels"
    return f"the {part.n_labels:,} accepted labels{which}"


def _too_few_sentence(part: CertifiedPart, which: str, record: CertificationRecord) -> str:
    unit = "groups" if record.in_groups else "images"
    if not part.n_needed:
        return f"No certify {unit} are among the accepted labels{which}."
    more = max(1, part.n_needed - part.n_checked)
    return (
        f"An error of at most {percent(part.error)}{which} cannot be certified with "
        f"{part.n_checked:,} certify {unit}: even if all were right, they would show no less than "
        f"{ceiling_percent(part.smallest_error)}. At least {more:,} more are needed, drawn at "
        "random; still more if not all images are accepted. The threshold from tune labels stays "
        "in use."
    )


def _bound_text(error: float) -> str:
    return f"at most {ceiling_percent(error)}"


def _audit_advice(summary: Summary) -> str:
    """How to bound the error of the accepted labels, if there are any to check."""
    if not summary.n_labeled:
        return "It accepted no label that could be checked."
    return (
        "To bound the error of the accepted labels, check some: surelabel audit "
        f"{shlex.quote(summary.path)} --checks {min(300, summary.n_labeled)}."
    )
