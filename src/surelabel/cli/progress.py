"""Progress of a run: live bars and a table on a terminal, lines in a pipe, nothing with --quiet."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table

from surelabel.messages.run import event_sentence, held_out_text, seconds_text
from surelabel.selftraining.events import Event, RoundFinished, RoundProgress, RoundStarted
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import Progress

_FIRST = 5.0
_AGAIN = 30.0
"""Seconds until a long step is reported in a pipe for the first time, and again."""


def rounds_table(rounds: list[RoundMetrics]) -> Table:
    """One row per round."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in (
        *("round", "labeled", "new or changed", "left"),
        *("wrong on held-out labels", "... among accepted"),
    ):
        table.add_column(name, justify="right")
    for r in rounds:
        table.add_row(
            str(r.number),
            f"{r.n_accepted:,}",
            f"{r.n_changed:,}",
            f"{r.n_left:,}",
            held_out_text(r.held_out_errors, r.n_held_out),
            held_out_text(r.held_out_accepted_errors, r.n_held_out_accepted),
        )
    return table


class Reporter:
    """Receives progress and events; this one prints nothing."""

    def on_progress(self, progress: Progress) -> None:
        """Progress of a long step outside of a round."""

    def on_event(self, event: Event) -> None:
        """An event of a round."""


class LineReporter(Reporter):
    """Prints a line when a round begins and when it ends: for logs and pipes.

    A long step gets a line after a few seconds and then now and again, with the time left.
    """

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._clock = clock
        self._step = ""
        self._began = (0.0, 0)
        self._due = 0.0

    def on_progress(self, progress: Progress) -> None:
        """Print how far a long step is, and how long the rest takes at this pace."""
        now = self._clock()
        if progress.what != self._step:
            self._step, self._began, self._due = progress.what, (now, progress.done), now + _FIRST
        began, done_before = self._began
        n = progress.done - done_before
        if now < self._due or n <= 0 or progress.done >= progress.total:
            return
        left = seconds_text((now - began) / n * (progress.total - progress.done))
        self._due = now + _AGAIN
        self._console.print(
            f"{_capitalized(progress.what)}: {progress.done:,} of {progress.total:,}, at this pace "
            f"{left} left.",
            soft_wrap=True,
        )

    def on_event(self, event: Event) -> None:
        """Print the line for ``event``."""
        text = event_sentence(event)
        if text:
            self._console.print(text, soft_wrap=True)
        if isinstance(event, RoundProgress):
            self.on_progress(event.progress)
        if isinstance(event, RoundStarted):
            self._console.print(
                f"Round {event.number}: training on {event.n_human:,} labels by people and "
                f"{event.n_pseudo:,} by the run.",
                soft_wrap=True,
            )
        if isinstance(event, RoundFinished):
            m = event.metrics
            self._console.print(
                f"Round {m.number}: {m.n_accepted:,} labeled, {m.n_left:,} left unlabeled; "
                f"guesses to train on that are new or changed: {m.n_changed:,}; "
                f"wrong on held-out labels: {held_out_text(m.held_out_errors, m.n_held_out)}, "
                "among accepted ones: "
                f"{held_out_text(m.held_out_accepted_errors, m.n_held_out_accepted)}.",
                soft_wrap=True,
            )


class LiveReporter(Reporter):
    """Shows a table that gets a row per round, and a bar for the current step."""

    def __init__(self, console: Console, earlier: list[RoundMetrics]) -> None:
        self._rounds = list(earlier)
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("left"),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {}
        self._live = Live(self._view(), console=console, refresh_per_second=4)

    def on_progress(self, progress: Progress) -> None:
        """Update the bar of this step; it disappears at the end."""
        self._update_bar(_capitalized(progress.what), progress)

    def on_event(self, event: Event) -> None:
        """Update the bar, or add a row to the table."""
        text = event_sentence(event)
        if text:
            self._live.console.print(text, emoji=False)
        if isinstance(event, RoundProgress):
            self._update_bar(f"Round {event.number}: {event.progress.what}", event.progress)
        if isinstance(event, RoundFinished):
            self._rounds.append(event.metrics)
            self._live.update(self._view())

    def _update_bar(self, name: str, progress: Progress) -> None:
        if name not in self._tasks:
            for task in self._tasks.values():
                self._bars.remove_task(task)
            self._tasks = {name: self._bars.add_task(name, total=progress.total)}
        self._bars.update(self._tasks[name], completed=progress.done, total=progress.total)
        if progress.done >= progress.total:
            self._bars.remove_task(self._tasks.pop(name))

    def _view(self) -> Group:
        return Group(*([rounds_table(self._rounds)] if self._rounds else []), self._bars)

    def __enter__(self) -> LiveReporter:
        self._live.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        for task in self._tasks.values():
            self._bars.remove_task(task)
        self._live.update(self._view())
        self._live.__exit__(None, None, None)


def _capitalized(text: str) -> str:
    """With a capital at the beginning; the rest stays."""
    return text[:1].upper() + text[1:]


@contextmanager
def watching() -> Iterator[Reporter]:
    """The reporter for Python users: bars in a terminal or a notebook, nothing elsewhere."""
    from surelabel.cli.notebook import NotebookReporter, notebook_display

    console, show = Console(stderr=True, highlight=False, markup=False), notebook_display()
    if show is not None:
        reporter = NotebookReporter(show)
        try:
            yield reporter
        finally:
            reporter.close()
    elif console.is_terminal:
        with LiveReporter(console, []) as live:
            yield live
    else:
        yield Reporter()


@contextmanager
def reporting(
    console: Console, *, quiet: bool, earlier: list[RoundMetrics] | None = None
) -> Iterator[Reporter]:
    """The reporter for ``console``; ``earlier`` are rounds to show from the start."""
    if quiet:
        yield Reporter()
    elif console.is_terminal:
        with LiveReporter(console, earlier or []) as live:
            yield live
    else:
        yield LineReporter(console)
