"""What a notebook shows: a run, its rounds and a forecast as HTML, and progress as a bar."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Protocol

from surelabel.cli.progress import Reporter
from surelabel.messages.guarantees import (
    audit_sentences,
    certification_sentences,
    forecast_rows,
)
from surelabel.messages.run import (
    LABEL_SECONDS,
    error_sentence,
    event_sentence,
    fewer_sentence,
    headline,
    held_out_text,
    people_sentence,
    skipped_sentence,
    state_sentence,
)
from surelabel.selftraining.events import Event, RoundFinished, RoundProgress
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import Progress

if TYPE_CHECKING:
    from surelabel.guarantees.forecast import Outlook
    from surelabel.workflows.summary import Summary

_SECONDS_BETWEEN_UPDATES = 0.2
_NOTEBOOK_SHELLS = ("ZMQInteractiveShell", "Shell")
"""Names of IPython's class in Jupyter and in Colab; in a terminal it has another one."""


class Shown(Protocol):
    """Output of a cell that can be replaced: IPython's ``DisplayHandle``."""

    def update(self, obj: object) -> object:
        """Show ``obj`` in its place."""


class Html:
    """Text that a notebook shows as HTML."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        return self._text

    def __repr__(self) -> str:
        """For a viewer that shows no HTML: the text without tags."""
        return re.sub(r"\s*<[^>]*>\s*", " ", self._text).strip()


class NotebookReporter(Reporter):
    """Shows a bar for the current step and a table with a row per round, in one cell's output."""

    def __init__(
        self, show: Callable[[object], Shown], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock, self._due = clock, 0.0
        self._sentences: list[str] = []
        self._rounds: list[RoundMetrics] = []
        self._step = Progress("", 0, 1)
        self._shown = show(Html(""))

    def on_progress(self, progress: Progress) -> None:
        """Move the bar, a few times per second at most."""
        self._step = progress
        self._update(at_once=False)

    def on_event(self, event: Event) -> None:
        """Move the bar, add a row to the table, or show a sentence."""
        text = event_sentence(event)
        if text:
            self._sentences.append(text)
        if isinstance(event, RoundProgress):
            what = f"Round {event.number}: {event.progress.what}"
            self._step = Progress(what, event.progress.done, event.progress.total)
        if isinstance(event, RoundFinished):
            self._rounds.append(event.metrics)
        self._update(at_once=not isinstance(event, RoundProgress))

    def close(self) -> None:
        """Remove the bar; sentences and rounds stay."""
        self._step = Progress("", 0, 1)
        self._update(at_once=True)

    def _update(self, *, at_once: bool) -> None:
        now = self._clock()
        if now < self._due and not at_once:
            return
        self._due = now + _SECONDS_BETWEEN_UPDATES
        parts = [*map(_paragraph, self._sentences)]
        parts += [rounds_html(self._rounds)] if self._rounds else []
        parts += [_bar(self._step)] if self._step.what else []
        self._shown.update(Html("".join(parts)))


def notebook_display() -> Callable[[object], Shown] | None:
    """A function that shows something in the current cell; None outside of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if type(shell).__name__ not in _NOTEBOOK_SHELLS:
        return None
    from importlib import import_module

    display = import_module("IPython.display").display
    return lambda obj: display(obj, display_id=True)


def run_html(summary: Summary) -> str:
    """The state of a run: a headline, sentences on errors and next steps, counts by class."""
    sentences = [
        *certification_sentences(summary),
        *audit_sentences(summary),
        people_sentence(summary),
        error_sentence(summary),
        fewer_sentence(summary),
        state_sentence(summary),
        skipped_sentence(summary),
    ]
    rows = [
        (name, *(f"{counts[kind]:,}" for kind in ("human", "labeled", "left")))
        for name, counts in summary.counts.items()
    ]
    head = ("class", "labels by people", "labeled", "left (by guess)")
    return (
        f"<p><b>{escape(headline(summary))}</b><br><code>{escape(summary.path)}</code></p>"
        + "".join(_paragraph(sentence) for sentence in sentences if sentence)
        + (_table(head, rows) if rows else "")
    )


def rounds_html(rounds: Sequence[RoundMetrics]) -> str:
    """One row per round."""
    head = ("round", "labeled", "new or changed", "left", "wrong on held-out", "among accepted")
    rows = [
        (
            str(r.number),
            f"{r.n_accepted:,}",
            f"{r.n_changed:,}",
            f"{r.n_left:,}",
            held_out_text(r.held_out_errors, r.n_held_out),
            held_out_text(r.held_out_accepted_errors, r.n_held_out_accepted),
        )
        for r in rounds
    ]
    return _table(head, rows)


def forecast_html(max_error: float, outlooks: Sequence[Outlook]) -> str:
    """One row per number of certify labels."""
    head = ("certify labels", "time to label", "images labeled", "in 8 of 10 cases", "refused")
    return _paragraph(f"With at most {100 * max_error:g} % wrong labels:") + _table(
        head, forecast_rows(outlooks, LABEL_SECONDS)
    )


def _bar(step: Progress) -> str:
    what = step.what[:1].upper() + step.what[1:]
    return (
        f"<p>{escape(what)} <progress value='{step.done}' max='{max(1, step.total)}'></progress> "
        f"{step.done:,} of {step.total:,}</p>"
    )


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
