"""The commands ``show``, ``report`` and ``compare``: parse, call the API, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from surelabel.cli.output import Json, Quiet, print_json, sentences, tell

RunPath = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.", show_default=False)]


def show(path: RunPath, as_json: Json = False) -> None:
    """Where a run stands: rounds, labeled, left, errors on held-out labels."""
    with sentences():
        from surelabel import api
        from surelabel.cli.output import print_summary

        summary = api.open_run(path).summary
        if as_json:
            print_json(summary.to_json())
        else:
            print_summary(Console(highlight=False, markup=False), summary, rounds=True)


def report(path: RunPath, quiet: Quiet = False, as_json: Json = False) -> None:
    """Write RUN/report.html: what the run did, with figures, on one page for any browser."""
    with sentences():
        from surelabel import api

        page = api.open_run(path).report()
        tell({"out": page}, f"Wrote {page}.", quiet=quiet, as_json=as_json)


def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="RUN RUN...", help="Two run folders or more.", show_default=False),
    ],
    as_json: Json = False,
) -> None:
    """Put runs side by side: settings that differ, labeled, left, errors, promise, time."""
    with sentences():
        from surelabel.cli.output import print_comparison
        from surelabel.report.comparison import compare_runs
        from surelabel.runs.folder import RunFolder

        comparison = compare_runs([RunFolder.open(path) for path in paths])
        if as_json:
            print_json(comparison.to_json())
        else:
            print_comparison(Console(highlight=False, markup=False), comparison)
