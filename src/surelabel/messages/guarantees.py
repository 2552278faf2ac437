"""Messages about certification, audits and forecasts, for people who are not statisticians."""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

from surelabel.messages.run import LABEL_SECONDS, percent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surelabel.guarantees.certify_plan import PlanStatus
    from surelabel.guarantees.forecast import Outlook
    from surelabel.runs.certification_record import CertificationRecord, CertifiedPart
    from surelabel.workflows.audit import AuditResult
    from surelabel.workflows.effort import Effort
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
    """What is guaranteed about the labels, one sentence per target; or why nothing is.

    A guarantee of the labels as they are stays when people label what is left.
    """
    record = summary.certification
    if not summary.rounds or (record is None and not summary.is_finished):
        return []
    audit = _audit_advice(summary) if summary.audit is None else ""
    if record is None:
        return _sentences(
            "No error guarantee yet: there are no random check labels (certify labels).",
            _certify_advice(summary),
            audit,
        )
    if record.alpha_spent:
        return _sentences(
            "No error guarantee for the current labels: the certify labels were already used for "
            "an earlier result.",
            _certify_advice(summary),
            audit,
        )
    if record.pool_changed:
        return _sentences(
            "No error guarantee: people labeled other images after the certify labels were drawn, "
            "so these are no longer a random sample of what is left.",
            _certify_advice(summary),
            audit,
        )
    failed = summary.promise is not None and summary.promise.is_disproved
    parts = [part for part in record.parts if not (failed and part.scope == _DATASET)]
    sentences = [_part_sentence(part, record, summary) for part in parts]
    sentences += _now_sentences(summary)
    if not record.holds:
        sentences.append(" ".join(_sentences("No error guarantee.", audit)))
    if record.n_not_covered:
        sentences.append(
            f"This does not cover {record.n_not_covered:,} images that the certify labels do not "
            "represent (added later, or in a group with train or tune labels)."
        )
    return sentences


def audit_sentences(summary: Summary) -> list[str]:
    """What people's checks show about the labels; or that they no longer count."""
    if summary.audit is not None:
        return [f"Audit: {audit_sentence(summary.audit)}"]
    return [void_audit_sentence(summary.path)] if summary.audit_is_void else []


def void_audit_sentence(path: str) -> str:
    """The labels changed after people had checked some of them."""
    return (
        "The labels have changed since the audit, so its checks no longer count. A new audit: "
        f"surelabel review {shlex.quote(path)} --audit N."
    )


def no_certify_labels_sentence(max_error: str, n: int, n_pool: int, path: str) -> str:
    """Said before training: a target is set, and no label can show that it is met."""
    text = (
        f"--max-error {max_error} cannot be guaranteed yet: none of the labels has the split "
        "certify. The run trains without it. "
    )
    if 2 * n > n_pool:
        return text + _label_all_instead(n, n_pool)
    return (
        f"{text}Afterwards, label {n:,} random images to get the guarantee: surelabel review "
        f"{shlex.quote(path)} --certify {n}. Or, if the labels you gave are a random sample of the "
        "images, start again with --labels-are-random."
    )


def certified_sentences(
    summary: Summary, n: int, *, record: CertificationRecord | None
) -> list[str]:
    """What happened to ``n`` certify labels from the review page."""
    if record is not None:
        stated = [*certification_sentences(summary), *audit_sentences(summary)]
        return [f"{n:,} random images are checked.", *stated]
    return [
        f"{n:,} new certify labels. They are read at the end of training: "
        f"surelabel resume {shlex.quote(summary.path)}"
    ]


def plan_sentence(status: PlanStatus, n_pool: int) -> str:
    """What the answers of a certification by looks show now, and what more answers would."""
    certified = status.result.threshold > -math.inf
    n = status.result.counts.n_accepted if certified else 0
    wrong = f"{status.n_wrong:,} of your {status.n_answered:,} answers differed from the run"
    if status.is_over:
        return (
            f"{n:,} of {n_pool:,} images can be accepted. {wrong}. More answers from this sample "
            "would not change that: show the result."
        )
    return (
        f"{n:,} of {n_pool:,} images can be accepted so far. Each answer that agrees with the run "
        f"adds about {max(1.0, status.images_per_answer):,.0f}. {wrong}; at most "
        f"{status.n_may_be_wrong:,} may. You can stop at any time; at most {len(status.to_ask):,} "
        "more answers are asked for."
    )


def more_certify_sentence(path: str, status: PlanStatus) -> str:
    """How to show more with another look, or by going on with this one."""
    command = f"surelabel review {shlex.quote(path)} --certify auto"
    if status.is_over:
        return f"This sample cannot show more. One twice as large may: {command}."
    return f"You can go on where you stopped, so that more images are accepted: {command}."


