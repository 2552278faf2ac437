"""What commands print: errors with their exit codes, and results as text or as JSON.

Progress, messages and errors go to standard error. ``show``, ``compare`` and JSON go to standard
output.
"""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table

from surelabel.cli.progress import rounds_table
from surelabel.errors import OUT_OF_MEMORY, SurelabelError, is_out_of_memory
from surelabel.messages.adaptation import adaptation_sentences
from surelabel.messages.annotators import agreement_rows, agreement_sentences, floor_sentence
from surelabel.messages.guarantees import (
    audit_class_rows,
    audit_sentence,
    audit_sentences,
    certification_sentences,
    class_rows,
    effort_footnote,
    effort_line,
    effort_rows,
    effort_sentence,
    forecast_rows,
)
from surelabel.messages.run import (
    cost_sentence,
    error_sentence,
    fewer_sentence,
    headline,
    held_out_text,
    label_errors_sentence,
    memory_text,
    near_duplicates_sentence,
    next_steps,
    people_sentence,
    seconds_text,
    skipped_sentence,
    state_sentence,
    trial_sentence,
    unguessed_sentence,
)
from surelabel.runs.folder import ABOUT, ANNOTATIONS, REPORT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pandas import DataFrame

    from surelabel.guarantees.forecast import Outlook
    from surelabel.report.comparison import RunComparison, RunFigures
    from surelabel.workflows.audit import AuditResult
    from surelabel.workflows.demo import DemoResult
    from surelabel.workflows.effort import Effort
    from surelabel.workflows.summary import Summary

INTERRUPTED = 130
"""Exit code after ctrl-C."""
_BARS = " ▁▂▃▄▅▆▇█"

console = Console(stderr=True, highlight=False, markup=False)


@contextlib.contextmanager
def handle_errors(run: Path | None = None) -> Iterator[None]:
    """Print errors and ctrl-C as messages, and exit with their codes.

    ``run`` is the run folder that the command trains: the message says how to resume it.
    """
    try:
        yield
    except SurelabelError as error:
        say(f"surelabel: {visible(str(error))}")
        raise typer.Exit(error.exit_code) from None
    except KeyboardInterrupt:
        say(f"Stopped.{_resume_hint(run)}")
        raise typer.Exit(INTERRUPTED) from None
    except Exception as error:
        if is_out_of_memory(error):
            what = f"{OUT_OF_MEMORY[:-1]} ({error})" if str(error) else OUT_OF_MEMORY[:-1]
        elif isinstance(error, OSError):
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        else:
            raise
        say(f"surelabel: {visible(what)}.{_resume_hint(run)}")
        raise typer.Exit(1) from None


def say(text: str) -> None:
    """Print a message to standard error; on a terminal, sentences are wrapped between words.

    Lines that begin with spaces are commands to copy, which stay whole.
    """
    for line in text.split("\n"):
        is_sentence = console.is_terminal and not line.startswith("  ")
        console.print(line, soft_wrap=not is_sentence, emoji=False)


def visible(text: str) -> str:
    """``text`` with control characters spelled out: names of files must not steer a terminal."""
    return "".join(
        c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text
    )


def print_result(values: Mapping[str, object], message: str, *, quiet: bool, as_json: bool) -> None:
    """The result of a command: ``values`` as JSON, or ``message``, or nothing."""
    if as_json:
        print_json(values)
    elif not quiet:
        say(message)


def print_json(values: Mapping[str, object]) -> None:
    """One JSON object on standard output."""
    typer.echo(json.dumps(values, default=str, ensure_ascii=False))


