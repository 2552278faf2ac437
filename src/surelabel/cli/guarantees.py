"""The commands ``audit`` and ``forecast``: parse, call the API, print. No decisions here."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from surelabel.cli.output import console, print_json, sentences, tell
from surelabel.errors import InputError
from surelabel.messages.run import LABEL_SECONDS


def audit(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    checks: Annotated[
        int | None, typer.Option(help="Write so many accepted labels to check, at random.")
    ] = None,
    answers: Annotated[Path | None, typer.Option(help="The table, filled in.")] = None,
    out: Annotated[Path | None, typer.Option(help="The table to write.")] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace the table that is there.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Bound the error of a run's labels by checking some of them, picked at random."""
    with sentences():
        from surelabel import api
        from surelabel.cli.output import print_audit
        from surelabel.messages.guarantees import checks_sentence

        if checks is not None and answers is not None:
            raise InputError("--checks writes a table and --answers reads one: name one of them.")
        run = api.open_run(path)
        if checks is not None:
            written = run.write_checks(checks, out, overwrite=overwrite)
            said = checks_sentence(
                written.n, str(written.path), str(path), began=written.began, void=written.void
            )
            values = {"out": written.path, "checks": written.n, "began": written.began}
            tell(values, said, quiet=quiet, as_json=as_json)
            return
        result = run.audit(answers)
        if as_json:
            print_json(result.to_json())
        elif not quiet:
            print_audit(console, result)


def forecast(
    path: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)],
    max_error: Annotated[
        float | None, typer.Option(help="For this error; by default what the run was asked for.")
    ] = None,
    label_seconds: Annotated[
        float, typer.Option(help="Seconds a label takes you.")
    ] = LABEL_SECONDS,
    figure: Annotated[Path | None, typer.Option(help="Also draw it, as PNG or SVG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """How many certify labels would give what coverage. A forecast, not a promise."""
    with sentences():
        from surelabel import api
        from surelabel.cli.output import print_forecast
        from surelabel.report.pool_plots import draw_forecast

        error, outlooks = api.open_run(path).forecast(max_error)
        if figure is not None:
            draw_forecast(outlooks, error, figure)
        if as_json:
            rows = [dataclasses.asdict(outlook) for outlook in outlooks]
            print_json({"max_error": error, "outlooks": rows})
        else:
            print_forecast(console, outlooks, error, label_seconds)
