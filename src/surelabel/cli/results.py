"""Commands that use a run without changing it: show, report, compare, export, predict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from surelabel.cli.options import ImagesPath, Json, Overwrite, Quiet, RunPath
from surelabel.cli.output import console, handle_errors, print_json, print_result
from surelabel.cli.progress import reporting
from surelabel.config.choices import ModelFormat


def show(path: RunPath, as_json: Json = False) -> None:
    """Show the state of a run: rounds, counts, errors, next steps."""
    with handle_errors():
        from surelabel import api
        from surelabel.cli.output import print_summary

        run = api.open_run(path)
        summary = run.summary
        effort = run.effort() if summary.rounds and summary.n_left else None
        if as_json:
            plain = effort.to_json() if effort is not None else None
            print_json({**summary.to_json(), "effort": plain})
        else:
            plain_console = Console(highlight=False, markup=False)
            print_summary(plain_console, summary, rounds=True, effort=effort)


def report(path: RunPath, quiet: Quiet = False, as_json: Json = False) -> None:
    """Write RUN/report.html, a page with figures about the run."""
    with handle_errors():
        from surelabel import api

        page = api.open_run(path).report()
        print_result({"out": page}, f"Wrote {page}.", quiet=quiet, as_json=as_json)


def compare(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="RUN", help="Two or more run folders.", show_default=False),
    ],
    as_json: Json = False,
) -> None:
    """Compare runs side by side: settings that differ, and results."""
    with handle_errors():
        from surelabel.cli.output import print_comparison
        from surelabel.report.comparison import compare_runs
        from surelabel.runs.folder import RunFolder

        comparison = compare_runs([RunFolder.open(path) for path in paths])
        if as_json:
            print_json(comparison.to_json())
        else:
            print_comparison(Console(highlight=False, markup=False), comparison)


def export(
    path: RunPath,
    to: Annotated[
        str | None,
        typer.Option(
            help="csv, parquet, folder (one per class), hf-folder or hf-parquet (Hugging Face "
            "datasets), label-studio, fiftyone, fiftyone-tree, cvat, coco; by default what --out "
            "ends in."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write; default NAME-OF-RUN.csv and so on.")
    ] = None,
    document_root: Annotated[
        Path | None,
        typer.Option(
            help="For label-studio: its LOCAL_FILES_DOCUMENT_ROOT; by default the folder above "
            "the images."
        ),
    ] = None,
    url: Annotated[
        str, typer.Option(help="For label-studio: the address that serves the image folder.")
    ] = "",
    annotate_as: Annotated[
        str,
        typer.Option(
            metavar="EMAIL",
            help="For label-studio: labels become annotations of this account, which must be "
            "no person's.",
        ),
    ] = "",
    overwrite: Overwrite = False,
    guard: Annotated[
        bool,
        typer.Option(
            help="In CSV, put an apostrophe before text that a spreadsheet would run as a formula."
        ),
    ] = True,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a run's labels as a table, as folders of images, or for another tool."""
    with handle_errors():
        from surelabel import api
        from surelabel.export.label_studio import LabelStudioOptions, served_folders
        from surelabel.export.writers import (
            ExportFormat,
            choose_format,
            default_target,
            n_missing_in,
        )
        from surelabel.messages.run import export_sentence, label_studio_sentence

        kind = choose_format(to, out)
        options = LabelStudioOptions(document_root, url, annotate_as)
        target = out or default_target(path, kind)
        run = api.open_run(path)
        with reporting(console, quiet=quiet or as_json) as reporter:
            written = run.export(
                kind,
                target,
                overwrite=overwrite,
                guard=guard,
                label_studio=options,
                on_progress=reporter.on_progress,
            )
        missing = 0 if kind.suffix else n_missing_in(target)
        text = export_sentence(written, target, n_rounds=len(run.rounds), n_missing=missing)
        if kind is ExportFormat.LABEL_STUDIO:
            text += (
                f" {label_studio_sentence(target, *served_folders(run.folder.catalog, options))}"
            )
        print_result(
            {"out": target, "images": written, "missing": missing},
            text,
            quiet=quiet,
            as_json=as_json,
        )
        if missing:
            raise typer.Exit(1)


def label_errors(
    path: RunPath,
    out: Annotated[
        Path | None, typer.Option(help="Write them all to this CSV or Parquet file.")
    ] = None,
    n: Annotated[int, typer.Option("-n", min=0, help="How many to print.")] = 20,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """List labels given by people that look wrong, with the class that the run suggests."""
    with handle_errors():
        from surelabel import api
        from surelabel.cli.output import print_label_errors
        from surelabel.export.writers import check_target, export_table

        to = check_target(out, overwrite=overwrite) if out is not None else None
        found = api.open_run(path).label_errors
        if out is not None and to is not None:
            export_table(found, out, to)
        if as_json:
            print_json({"out": out, "label_errors": found.to_dict("records")})
        else:
            print_label_errors(Console(highlight=False, markup=False), found, path, n, out)


def export_model(
    path: RunPath,
    to: Annotated[ModelFormat, typer.Option(help="The format of the model.")] = ModelFormat.ONNX,
    out: Annotated[
        Path | None, typer.Option(help="Where to write; default NAME-OF-RUN.onnx.")
    ] = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write the nets of a run as one file for other programs, and what images they expect."""
    with handle_errors():
        from surelabel import api
        from surelabel.messages.run import export_model_sentence

        target = out or Path(f"{path.resolve().name}.{to}")
        written = api.open_run(path).export_model(target, overwrite=overwrite)
        print_result(
            {"out": written.path, "preprocessing": written.preprocessing},
            export_model_sentence(written.path, written.preprocessing),
            quiet=quiet,
            as_json=as_json,
        )


def predict(
    path: RunPath,
    images: ImagesPath,
    out: Annotated[Path, typer.Option(help="The CSV or Parquet file to write.")] = Path(
        "predictions.csv"
    ),
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="Add a column p_CLASS for each class.")
    ] = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label other images with the nets of a finished run."""
    with handle_errors():
        from surelabel import api
        from surelabel.export.writers import check_target, export_table
        from surelabel.messages.run import predict_sentence

        to = check_target(out, overwrite=overwrite)
        with reporting(console, quiet=quiet or as_json) as reporter:
            table = api.open_run(path).predict(
                images, reporter.on_progress, probabilities=probabilities
            )
        export_table(table, out, to)
        n_labeled = int((table["label"] != "").sum())
        skipped, drifted = table.attrs["skipped"], list(table.attrs["drift"])
        n_seen = int(table.attrs["seen"])
        print_result(
            {
                "out": out,
                "images": len(table),
                "labeled": n_labeled,
                "skipped": skipped,
                "drifted": drifted,
                "seen": n_seen,
            },
            predict_sentence(n_labeled, len(table), skipped, out, drifted, n_seen),
            quiet=quiet,
            as_json=as_json,
        )