def print_summary(
    console: Console, summary: Summary, *, rounds: bool, effort: Effort | None = None
) -> None:
    """What the run did, how wrong it may be, where the files are, and what to do next.

    ``rounds`` adds the tables by round and by class; on a terminal the user saw them already.
    """
    if rounds and summary.rounds:
        _print_rounds(console, summary)
    console.print()
    console.print(headline(summary), style="bold")
    sentences = [
        *adaptation_sentences(summary),
        *certification_sentences(summary),
        floor_sentence(summary),
        *audit_sentences(summary),
        *agreement_sentences(summary.agreement),
        people_sentence(summary),
        effort_line(effort) if effort is not None else "",
        error_sentence(summary),
        fewer_sentence(summary),
        unguessed_sentence(summary),
        state_sentence(summary),
        trial_sentence(summary.trial) if rounds and summary.trial is not None else "",
        cost_sentence(summary),
        skipped_sentence(summary),
        near_duplicates_sentence(summary),
    ]
    for sentence in sentences:
        if sentence:
            console.print(sentence)
    if rounds and summary.certification is not None and summary.is_finished:
        _print_bounds(console, class_rows(summary.certification))
    if rounds:
        print_agreement_rows(console, agreement_rows(summary.agreement))
    if summary.rounds:
        _print_files(console, summary)
    _print_next_steps(console, next_steps(summary))


def print_demo(console: Console, result: DemoResult) -> None:
    """The summary of the demo, and the comparison with the true labels."""
    summary = result.run.summary
    print_summary(console, summary, rounds=not console.is_terminal)
    console.print("\nCompared with the true labels", style="bold")
    console.print(f"  labels by the run: {held_out_text(result.n_wrong, result.n_checked)} wrong")
    console.print(
        "  guesses for images left unlabeled: "
        f"{held_out_text(result.n_left_wrong, result.n_left)} wrong"
    )
    console.print(f"  labels by people that it took: {summary.n_human:,}")


def print_audit(console: Console, result: AuditResult) -> None:
    """The bound of an audit, overall and by class."""
    print_check_result(console, [audit_sentence(result)], audit_class_rows(result))


def print_check_result(
    console: Console, sentences: Sequence[str], rows: Sequence[tuple[str, str, str, str]]
) -> None:
    """What people's checks show: the sentences, the first of them bold, and the bounds by class."""
    for place, sentence in enumerate(sentences):
        console.print(sentence, style="" if place else "bold", soft_wrap=True)
    if rows:
        _print_bounds(console, list(rows))


def print_forecast(
    console: Console, outlooks: Sequence[Outlook], max_error: float, label_seconds: float
) -> None:
    """The forecast as a table, one row per number of certify labels."""
    headers = ("certify labels", "time to label", "images labeled", "98 of 100 cases", "refused")
    table = _table(*headers)
    for row in forecast_rows(outlooks, label_seconds):
        table.add_row(*row)
    console.print(f"With at most {100 * max_error:g} % wrong labels, and the nets as they are:")
    console.print(table)
    console.print("This is a forecast from held-out labels, not a guarantee.")


def print_effort(console: Console, effort: Effort, path: str) -> None:
    """Answers so far, and a table of ways to finish, the one with the fewest answers first."""
    console.print(effort_sentence(effort))
    table = _table("answers", "at most", "time", "guaranteed", first="way to finish")
    for row in effort_rows(effort):
        table.add_row(*row)
    console.print(table)
    console.print(effort_footnote(effort, path))


def print_label_errors(
    console: Console, found: DataFrame, path: Path, n: int, out: Path | None
) -> None:
    """The first ``n`` labels that look wrong, and what to do about them."""
    table = _table()
    for name in ("image", "label", "suggested", "probability", "of the label"):
        table.add_column(name, overflow="fold")
    for row in found[:n].to_dict("records"):
        table.add_row(
            row["path"],
            row["label"],
            row["suggested"],
            f"{100 * row['probability']:.0f} %",
            f"{100 * row['label_probability']:.1f} %",
        )
    if len(found) and n:
        console.print(table)
        console.print()
    if out is not None:
        console.print(f"Wrote {len(found):,} labels to {out}.")
    console.print(label_errors_sentence(len(found), path), soft_wrap=True)


