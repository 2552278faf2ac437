"""The closing words of a command, on the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from surelabel.adapt_words import adaptation_sentences
from surelabel.console import rounds_table
from surelabel.promise_words import (
    audit_class_rows,
    audit_sentence,
    class_rows,
    forecast_rows,
    promise_sentences,
)
from surelabel.words import (
    error_sentence,
    headline,
    held_out_text,
    next_steps,
    people_sentence,
    skipped_sentence,
    state_sentence,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surelabel.accept import Outlook
    from surelabel.audit import AuditResult
    from surelabel.datasets.demo import DemoResult
    from surelabel.summary import Summary

_BARS = " ▁▂▃▄▅▆▇█"


def print_summary(console: Console, summary: Summary, *, rounds: bool) -> None:
    """What was done, how right it may be, where it is, what to do next."""
    if rounds and summary.rounds:
        console.print(rounds_table(list(summary.rounds)))
        if len(summary.rounds) > 2:
            console.print(f"left unlabelled  {_curve([r.n_left for r in summary.rounds])}")
        console.print()
        console.print(_classes_table(summary))
    console.print()
    console.print(headline(summary), style="bold")
    for sentence in [*adaptation_sentences(summary), *promise_sentences(summary)]:
        console.print(sentence)
    sentences = (people_sentence, error_sentence, state_sentence, skipped_sentence)
    for sentence in (say(summary) for say in sentences):
        if sentence:
            console.print(sentence)
    if rounds and summary.promise is not None:
        _print_bounds(console, class_rows(summary.promise))
    if summary.rounds:
        console.print("\nFiles", style="bold")
        console.print(
            f"  {summary.path}/annotations.parquet  every image with label, guess, uncertainty",
            soft_wrap=True,
        )
    print_next(console, next_steps(summary))


def print_next(console: Console, steps: list[tuple[str, str]]) -> None:
    """Commands to copy, each with what it does."""
    if not steps:
        return
    console.print("\nNext", style="bold")
    width = max(len(command) for command, _ in steps)
    for command, what in steps:
        console.print(f"  {command:{width}}  {what}", soft_wrap=True)


def print_audit(console: Console, result: AuditResult) -> None:
    """Where an audit stands, overall and by class."""
    console.print(audit_sentence(result), style="bold")
    _print_bounds(console, audit_class_rows(result))


def print_forecast(
    console: Console, outlooks: Sequence[Outlook], max_error: float, label_seconds: float
) -> None:
    """What more certify labels would give, as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("certify labels", "to label", "labelled", "8 times of 10", "refused"):
        table.add_column(name, justify="right")
    for row in forecast_rows(outlooks, label_seconds):
        table.add_row(*row)
    console.print(f"At most {100 * max_error:g} % wrong, with the nets as they are:")
    console.print(table)
    console.print("A forecast from held-out labels, not a promise.")


def _print_bounds(console: Console, rows: list[tuple[str, str, str, str]]) -> None:
    if not rows:
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("class")
    for name in ("checked", "wrong among them", "wrong among all"):
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)


def print_demo(console: Console, result: DemoResult) -> None:
    """The summary, and how right the labels were against the withheld truth."""
    summary = result.run.summary
    print_summary(console, summary, rounds=not console.is_terminal)
    console.print("\nAgainst the withheld truth", style="bold")
    console.print(
        f"  labelled by the run: wrong in {held_out_text(result.n_wrong, result.n_checked)}"
    )
    console.print(
        "  the guesses for those it left: wrong in "
        + held_out_text(result.n_left_wrong, result.n_left)
    )
    console.print(f"  labels by people used: {summary.n_human:,}")


def _classes_table(summary: Summary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("class")
    for name in ("labels by people", "labelled", "left (guessed so)"):
        table.add_column(name, justify="right")
    for name, counts in summary.counts.items():
        table.add_row(name, *(f"{counts[k]:,}" for k in ("human", "labelled", "left")))
    return table


def _curve(values: list[int]) -> str:
    """A small bar for each value, the largest full."""
    top = max([*values, 1])
    return "".join(_BARS[round(v / top * (len(_BARS) - 1))] for v in values)
