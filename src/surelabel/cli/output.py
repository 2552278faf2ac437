"""What commands print: errors with exit codes, results as text or as JSON."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from surelabel.cli.progress import rounds_table
from surelabel.errors import SurelabelError
from surelabel.messages.adaptation import adaptation_sentences
from surelabel.messages.guarantees import (
    audit_class_rows,
    audit_sentence,
    class_rows,
    forecast_rows,
    promise_sentences,
)
from surelabel.messages.run import (
    cost_sentence,
    error_sentence,
    headline,
    held_out_text,
    memory_text,
    near_copies_sentence,
    next_steps,
    people_sentence,
    seconds_text,
    skipped_sentence,
    state_sentence,
    unguessed_sentence,
)
from surelabel.runs.folder import REPORT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from surelabel.api import Run
    from surelabel.guarantees.forecast import Outlook
    from surelabel.report.comparison import Comparison, RunFigures
    from surelabel.runs.summary import Summary
    from surelabel.workflows.audit import AuditResult
    from surelabel.workflows.demo import DemoResult

console = Console(stderr=True, highlight=False, markup=False)
INTERRUPTED = 130

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Page = Annotated[bool, typer.Option("--report/--no-report", help="Write report.html at the end.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")]


@contextlib.contextmanager
def sentences(path: Path | None = None) -> Iterator[None]:
    """Errors as sentences with their exit codes; ctrl-C with the way to go on."""
    try:
        yield
    except SurelabelError as error:
        typer.echo(f"surelabel: {error}", err=True)
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        typer.echo(f"Stopped.{_hint(path)}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except OSError as error:
        what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        typer.echo(f"surelabel: {what}.{_hint(path)}", err=True)
        raise typer.Exit(1) from None


def _hint(path: Path | None) -> str:
    if path is None or not (path / "run.json").exists():
        return ""
    return f" Nothing is lost: surelabel resume {shlex.quote(str(path))} goes on."


def tell(values: dict[str, Any], sentence: str, *, quiet: bool, as_json: bool) -> None:
    """A result as JSON on standard output, or in words on the console."""
    if as_json:
        print_json(values)
    elif not quiet:
        console.print(sentence, soft_wrap=True)


def print_json(values: dict[str, Any]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(values, default=str, ensure_ascii=False))


def _tell_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("surelabel"))
        raise typer.Exit


def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_tell_version, is_eager=True, help="Print the version and end."
        ),
    ] = False,
) -> None:
    """What stands before any command."""


_BARS = " ▁▂▃▄▅▆▇█"


def print_summary(console: Console, summary: Summary, *, rounds: bool) -> None:
    """What was done, how right it may be, where it is, what to do next."""
    if rounds and summary.rounds:
        console.print(rounds_table(list(summary.rounds)))
        if len(summary.rounds) > 1:
            console.print()
            console.print(f"left unlabeled    {_curve([r.n_left for r in summary.rounds])}")
            errors = [r.held_out_errors for r in summary.rounds]
            console.print(f"wrong on held-out  {_curve(errors)}")
        console.print()
        console.print(_classes_table(summary))
    console.print()
    console.print(headline(summary), style="bold")
    for sentence in [*adaptation_sentences(summary), *promise_sentences(summary)]:
        console.print(sentence)
    sentences = (
        *(people_sentence, error_sentence, unguessed_sentence, state_sentence, cost_sentence),
        *(skipped_sentence, near_copies_sentence),
    )
    for sentence in (say(summary) for say in sentences):
        if sentence:
            console.print(sentence)
    if rounds and summary.promise is not None and summary.is_finished:
        _print_bounds(console, class_rows(summary.promise))
    if summary.rounds:
        console.print("\nFiles", style="bold")
        console.print(
            f"  {summary.path}/annotations.parquet  every image with label, guess, uncertainty",
            soft_wrap=True,
        )
        if (Path(summary.path) / REPORT).exists():
            console.print(
                f"  {summary.path}/{REPORT}          all of it on one page, with figures",
                soft_wrap=True,
            )
    print_next(console, next_steps(summary))


def close(console: Console, finished: Run, *, page: bool, quiet: bool, as_json: bool) -> Summary:
    """The end of a command that trained: the report if wanted, and the summary."""
    from surelabel.report.page import report_at_end

    summary = finished.summary
    problem = report_at_end(finished.folder) if page else ""
    if as_json:
        print_json(summary.to_json())
    elif not quiet:
        print_summary(console, summary, rounds=not console.is_terminal)
        console.print(problem, soft_wrap=True, end="\n" if problem else "")
    return summary


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
    for name in ("certify labels", "to label", "labeled", "8 times of 10", "refused"):
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


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Runs side by side: first what was asked, then what came of it."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("")
    for figures in comparison.runs:
        table.add_column(figures.path, justify="right", overflow="fold")
    for name, values in comparison.settings.items():
        table.add_row(name, *(value or "-" for value in values), style="italic")
    if comparison.settings:
        table.add_section()
        table.add_row()
    for rows in zip(*map(_comparison_rows, comparison.runs), strict=True):
        table.add_row(rows[0][0], *(value for _, value in rows))
    console.print(table)
    if not comparison.same_images:
        console.print("\nThe runs are not about the same images.")
    if not comparison.same_held_out:
        console.print(
            "\nTheir held-out labels differ: errors and areas are not of the same images."
        )


def _comparison_rows(figures: RunFigures) -> list[tuple[str, str]]:
    f = figures
    return [
        ("images", f"{f.n_images:,}"),
        ("labels by people", f"{f.n_human:,}"),
        ("labeled by the run", f"{f.n_labeled:,}"),
        ("left", f"{f.n_left:,}"),
        ("rounds", f"{f.n_rounds:,}"),
        ("wrong on held-out labels", held_out_text(f.held_out_errors, f.n_held_out)),
        (
            "... among accepted",
            held_out_text(f.held_out_accepted_errors, f.n_held_out_accepted),
        ),
        ("promised", f.promise),
        ("AURC (lower is better)", "-" if f.aurc is None else f"{f.aurc:.5f}"),
        ("AUGRC (lower is better)", "-" if f.augrc is None else f"{f.augrc:.5f}"),
        ("time of the rounds", seconds_text(f.seconds)),
        ("memory at most", "-" if f.peak_memory is None else memory_text(f.peak_memory)),
    ]


def print_demo(console: Console, result: DemoResult) -> None:
    """The summary, and how right the labels were against the withheld truth."""
    summary = result.run.summary
    print_summary(console, summary, rounds=not console.is_terminal)
    console.print("\nAgainst the withheld truth", style="bold")
    console.print(
        f"  labeled by the run: wrong in {held_out_text(result.n_wrong, result.n_checked)}"
    )
    console.print(
        "  the guesses for those it left: wrong in "
        + held_out_text(result.n_left_wrong, result.n_left)
    )
    console.print(f"  labels by people used: {summary.n_human:,}")


def _classes_table(summary: Summary) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("class")
    for name in ("labels by people", "labeled", "left (guessed so)"):
        table.add_column(name, justify="right")
    for name, counts in summary.counts.items():
        table.add_row(name, *(f"{counts[k]:,}" for k in ("human", "labeled", "left")))
    return table


def _curve(values: list[int]) -> str:
    """A small bar for each value, the largest full."""
    top = max([*values, 1])
    return "".join(_BARS[round(v / top * (len(_BARS) - 1))] for v in values)
