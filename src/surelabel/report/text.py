"""The words and tables of the page, in plain values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from surelabel.config.settings import Config, options
from surelabel.messages.adaptation import adaptation_sentences
from surelabel.messages.guarantees import (
    audit_class_rows,
    audit_sentence,
    ceiling_percent,
    class_rows,
    confidence_text,
    forecast_rows,
    promise_sentences,
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
from surelabel.runs.summary import Summary
from surelabel.selftraining.metrics import RoundMetrics


def page_words(facts: Facts) -> dict[str, Any]:
    """Everything on the page but figures and galleries."""
    summary, config = facts.summary, facts.config
    look = summary.promise
    return {
        "name": Path(summary.path).resolve().name,
        "summary": summary,
        "headline": headline(summary),
        "cards": _cards(facts),
        "asked": _asked(facts),
        "adapted": adaptation_sentences(summary),
        "promised": promise_sentences(summary) or ["The run is not finished and promises nothing."],
        "promised_rows": class_rows(look) if look else [],
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
        "forecast": forecast_rows(facts.forecast.outlooks, LABEL_SECONDS),
        "forecast_error": percent(facts.forecast.max_error),
        "no_forecast": facts.forecast.why_not,
        "about": [(k, str(v)) for k, v in facts.about.items()],
        "about_version": str(facts.about.get("surelabel", "")),
    }


def promise_text(summary: Summary) -> str:
    """What is promised of all labels, in a few words."""
    look = summary.promise
    if look is None or not look.holds or not summary.is_finished:
        return "nothing"
    sure = confidence_text(look.confidence)
    parts = [
        f"{part.name + ': ' if part.name else ''}at most {ceiling_percent(part.error)} wrong"
        for part in look.parts
        if part.holds
    ]
    return f"{', '.join(parts)} ({sure})"


def option_rows(config: Config) -> list[tuple[str, list[tuple[str, str, str, bool]]]]:
    """By heading: each option's name, value, help and whether it was changed."""
    grouped: dict[str, list[tuple[str, str, str, bool]]] = {}
    for option in options():
        value = getattr(config, option.name)
        row = (option.name, option_text(value), option.metadata["help"], value != option.default)
        grouped.setdefault(str(option.metadata["group"]), []).append(row)
    return list(grouped.items())


def option_text(value: Any) -> str:
    """The value of an option as it is written in the settings."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _asked(facts: Facts) -> list[tuple[str, str]]:
    config, about = facts.config, facts.about
    target = config.max_error or "not asked for"
    return [
        ("Images", f"{about.get('images') or '-'} ({facts.summary.n_images:,} usable)"),
        ("Labels", str(about.get("labels") or "with the images")),
        ("Classes", f"{len(facts.summary.classes):,}"),
        ("Largest share of wrong labels", target),
        ("Confidence", f"{100 * config.confidence:.6g} %"),
        ("Accept by", f"{config.accept}, on {str(config.score).replace('_', ' ')}"),
        ("Effort, seed", f"{config.effort}, {config.seed}"),
        ("Begun", str(about.get("created", "-"))),
    ]


def _cards(facts: Facts) -> list[tuple[str, str, str]]:
    """The figures people look for first: what, how much, of what."""
    s = facts.summary
    asked = s.n_labeled + s.n_left
    last = facts.rounds[-1]
    refused = not last.learner.get("adaptation", {"is_trusted": True})["is_trusted"]
    share = f"{percent(s.n_labeled / asked)} of {asked:,} images" if asked else "nothing to label"
    n, wrong = last.n_held_out_accepted, last.held_out_accepted_errors
    stands = s.promise is not None and s.is_finished
    bound = [p for p in s.promise.parts if p.holds and not p.name] if s.promise and stands else []
    sure = confidence_text(s.promise.confidence) if s.promise else ""
    cards = [
        ("labeled by the run", f"{s.n_labeled:,}", share),
        ("left for people", f"{s.n_left:,}", "not accepted" if refused else "not sure enough"),
        ("labels by people", f"{s.n_human:,}", f"of {s.n_images:,} images"),
        ("wrong on held-out labels", percent(last.held_out_accepted_error), f"{wrong:,} of {n:,}"),
    ]
    if bound:
        cards.append(("promised", f"≤ {ceiling_percent(bound[0].error)}", f"wrong, {sure}"))
    elif facts.audit:
        sure = confidence_text(facts.audit.confidence)
        bound_text = f"≤ {ceiling_percent(facts.audit.all.error)}"
        cards.append(("by your audit", bound_text, f"wrong, {sure}"))
    else:
        cards.append(("promised", "nothing", "an estimate is no promise"))
    return cards


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