def certify_table_sentence(n: int, out: str, run: str) -> str:
    """What ``draw --certify-for`` did, and what to do next."""
    table, path = shlex.quote(out), shlex.quote(run)
    return (
        f"Wrote {n:,} images to {out}, drawn at random from the run's pool, the surest first. Fill "
        "in the column label from the top down, and stop when you like: what is labeled counts, "
        "and every label that agrees with the run lets it accept more. Then:\n"
        f"  surelabel add {path} --labels {table} && surelabel resume {path}"
    )


def uncertified_sentence(path: str, n: int, left: int) -> str:
    """Some certify labels are still missing."""
    return (
        f"{n - left:,} of {n:,} images are labeled. They count once all are labeled: continue with "
        f"surelabel review {shlex.quote(path)} --certify {n}."
    )


def class_rows(record: CertificationRecord) -> list[tuple[str, str, str, str]]:
    """Per class: its name, labels checked, wrong among them, and the bound."""
    parts = record.by_class or [p for p in record.parts if p.name]
    return [
        (
            part.name,
            f"{part.n_checked:,}",
            f"{part.n_wrong:,}",
            _bound_text(part.error) if part.holds else "not shown by these labels",
        )
        for part in parts
    ]


def audit_sentence(result: AuditResult) -> str:
    """``300 checked, 1 wrong: at most 2.2 % of ...``."""
    total = result.all
    return (
        f"{total.n_checked:,} checked, {total.n_wrong:,} wrong: at most "
        f"{ceiling_percent(total.error)} of the {total.n_accepted:,} accepted labels are wrong "
        f"({confidence_text(result.confidence)}).{_audited_dataset(result)}"
    )


def _audited_dataset(result: AuditResult) -> str:
    """What the audit means for the finished dataset."""
    if not result.n_dataset or result.n_dataset == result.all.n_accepted:
        return ""
    left = (
        f"when you have labeled the {result.n_left:,} images that are left, "
        if result.n_left
        else ""
    )
    more = (
        f" {result.n_more:,} further checks, if all are right, show {percent(result.max_error)}."
        if result.n_more > 0
        else ""
    )
    return (
        f" For the whole dataset that means: {left}at most {ceiling_percent(result.dataset_error)} "
        f"of all {result.n_dataset:,} labels.{more}"
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
        text = (
            "The labels have changed since the last audit, so its checks no longer count and a new "
            f"one begins. {text}"
        )
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


def effort_sentence(effort: Effort) -> str:
    """What people have done, and what the finished dataset is to keep."""
    checked = f", and {effort.n_checked:,} checks" if effort.n_checked else ""
    pace = (
        f"{effort.seconds_per_answer:.1f} s per answer, as on the page so far"
        if effort.is_measured
        else f"{effort.seconds_per_answer:g} s per answer assumed"
    )
    return (
        f"{effort.n_answered:,} images have a label by people{checked}. Until at most "
        f"{percent(effort.max_error)} of the finished dataset are wrong "
        f"({confidence_text(effort.confidence)}; {pace}):"
    )


def effort_line(effort: Effort) -> str:
    """The way to the finished dataset with the fewest answers, beside labeling all by hand."""
    if not effort.plans:
        return ""
    best, by_hand = effort.plans[0], max(plan.n_answers for plan in effort.plans)
    if not best.n_answers:
        return ""
    minutes = f"{effort.minutes(best.n_answers):,.0f} min"
    promised = (
        f"a finished dataset with at most {percent(effort.max_error)} wrong "
        f"({confidence_text(effort.confidence)})"
        if best.is_promised
        else "a finished dataset"
    )
    instead = f" All by hand: {by_hand:,}." if by_hand > best.n_answers else ""
    return (
        f"For {promised}: about {best.n_answers:,} more answers, {minutes} ({best.name}).{instead}"
    )


def effort_rows(effort: Effort) -> list[tuple[str, str, str, str, str]]:
    """Per way to finish: its name, answers, answers at most, time, and whether it is promised."""
    return [
        (
            plan.name + (" *" if plan.is_guess else ""),
            f"{plan.n_answers:,}" + (f" ({plan.n_certify:,} to certify)" if plan.n_certify else ""),
            f"{plan.most:,}",
            f"{effort.minutes(plan.n_answers):,.0f} min",
            "yes" if plan.is_promised else "no",
        )
        for plan in effort.plans
    ]


def effort_footnote(effort: Effort, path: str) -> str:
    """Where the numbers come from, and how to begin."""
    if not any(plan.n_certify for plan in effort.plans):
        return f"To label what is left: surelabel review {shlex.quote(path)}."
    guess = (
        "\n* A rule of thumb: errors fall with the square root of the number of labels. These "
        f"answers are needed anyway: surelabel review {shlex.quote(path)}, then surelabel resume "
        f"{shlex.quote(path)}."
        if any(plan.is_guess for plan in effort.plans)
        else ""
    )
    return (
        "A forecast from held-out labels; one case in a hundred takes more than the third column. "
        f"To certify: surelabel review {shlex.quote(path)} --certify auto.{guess}"
    )


def _now_sentences(summary: Summary) -> list[str]:
    """The promise as it stands while people label the rest, and what they corrected."""
    promise = summary.promise
    if promise is None:
        return []
    found = f"You found {promise.n_corrected:,} accepted labels wrong since"
    if promise.is_disproved:
        return [
            f"{found}, more than the guarantee allowed: it has failed, as may happen in a few "
            "cases out of a hundred. Train again and certify with new labels."
        ]
    if not summary.n_left and not promise.n_corrected:
        return []
    corrected = f"{found}; this is taken into account. " if promise.n_corrected else ""
    share = promise.n_wrong / max(1, promise.n_present)
    return [
        f"{corrected}Right now, at most {promise.n_wrong:,} of the {promise.n_present:,} labels "
        f"({ceiling_percent(share)}) are wrong."
    ]


def _part_sentence(part: CertifiedPart, record: CertificationRecord, summary: Summary) -> str:
    which, n_left, promise = _which(part, record), summary.n_left, summary.promise
    checked = f"{part.n_checked:,} {'groups' if record.in_groups else 'of them'}"
    accepted = f"the {part.n_accepted:,} accepted labels{which}"
    if part.holds:
        error = part.error
        if part.scope == _DATASET and promise is not None and promise.n_corrected:
            error = promise.n_wrong / promise.n_labels
        statement = f"most {ceiling_percent(error)} of {_labels(part, which)} are wrong"
        sure = f"({confidence_text(record.confidence)}; {_evidence(part, record)})."
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
            f"Nothing can be guaranteed about {_labels(part, which)}: {checked} were checked "
            f"against certify labels, {part.n_wrong:,} wrong."
        )
    return (
        f"An error of at most {percent(part.error)}{which} cannot be guaranteed: of "
        f"{accepted.replace('accepted labels', 'surest guesses')}, {checked} were checked and "
        f"{part.n_wrong:,} wrong. The run accepts labels by its estimate instead."
    )


