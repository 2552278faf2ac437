"""Commands about the share of wrong labels: audit, effort, forecast, agreement."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from surelabel.cli.options import Json, Overwrite, Quiet, RunPath, share
from surelabel.cli.output import console, handle_errors, print_json, print_result
from surelabel.config.choices import Consensus
from surelabel.errors import InputError, OptionError
from surelabel.messages.run import LABEL_SECONDS


def audit(
    path: RunPath,
    checks: Annotated[
        int | None, typer.Option(help="Write this many random accepted labels to a table.")
    ] = None,
    answers: Annotated[
        Path | None, typer.Option(help="Read that table, with the answers filled in.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="With --checks: the table; default NAME-OF-RUN-audit.csv.")
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Bound the error of a run's labels by checking some of them."""
    with handle_errors():
        from surelabel import api
        from surelabel.cli.output import print_audit
        from surelabel.messages.guarantees import checks_sentence

        if checks is not None and answers is not None:
            raise OptionError("--checks writes a table and --answers reads one: give one of them.")
        run = api.open_run(path)
        if checks is not None:
            written = run.write_checks(checks, out, overwrite=overwrite)
            print_result(
                {"out": written.path, "checks": written.n, "began": written.began},
                checks_sentence(
                    written.n, str(written.path), str(path), began=written.began, void=written.void
                ),
                quiet=quiet,
                as_json=as_json,
            )
            return
        result = run.audit(answers)
        if as_json:
            print_json(result.to_json())
        elif not quiet:
            print_audit(console, result)


def effort(
    path: RunPath,
    label_seconds: Annotated[
        float, typer.Option(help="Seconds per answer, where your pace is not known yet.")
    ] = LABEL_SECONDS,
    as_json: Json = False,
) -> None:
    """Count the answers given so far, and how many more it takes to finish."""
    with handle_errors():
        from surelabel import api
        from surelabel.cli.output import print_effort

        result = api.open_run(path).effort(label_seconds)
        if as_json:
            print_json(result.to_json())
        else:
            print_effort(console, result, str(path))


def forecast(
    path: RunPath,
    max_error: Annotated[
        float | None,
        typer.Option(
            parser=share,
            metavar="SHARE",
            help="For this share of wrong labels; default the run's own.",
        ),
    ] = None,
    label_seconds: Annotated[
        float, typer.Option(help="Seconds that you need per label.")
    ] = LABEL_SECONDS,
    figure: Annotated[
        Path | None, typer.Option(help="Also draw the forecast into this PNG or SVG file.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Forecast how many images can be labeled, by the number of certify labels."""
    with handle_errors():
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


def agreement(
    path: RunPath,
    consensus: Annotated[
        Consensus,
        typer.Option(help="With --out: by majority, or weighted by how reliable people are."),
    ] = Consensus.MAJORITY,
    out: Annotated[
        Path | None, typer.Option(help="Write the consensus to this CSV or Parquet file.")
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Show how far several people agree; with --out, write their consensus."""
    with handle_errors():
        from surelabel import api
        from surelabel.cli.output import print_agreement_rows
        from surelabel.export.writers import check_target, export_table
        from surelabel.messages.annotators import (
            agreement_rows,
            agreement_sentences,
            consensus_sentence,
        )

        to = None if out is None else check_target(out, overwrite=overwrite)
        run = api.open_run(path)
        report = run.summary.agreement
        if report is None:
            raise InputError(
                f"{path} has no image with labels by two people. Name who gave each label in a "
                "column 'annotator', or let a second person label on the review page under "
                "another name."
            )
        if as_json:
            print_json(dataclasses.asdict(report))
        elif not quiet:
            for sentence in agreement_sentences(report):
                console.print(sentence)
            print_agreement_rows(console, agreement_rows(report))
        if out is not None and to is not None:
            table = run.consensus(consensus)
            export_table(table, out, to)
            if not quiet and not as_json:
                n_open = int((table["label"] == "").sum())
                console.print(consensus_sentence(len(table), n_open, out, path))
