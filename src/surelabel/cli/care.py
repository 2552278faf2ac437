"""Commands that look after runs and the machine: doctor and backup."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from surelabel.cli.options import Json, Quiet, RunPath
from surelabel.cli.output import handle_errors, print_json, print_result, visible
from surelabel.errors import RunDamagedError

if TYPE_CHECKING:
    from surelabel.workflows.doctor import Finding
    from surelabel.workflows.machine import Machine


def doctor(
    path: Annotated[
        Path | None, typer.Argument(metavar="[RUN]", help="A run folder.", show_default=False)
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Repair what can be rebuilt from the rest.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check a run folder from end to end; without RUN, check this machine."""
    with handle_errors():
        if path is None:
            _doctor_machine(as_json=as_json)
        else:
            _doctor_run(path, repair=repair, as_json=as_json)


def backup(
    path: RunPath,
    out: Annotated[
        Path | None, typer.Option(help="The new folder; default NAME-OF-RUN-backup-TIME.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Copy people's answers, labels and checks, even while a server or training is running."""
    with handle_errors():
        from surelabel.runs.backup import back_up

        time = datetime.now().strftime("%Y-%m-%d-%H%M%S")
        target = out or Path(f"{path.resolve().name}-backup-{time}")
        n = back_up(path, target)
        print_result(
            {"out": target, "answers": n},
            f"Copied {n:,} answers, the labels and the settings to {target}. It is a run without "
            f"rounds: surelabel resume {target} trains it again.",
            quiet=quiet,
            as_json=as_json,
        )


def _doctor_run(path: Path, *, repair: bool, as_json: bool) -> None:
    from surelabel.workflows.doctor import examine, mend

    findings = examine(path)
    n_before = sum(not finding.is_sound for finding in findings)
    if repair and any(finding.repair for finding in findings):
        findings = mend(path, findings)
    problems = [finding for finding in findings if not finding.is_sound]
    if as_json:
        values = [finding.to_json() for finding in findings]
        print_json(
            {"findings": values, "sound": not problems, "repaired": n_before - len(problems)}
        )
    else:
        _print_findings(findings)
        if n_before > len(problems):
            typer.echo(f"Repaired {n_before - len(problems)}.")
        if any(finding.repair for finding in problems):
            typer.echo(f"Repair what is safe to repair: surelabel doctor {path} --repair")
        elif not problems:
            typer.echo("The run is sound.")
    if problems:
        raise typer.Exit(RunDamagedError.exit_code)


def _print_findings(findings: list[Finding]) -> None:
    width = max(len(finding.what) for finding in findings)
    for finding in findings:
        text = finding.note if finding.is_sound else finding.problem
        mark = "ok " if finding.is_sound else "BAD"
        typer.echo(visible(f"{mark}  {finding.what:{width}}  {text}".rstrip()))


def _doctor_machine(*, as_json: bool) -> None:
    from surelabel.workflows.machine import inspect_machine

    machine = inspect_machine()
    if as_json:
        print_json(machine.to_json())
    else:
        _print_machine(Console(highlight=False, markup=False), machine)
    if machine.problems:
        raise typer.Exit(1)


def _print_machine(console: Console, machine: Machine) -> None:
    rows = [*machine.versions.items(), ("device", machine.device)]
    rows += [("threads", str(machine.threads))]
    for place in machine.places:
        kept = f", {place.used / 1e9:.2f} GB kept" if place.used else ""
        state = "" if place.is_writable else ", cannot be written to"
        rows.append((place.what, f"{place.path} ({place.free / 1e9:.1f} GB free{kept}{state})"))
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        console.print(f"{name:{width}}  {text}", soft_wrap=True)
    console.print()
    console.print(_extras_table(machine))
    missing = [extra.name for extra in machine.extras if extra.missing]
    if missing:
        console.print(f"To add one: pip install 'surelabel[{missing[-1]}]'", soft_wrap=True)
    for problem in machine.problems:
        console.print(problem, style="bold", soft_wrap=True)


def _extras_table(machine: Machine) -> Table:
    """What each extra gives, and whether it is there."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in ("extra", "here", "what it gives"):
        table.add_column(name)
    for extra in machine.extras:
        table.add_row(extra.name, "no" if extra.missing else "yes", extra.gives)
    return table
