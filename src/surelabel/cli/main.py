"""The command line: parse, call the API, print. No decisions are made here."""

from __future__ import annotations

import dataclasses
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surelabel.cli.adapt import adapt
from surelabel.cli.guarantees import audit, forecast
from surelabel.cli.options import config_from, with_config_options
from surelabel.cli.output import (
    INTERRUPTED,
    Json,
    Page,
    Quiet,
    about,
    console,
    print_json,
    sentences,
    tell,
)
from surelabel.cli.results import RunPath, compare, report, show
from surelabel.cli.review import review
from surelabel.errors import NothingLabeledError
from surelabel.messages.run import run_name

if TYPE_CHECKING:
    from surelabel.api import Run

ImagesPath = Annotated[
    Path,
    typer.Argument(
        metavar="IMAGES",
        help="A folder, a table (CSV, TSV, Parquet), an IDX or a NumPy file.",
        show_default=False,
    ),
]


def run(argv: list[str]) -> int:
    """Run the command line; returns the exit code."""
    show_all = "--help-all" in argv
    arguments = ["--help" if a == "--help-all" else a for a in argv]
    app = build_app(show_all=show_all)
    try:
        app(args=arguments, prog_name="surelabel")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def build_app(*, show_all: bool = False) -> typer.Typer:
    """The commands, in the order in which people need them."""
    app = typer.Typer(
        help="Label an image dataset from a few labels, with an uncertainty for each label.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None if not sys.stdout.isatty() else "rich",
        pretty_exceptions_enable=False,
    )
    app.callback()(about)
    app.command()(with_config_options(label, show_all=show_all))
    looking = (show, report, compare, review, audit, forecast)
    for command in (resume, *looking, export, predict, adapt, draw, add, demo):
        app.command()(command)
    for plugin in entry_points(group="surelabel.commands"):
        app.add_typer(plugin.load()(), name=plugin.name)
    return app