def print_comparison(console: Console, comparison: RunComparison) -> None:
    """Runs side by side: the settings that differ, then the results."""
    table = _table()
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
        console.print("\nThe runs do not have the same images.")
    if not comparison.same_held_out:
        console.print(
            "\nThe runs do not have the same held-out labels, so their errors and areas cannot be "
            "compared directly."
        )


def _resume_hint(run: Path | None) -> str:
    try:
        begun = run is not None and (run / ABOUT).exists()
    except OSError:  # a folder that may not be read
        begun = False
    if run is None or not begun:
        return ""
    return f" Nothing is lost: continue with surelabel resume {shlex.quote(str(run))}."


def _print_rounds(console: Console, summary: Summary) -> None:
    """Figures by round, small bars of how they moved, and counts by class."""
    console.print(rounds_table(list(summary.rounds)))
    if len(summary.rounds) > 1:
        console.print()
        console.print(f"left unlabeled     {_bars([r.n_left for r in summary.rounds])}")
        console.print(f"wrong on held-out  {_bars([r.held_out_errors for r in summary.rounds])}")
    console.print()
    table = _table("labels by people", "labeled", "left (by guess)", first="class")
    for name, counts in summary.counts.items():
        table.add_row(name, *(f"{counts[k]:,}" for k in ("human", "labeled", "left")))
    console.print(table)


def _print_bounds(console: Console, rows: list[tuple[str, str, str, str]]) -> None:
    if not rows:
        return
    table = _table("checked", "wrong among them", "wrong among all", first="class")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)


def print_agreement_rows(console: Console, rows: list[tuple[str, str, str]]) -> None:
    """Agreement of several people by class."""
    if not rows:
        return
    table = _table("labels", "Krippendorff's alpha", first="class")
    for row in rows:
        table.add_row(*row)
    console.print()
    console.print(table)


def _print_files(console: Console, summary: Summary) -> None:
    files = {ANNOTATIONS: "every image with label, guess and uncertainty"}
    if (Path(summary.path) / REPORT).exists():
        files[REPORT] = "a page with figures about the run"
    _print_pairs(console, "Files", [(f"{summary.path}/{k}", v) for k, v in files.items()])


def _print_next_steps(console: Console, steps: list[tuple[str, str]]) -> None:
    if steps:
        _print_pairs(console, "Next", steps)


def _print_pairs(console: Console, title: str, pairs: list[tuple[str, str]]) -> None:
    """A title, then files or commands to copy, each with what it is."""
    console.print(f"\n{title}", style="bold")
    width = max(len(name) for name, _ in pairs)
    for name, what in pairs:
        console.print(f"  {name:{width}}  {what}", soft_wrap=True)


def _comparison_rows(figures: RunFigures) -> list[tuple[str, str]]:
    f = figures
    accepted = held_out_text(f.held_out_accepted_errors, f.n_held_out_accepted)
    return [
        ("images", f"{f.n_images:,}"),
        ("labels by people", f"{f.n_human:,}"),
        ("labeled by the run", f"{f.n_labeled:,}"),
        ("left unlabeled", f"{f.n_left:,}"),
        ("rounds", f"{f.n_rounds:,}"),
        ("wrong on held-out labels", held_out_text(f.held_out_errors, f.n_held_out)),
        ("... among accepted", accepted),
        ("guaranteed", f.promise),
        ("AURC (lower is better)", "-" if f.aurc is None else f"{f.aurc:.5f}"),
        ("AUGRC (lower is better)", "-" if f.augrc is None else f"{f.augrc:.5f}"),
        ("time of the rounds", seconds_text(f.seconds)),
        ("memory at most", "-" if f.peak_memory is None else memory_text(f.peak_memory)),
    ]


def _table(*right: str, first: str = "") -> Table:
    """A plain table: an optional first column, then right-aligned ones."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    if first:
        table.add_column(first)
    for name in right:
        table.add_column(name, justify="right")
    return table


def _bars(values: list[int]) -> str:
    """A small bar per value, relative to the largest."""
    top = max([*values, 1])
    return "".join(_BARS[round(v / top * (len(_BARS) - 1))] for v in values)