def _evidence(part: CertifiedPart, record: CertificationRecord) -> str:
    """Which labels were checked, and whose labels the accepted ones are."""
    if record.in_groups:
        checked = f"{part.n_checked:,} groups were checked, {part.n_wrong:,} wrong"
        return f"{part.n_accepted:,} accepted, {checked}" if part.scope == _DATASET else checked
    own = part.n_accepted - part.n_checked
    accepted = f"{part.n_accepted:,} are accepted: " if part.scope == _DATASET else ""
    return (
        f"{accepted}{own:,} with the run's label, and {part.n_checked:,} that you checked, of "
        f"which the run had guessed {part.n_wrong:,} wrong"
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
        return f"all {part.n_labels:,} labels, yours included,"
    return f"the {part.n_labels:,} accepted labels{which}"


def _too_few_sentence(part: CertifiedPart, which: str, record: CertificationRecord) -> str:
    unit = "groups" if record.in_groups else "images"
    if not part.n_needed:
        return f"No certify {unit} are among the accepted labels{which}."
    more = max(1, part.n_needed - part.n_checked)
    return (
        f"An error of at most {percent(part.error)}{which} cannot be guaranteed with "
        f"{part.n_checked:,} certify {unit}: even with none wrong, they show "
        f"{ceiling_percent(part.smallest_error)} at best. At least {more:,} more are needed, drawn "
        "at random, and more than that if some are wrong or left. The run accepts labels by its "
        "estimate instead."
    )


def _bound_text(error: float) -> str:
    return f"at most {ceiling_percent(error)}"


def _sentences(*parts: str) -> list[str]:
    return [part for part in parts if part]


def _certify_advice(summary: Summary) -> str:
    """How to get certify labels for a run of this size; or to label everything instead."""
    n, n_pool = summary.n_to_certify, summary.n_labeled + summary.n_left
    if 2 * n > n_pool:
        return _label_all_instead(n, n_pool)
    return (
        f"Label {n:,} random images (about {n * LABEL_SECONDS / 60:,.0f} min) to show at most "
        f"{percent(summary.wanted_error)} wrong: surelabel review {shlex.quote(summary.path)} "
        f"--certify {n}."
    )


def _label_all_instead(n: int, n_pool: int) -> str:
    minutes = max(1, round(n_pool * LABEL_SECONDS / 60))
    return (
        f"In a collection this small a guarantee takes {n:,} of the {n_pool:,} images that have no "
        f"label of yours. Labeling or checking all of them takes about {minutes:,} min and is "
        "better than a guarantee."
    )


def _audit_advice(summary: Summary) -> str:
    """How to bound the error of the accepted labels, if there are any to check."""
    if not summary.n_labeled:
        return "The run accepted no label that could be checked."
    n = summary.n_to_check
    if 2 * n > summary.n_labeled:
        return ""
    return (
        f"Or check {n:,} of the accepted labels: surelabel review {shlex.quote(summary.path)} "
        f"--audit {n}."
    )
