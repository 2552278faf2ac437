"""The sentences, tables and figures in numbers of the report page, as plain values."""

from __future__ import annotations

from pathlib import Path

from surelabel.config.settings import Config, options
from surelabel.guarantees.targets import Scope
from surelabel.messages.adaptation import adaptation_sentences
from surelabel.messages.annotators import agreement_rows, agreement_sentences, floor_sentence
from surelabel.messages.guarantees import (
    audit_class_rows,
    audit_sentence,
    ceiling_percent,
    certification_sentences,
    class_rows,
    confidence_text,
    effort_footnote,
    effort_rows,
    effort_sentence,
    forecast_rows,
)
from surelabel.messages.run import (
    LABEL_SECONDS,
    cost_sentence,
    error_sentence,
    headline,
    held_out_text,
    memory_text,
    people_sentence,
    percent,
    seconds_text,
    skipped_sentence,
    state_sentence,
)
from surelabel.report.facts import Facts, rankings
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.workflows.summary import Summary


def page_values(facts: Facts) -> dict[str, object]:
    """Everything on the page except its figures and galleries, by the names in the template."""
    summary, config = facts.summary, facts.config
    record = summary.certification
    return {
        "name": Path(summary.path).resolve().name,
        "headline": headline(summary),
        "cards": _cards(facts),
        "request": _request(facts),
        "adapted": adaptation_sentences(summary),
        "promised": certification_sentences(summary)
        or ["No error guarantee yet: the run is not finished."],
        "floor": floor_sentence(summary),
        "agreement": agreement_sentences(summary.agreement),
        "agreement_rows": agreement_rows(summary.agreement),
        "promised_rows": class_rows(record) if record else [],
        "audit": audit_sentence(facts.audit) if facts.audit else "",
        "audit_rows": audit_class_rows(facts.audit) if facts.audit else [],
        "people": people_sentence(summary),
        "error": error_sentence(summary),
        "state": state_sentence(summary),
        "skipped": skipped_sentence(summary),
        "rankings": [] if facts.last is None else rankings(facts.last, config.score),
        "rounds": [_round_row(r) for r in facts.rounds],
        "cost": cost_sentence(summary),
        "counts": [(k, name, c) for k, (name, c) in enumerate(summary.counts.items(), 1)],
        "options": option_rows(config),
        "effort": effort_sentence(facts.effort) if facts.effort else "",
        "effort_rows": effort_rows(facts.effort) if facts.effort else [],
        "effort_note": effort_footnote(facts.effort, summary.path) if facts.effort else "",
        "forecast": forecast_rows(facts.forecast.outlooks, LABEL_SECONDS),
        "forecast_error": percent(facts.forecast.max_error),
        "no_forecast": facts.forecast.why_not,
        "about": [(k, str(v)) for k, v in facts.about.items()],
        "about_version": str(facts.about.get("surelabel", "")),
    }


def promise_text(summary: Summary) -> str:
    """What is guaranteed about all labels of the run, as a short phrase.

    It stays while people label what is left: their answers change none of the run's labels.
    """
    record = summary.certification
    failed = summary.promise is not None and summary.promise.is_disproved
    if record is None or not record.holds or failed:
        return "nothing"
    parts = [
        f"{part.name + ': ' if part.name else ''}at most {ceiling_percent(part.error)} "
        f"of the {'finished dataset' if part.scope == Scope.DATASET else 'accepted labels'} wrong"
        for part in record.parts
        if part.holds
    ]
    return f"{', '.join(parts)} ({confidence_text(record.confidence)})"


def option_rows(config: Config) -> list[tuple[str, list[tuple[str, str, str, bool]]]]:
    """By group of options: the name, value and help of each, and whether it was changed."""
    grouped: dict[str, list[tuple[str, str, str, bool]]] = {}
    for option in options():
        value = getattr(config, option.name)
        row = (option.name, option_text(value), option.metadata["help"], value != option.default)
        grouped.setdefault(str(option.metadata["group"]), []).append(row)
    return list(grouped.items())


def option_text(value: object) -> str:
    """The value of an option as it is written in the settings."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _request(facts: Facts) -> list[tuple[str, str]]:
    """What the user gave and asked for: name and value."""
    config, about = facts.config, facts.about
    return [
        ("Images", f"{about.get('images') or '-'} ({facts.summary.n_images:,} usable)"),
        ("Labels", str(about.get("labels") or "with the images")),
        ("Classes", f"{len(facts.summary.classes):,}"),
        ("Largest share of wrong labels", config.max_error or "not set"),
        ("Confidence", f"{100 * config.confidence:.6g} %"),
        ("Accept by", f"{_rule_text(config)}, on {str(config.score).replace('_', ' ')}"),
        ("Effort, seed", f"{config.effort}, {config.seed}"),
        ("Started", str(about.get("created", "-"))),
    ]


def _rule_text(config: Config) -> str:
    if config.accept != "target":
        return config.accept
    return f"an estimated error of at most {percent(config.target_error)}"


def _cards(facts: Facts) -> list[tuple[str, str, str]]:
    """The numbers that people look for first: what it is, the number, and a note on it."""
    s, last = facts.summary, facts.rounds[-1]
    n_pool = s.n_labeled + s.n_left
    is_refused = not last.learner.get("adaptation", {}).get("is_trusted", True)
    share = f"{percent(s.n_labeled / n_pool)} of {n_pool:,} images" if n_pool else "no images"
    n, wrong = last.n_held_out_accepted, last.held_out_accepted_errors
    return [
        ("labeled by the run", f"{s.n_labeled:,}", share),
        ("left unlabeled", f"{s.n_left:,}", "not accepted" if is_refused else "too uncertain"),
        ("labels by people", f"{s.n_human:,}", f"of {s.n_images:,} images"),
        ("wrong on held-out labels", percent(last.held_out_accepted_error), f"{wrong:,} of {n:,}"),
        _guarantee_card(facts),
    ]


def _guarantee_card(facts: Facts) -> tuple[str, str, str]:
    """The bound on all labels: from certify labels, else from an audit, else none."""
    record, promise = facts.summary.certification, facts.summary.promise
    if record is not None and not (promise is not None and promise.is_disproved):
        for part in record.parts:
            if part.holds and not part.name:
                note = f"wrong, {confidence_text(record.confidence)}"
                return "guaranteed", f"≤ {ceiling_percent(part.error)}", note
    if facts.audit:
        note = f"wrong, {confidence_text(facts.audit.confidence)}"
        return "by your audit", f"≤ {ceiling_percent(facts.audit.all.error)}", note
    return "guaranteed", "nothing", "no random check labels"


def _round_row(r: RoundMetrics) -> tuple[str, ...]:
    members = r.learner.get("members", ())
    steps = sum(m.get("steps", 0) for m in members)
    memory = r.learner.get("peak_memory")
    return (
        str(r.number),
        f"{r.n_human:,}",
        f"{r.n_pseudo:,}",
        f"{r.n_accepted:,}",
        f"{r.n_left:,}",
        held_out_text(r.held_out_errors, r.n_held_out),
        held_out_text(r.held_out_accepted_errors, r.n_held_out_accepted),
        f"{steps:,}" if steps else "-",
        seconds_text(r.seconds),
        memory_text(memory) if memory else "-",
    )
