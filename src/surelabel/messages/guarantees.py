"""Sentences about the promise, the audit and the forecast, for people who are no statisticians."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from surelabel.messages.run import percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surelabel.guarantees.forecast import Outlook
    from surelabel.runs.certification_record import CertificationRecord, Part
    from surelabel.runs.summary import Summary
    from surelabel.workflows.audit import AuditResult


def promise_sentences(summary: Summary) -> list[str]:
    """What the run promises about its labels, part by part; or that it promises nothing."""
    if not summary.is_finished or not summary.rounds:
        return []
    look = summary.promise
    if look is None:
        return [_nothing(summary.path)]
    if look.spent:
        return [
            "The certify labels were used up by an earlier look, so the run promises nothing "
            "about the labels as they are now. Add fresh certify labels (split certify, drawn at "
            f"random), or {_audit(summary.path)}"
        ]
    if look.stale:
        return [
            "People labeled images of the pool after the certify labels were drawn, so these are "
            "no random sample of it any more, and the run promises nothing. Collect fresh ones "
            f"(surelabel review {shlex.quote(summary.path)} --certify 300), or "
            f"{_audit(summary.path)}"
        ]
    said = [_part_sentence(part, look) for part in look.parts]
    if not look.holds:
        said.append(f"The run promises nothing; to know more, {_audit(summary.path)}")
    if look.n_outside:
        said.append(
            f"Not covered: {look.n_outside:,} images that the certify labels are no sample of "
            "(added later, or of groups that were trained or tuned on)."
        )
    return said


def certified_sentences(summary: Summary, n: int, *, look: CertificationRecord | None) -> list[str]:
    """What became of ``n`` certify labels from the review page."""
    if look is not None:
        return [f"{n:,} images certify now.", *promise_sentences(summary)]
    return [
        f"{n:,} images certify once the training has ended: "
        f"surelabel resume {shlex.quote(summary.path)}"
    ]


def uncertified_sentence(path: str, n: int, left: int) -> str:
    """Certify labels that are not complete."""
    return (
        f"{n - left:,} of {n:,} answered; nothing was compared yet. Go on with surelabel review "
        f"{shlex.quote(path)} --certify {n}: the answers certify once all are there."
    )


def class_rows(look: CertificationRecord) -> list[tuple[str, str, str, str]]:
    """For each class: its name, labels checked, wrong among them, and the bound."""
    parts = look.classes or [p for p in look.parts if p.name]
    return [(p.name, f"{p.n_checked:,}", f"{p.n_wrong:,}", _bound_text(p)) for p in parts]


def audit_sentence(result: AuditResult) -> str:
    """``300 checked, 1 wrong: at most 2.2 % of ...``."""
    total = result.all
    return (
        f"{total.n_checked:,} checked, {total.n_wrong:,} wrong: at most "
        f"{ceiling_percent(total.error)} of the {total.n_accepted:,} accepted labels are wrong "
        f"({confidence_text(result.confidence)}), whatever the model did."
    )


def audit_class_rows(result: AuditResult) -> list[tuple[str, str, str, str]]:
    """For each class: its name, labels checked, wrong among them, and the bound."""
    return [
        (
            name,
            f"{c.n_checked:,}",
            f"{c.n_wrong:,}",
            f"at most {ceiling_percent(c.error)}" if c.error < 1 else "not certifiable yet",
        )
        for name, c in result.by_class.items()
    ]


def checks_sentence(n: int, out: str, path: str, *, began: bool, void: bool) -> str:
    """What ``audit --checks`` did."""
    text = f"Wrote {n:,} accepted labels to {out}, in random order. "
    if void:
        text = "The labels have changed since the last audit, which is void. " + text
    elif not began:
        text += "Answers given before are filled in. "
    return (
        f"{text}Write right, wrong or the true class in the column answer, from the top down; "
        "who cannot tell writes wrong. Then:\n"
        f"  surelabel audit {shlex.quote(path)} --answers {shlex.quote(out)}"
    )


def forecast_rows(
    outlooks: Sequence[Outlook], label_seconds: float
) -> list[tuple[str, str, str, str, str]]:
    """Certify labels, the time they take, coverage, its range, how often nothing comes of it."""
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


def ceiling_percent(share: float) -> str:
    """A bound as people read it, never rounded down."""
    if share >= 1:
        return "100 %"
    step = 0.1 if share >= 0.001 else 0.01
    return f"{math.ceil(100 * share / step - 1e-9) * step:.{1 if step == 0.1 else 2}f} %"


def confidence_text(confidence: float) -> str:
    """``95 % confidence``."""
    return f"{100 * confidence:.6g} % confidence"


def _part_sentence(part: Part, look: CertificationRecord) -> str:
    which = f" of the class '{part.name}'" if part.name else ""
    if not part.name and any(p.name for p in look.parts):
        which = " of the other classes"
    unit = "groups" if look.in_groups else "of them"
    sure = confidence_text(look.confidence)
    if part.holds:
        return (
            f"At most {ceiling_percent(part.error)} of the {part.n_accepted:,} labels{which} "
            f"accepted in the pool are wrong ({sure}; {part.n_checked:,} {unit} were checked "
            f"against certify labels, {part.n_wrong:,} wrong)."
        )
    if part.finding == "too_few":
        return _too_few(part, which, look)
    if part.finding == "bound":
        return (
            f"Of the {part.n_accepted:,} labels{which} accepted in the pool all may be wrong: "
            f"{part.n_checked:,} {unit} were checked against certify labels, "
            f"{part.n_wrong:,} wrong."
        )
    return (
        f"An error of at most {percent(part.error)}{which} cannot be certified: of the surest "
        f"{part.n_accepted:,} images, {part.n_checked:,} {unit} were checked and "
        f"{part.n_wrong:,} wrong. The fence from tune labels stands."
    )


def _too_few(part: Part, which: str, look: CertificationRecord) -> str:
    unit = "groups" if look.in_groups else "images"
    if not part.n_needed:
        return f"No certify {unit} are among the accepted labels{which}."
    more = max(1, part.n_needed - part.n_checked)
    return (
        f"An error of at most {percent(part.error)}{which} cannot be certified with "
        f"{part.n_checked:,} certify {unit}: without a mistake they would show "
        f"{ceiling_percent(part.least_error)} at best. At least {more:,} more are needed, drawn at "
        "random, and more than that where not all images are accepted. The fence from tune labels "
        "stands."
    )


def _bound_text(part: Part) -> str:
    return (
        f"at most {ceiling_percent(part.error)}"
        if part.holds
        else "not certifiable with these labels"
    )


def _nothing(path: str) -> str:
    return (
        "It promises nothing: no label was drawn at random to certify (surelabel review "
        f"{shlex.quote(path)} --certify 300 collects some). To bound the error of the accepted "
        f"labels, {_audit(path)}"
    )


def _audit(path: str) -> str:
    return f"check some: surelabel audit {shlex.quote(path)} --checks 300."