def label(
    images: ImagesPath,
    labels: Annotated[
        Path | None,
        typer.Option(help="Table of path,label. Without it, class folders are the labels."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to make; by default runs/NAME-OF-IMAGES.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    page: Page = True,
    quiet: Quiet = False,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Label IMAGES from a few labels. ``--help-all`` shows every option."""
    from surelabel.cli.progress import reporting

    target = out or Path("runs") / run_name(images)
    with sentences(target):
        chosen = config_from(settings, config)
        from surelabel import api
        from surelabel.workflows.label import Listeners

        with reporting(console, quiet=quiet or as_json) as reporter:
            listeners = Listeners(reporter.on_progress, reporter.on_event)
            made = api.label(images, labels, target, config=chosen, listeners=listeners)
        _close(made, page=page, quiet=quiet, as_json=as_json)


def resume(
    path: RunPath,
    images: Annotated[
        Path | None, typer.Option(help="Where the images are now, if they were moved.")
    ] = None,
    max_rounds: Annotated[
        int | None, typer.Option(help="A new limit for the rounds of the run.")
    ] = None,
    page: Page = True,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Go on with a run after a crash, ctrl-C or a reboot, or after adding to it."""
    from surelabel.cli.progress import reporting

    with sentences(path):
        from surelabel import api
        from surelabel.workflows.label import Listeners

        opened = api.open_run(path)
        earlier = list(opened.rounds)
        with reporting(console, quiet=quiet or as_json, earlier=earlier) as reporter:
            listeners = Listeners(reporter.on_progress, reporter.on_event)
            opened.resume(listeners, images=images, max_rounds=max_rounds)
        _close(opened, page=page, quiet=quiet, as_json=as_json)


def export(
    path: RunPath,
    to: Annotated[
        str | None,
        typer.Option(help="csv, parquet, or folder (one per class); by default as --out ends."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Where to write; by default NAME-OF-RUN.csv and so on.")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="Replace what is there.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a run's labels as a table or as folders of images."""
    from surelabel.cli.progress import reporting

    with sentences():
        from surelabel import api
        from surelabel.export.export import ExportFormat, choose_format, export_target, missing_in
        from surelabel.messages.run import export_sentence

        kind = choose_format(to, out)
        target = out or export_target(path, kind)
        opened = api.open_run(path)
        with reporting(console, quiet=quiet or as_json) as reporter:
            written = opened.export(
                kind, target, overwrite=overwrite, on_progress=reporter.on_progress
            )
        missing = missing_in(target) if kind is ExportFormat.FOLDER else 0
        tell(
            {"out": target, "images": written, "missing": missing},
            export_sentence(written, target, n_rounds=len(opened.rounds), n_missing=missing),
            quiet=quiet,
            as_json=as_json,
        )
        if missing:
            raise typer.Exit(1)


def predict(
    path: RunPath,
    images: ImagesPath,
    out: Annotated[Path, typer.Option(help="CSV or Parquet file to write.")] = Path(
        "predictions.csv"
    ),
    probabilities: Annotated[
        bool, typer.Option("--probabilities", help="A column p_CLASS for each class too.")
    ] = False,
    overwrite: Annotated[bool, typer.Option(help="Replace what is there.")] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label other images with the nets of a finished run."""
    from surelabel.cli.progress import reporting

    with sentences():
        from surelabel import api
        from surelabel.export.export import check_target, export_table
        from surelabel.messages.run import predict_sentence

        to = check_target(out, overwrite=overwrite)
        with reporting(console, quiet=quiet or as_json) as reporter:
            table = api.open_run(path).predict(
                images, reporter.on_progress, probabilities=probabilities
            )
        export_table(table, out, to)
        sure, skipped = int((table["label"] != "").sum()), table.attrs["skipped"]
        tell(
            {"out": out, "images": len(table), "labeled": sure, "skipped": skipped}
            | {"drifted": list(table.attrs["drift"])},
            predict_sentence(sure, len(table), skipped, out, table.attrs["drift"]),
            quiet=quiet,
            as_json=as_json,
        )


def draw(
    images: ImagesPath,
    n: Annotated[int, typer.Option("-n", help="How many images.")] = 300,
    out: Annotated[Path, typer.Option(help="The CSV to fill in.")] = Path("labels.csv"),
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    certify: Annotated[
        float | None,
        typer.Option(help="Share kept to certify; by default a third, of few none."),
    ] = None,
    without: Annotated[
        Path | None, typer.Option(help="A table of images not to draw again.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Pick images to label at random, and write the table to fill in."""
    with sentences():
        from surelabel.dataset.sampling import draw as draw_images
        from surelabel.dataset.sampling import write_draw
        from surelabel.messages.run import draw_sentence

        table = draw_images(images, n, seed=seed, certify=certify, without=without)
        write_draw(table, out)
        said = draw_sentence(len(table), n, images, out, certify="split" in table)
        values = {"out": out, "images": len(table)}
        tell(values, said, quiet=quiet, as_json=as_json)


def add(
    path: RunPath,
    images: Annotated[Path | None, typer.Option(help="More images.")] = None,
    labels: Annotated[Path | None, typer.Option(help="More labels.")] = None,
    overwrite: Annotated[
        bool, typer.Option(help="Let new labels replace given ones that differ.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Bring new images, labels or classes into a run."""
    from surelabel.cli.progress import reporting

    with sentences():
        from surelabel import api
        from surelabel.messages.run import add_sentence

        with reporting(console, quiet=quiet or as_json) as reporter:
            added = api.open_run(path).add(
                images, labels, overwrite=overwrite, on_progress=reporter.on_progress
            )
        values = dataclasses.asdict(added)
        tell(values, add_sentence(added, path), quiet=quiet, as_json=as_json)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the images and the run.")] = Path(
        "runs/demo"
    ),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label the built-in sample of handwritten digits, and say how right it was."""
    from surelabel.cli.progress import reporting

    with sentences(out / "run"):
        from surelabel.cli.output import print_demo
        from surelabel.report.page import report_at_end
        from surelabel.workflows.demo import run_demo
        from surelabel.workflows.label import Listeners

        with reporting(console, quiet=quiet or as_json) as reporter:
            result = run_demo(out, Listeners(reporter.on_progress, reporter.on_event))
        problem = report_at_end(result.run.folder)
        if as_json:
            print_json({**result.run.summary.to_json(), **result.truth()})
        elif not quiet:
            print_demo(console, result)
            console.print(problem, soft_wrap=True, end="\n" if problem else "")


def _close(finished: Run, *, page: bool, quiet: bool, as_json: bool) -> None:
    from surelabel.cli.output import close

    summary = close(console, finished, page=page, quiet=quiet, as_json=as_json)
    if not summary.n_labeled and summary.n_left:
        raise NothingLabeledError(
            f"{summary.path}: no image was labeled. More labels help most; a looser --accept "
            "(see surelabel label --help-all) accepts more and is wrong more often."
        )
