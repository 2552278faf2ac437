"""Commands that start or change a run: label, resume, adapt, draw, add, demo."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from surelabel.cli.options import (
    ImagesPath,
    Json,
    Quiet,
    Report,
    RunPath,
    Track,
    config_from,
    share,
)
from surelabel.cli.output import console, handle_errors, print_json, print_result
from surelabel.cli.progress import Reporter, reporting
from surelabel.config.choices import Strategy, TrackerName
from surelabel.errors import NothingLabeledError, OptionError
from surelabel.messages.run import (
    add_sentence,
    draw_sentence,
    draw_to_adapt_sentence,
    nothing_labeled_message,
    run_name,
)

if TYPE_CHECKING:
    import pandas as pd

    from surelabel.api import Run
    from surelabel.types import JsonObject, OnProgress
    from surelabel.workflows.label import Listeners
    from surelabel.workflows.summary import Summary


def label(
    images: ImagesPath,
    labels: Annotated[
        str | None,
        typer.Option(help="A table of path,label. Without it, class folders beside unlabeled/."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run folder to make; default runs/NAME-OF-IMAGES.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file of settings.")] = None,
    track: Track = None,
    page: Report = True,
    quiet: Quiet = False,
    as_json: Json = False,
    **settings: object,
) -> None:
    """Label IMAGES from a few labels. --help-all shows every option."""
    target = out or Path("runs") / run_name(images)
    with handle_errors(target):
        chosen = config_from(settings, config)
        from surelabel import api

        with reporting(console, quiet=quiet or as_json) as reporter:
            listeners = _listeners(reporter, track, target)
            run = api.label(images, labels, target, config=chosen, listeners=listeners)
        _print_end(run, nothing_labeled_message, page=page, quiet=quiet, as_json=as_json)


def resume(
    path: RunPath,
    images: Annotated[
        str | None, typer.Option(help="Where the images are now, if they were moved.")
    ] = None,
    max_rounds: Annotated[
        int | None, typer.Option(help="A new limit for the rounds of the run.")
    ] = None,
    track: Track = None,
    page: Report = True,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Continue a run after it was stopped, or after adding to it."""
    with handle_errors(path):
        from surelabel import api

        run = api.open_run(path)
        earlier = list(run.rounds)
        with reporting(console, quiet=quiet or as_json, earlier=earlier) as reporter:
            listeners = _listeners(reporter, track, path)
            run.resume(listeners, images=images, max_rounds=max_rounds)
        _print_end(run, nothing_labeled_message, page=page, quiet=quiet, as_json=as_json)


def _listeners(reporter: Reporter, track: TrackerName | None, run: Path) -> Listeners:
    """The reporter, behind a tracker where one is asked for."""
    from surelabel.workflows.label import Listeners

    if track is None:
        return Listeners(reporter.on_progress, reporter.on_event)
    from surelabel.integrations.trackers import Tracker

    tracker = Tracker(track, run, reporter.on_event)
    return Listeners(reporter.on_progress, tracker.on_event)


def adapt(
    path: Annotated[
        Path, typer.Argument(metavar="RUN", help="A finished run.", show_default=False)
    ],
    images: Annotated[
        str, typer.Argument(metavar="IMAGES", help="The new images.", show_default=False)
    ],
    labels: Annotated[str, typer.Option(help="Some labels of the new images: path,label.")],
    out: Annotated[Path, typer.Option(help="The run folder to make.")],
    k: Annotated[
        list[int] | None,
        typer.Option(help="Clusters per dataset for the paper's way; repeat to try more.", min=1),
    ] = None,
    accept: Annotated[str | None, typer.Option(help="As for surelabel label.")] = None,
    max_error: Annotated[str | None, typer.Option(help="As for surelabel label.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    page: Report = True,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label a new dataset of the same classes with the help of a finished run."""
    with handle_errors():
        from surelabel import api
        from surelabel.workflows.label import Listeners

        given = {"accept": accept, "max_error": max_error, "seed": seed}
        options: JsonObject = {k: value for k, value in given.items() if value is not None}
        with _repeat_hint(), reporting(console, quiet=quiet or as_json) as reporter:
            listeners = Listeners(reporter.on_progress, reporter.on_event)
            run = api.open_run(path).adapt(
                images, labels, out, ks=k or (), listeners=listeners, **options
            )
        _print_end(run, nothing_labeled_message, page=page, quiet=quiet, as_json=as_json)


def draw(
    images: ImagesPath,
    n: Annotated[int, typer.Option("-n", help="How many images.")] = 300,
    out: Annotated[Path, typer.Option(help="The CSV file to write and fill in.")] = Path(
        "labels.csv"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    certify: Annotated[
        float | None,
        typer.Option(
            parser=share,
            metavar="SHARE",
            help="Share set aside to certify; default a third, or none if n is below 177.",
        ),
    ] = None,
    without: Annotated[
        Path | None, typer.Option(help="A table of images not to draw again.")
    ] = None,
    strategy: Annotated[
        Strategy,
        typer.Option(
            help="random, coverage (typical and diverse images) or uncertain (IMAGES is a run)."
        ),
    ] = Strategy.RANDOM,
    certify_for: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Draw certify images of a finished run, surest first."),
    ] = None,
    adapt_from: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN", help="Draw images to label before this run is adapted to them."
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Draw images, by default at random, and write a table for their labels."""
    with handle_errors():
        from surelabel.dataset.sampling import MIN_DRAWN, write_draw

        if certify_for is not None:
            _draw_certify(certify_for, n, out, quiet=quiet, as_json=as_json)
            return

        if adapt_from is not None:
            if strategy is not Strategy.RANDOM or certify or without is not None:
                raise OptionError(
                    "--adapt-from chooses images in its own way: leave out --strategy, --certify "
                    "and --without."
                )
            _draw_to_adapt(adapt_from, images, n, seed, out, quiet=quiet, as_json=as_json)
            return
        if strategy is not Strategy.RANDOM and certify:
            raise OptionError(
                f"Images drawn by the strategy {strategy} are no random sample and cannot certify: "
                "leave out --certify, and draw certify images at random."
            )
        with reporting(console, quiet=quiet or as_json) as reporter:
            table = _drawn(images, n, strategy, seed, certify, without, reporter.on_progress)
        write_draw(table, out)
        n_certify = int((table["split"] == "certify").sum()) if "split" in table else 0
        print_result(
            {"out": out, "images": len(table), "certify": n_certify},
            draw_sentence(
                len(table), n, images, out, strategy, n_certify=n_certify, n_least=MIN_DRAWN
            ),
            quiet=quiet,
            as_json=as_json,
        )


def _draw_to_adapt(
    run: Path, images: str, n: int, seed: int, out: Path, *, quiet: bool, as_json: bool
) -> None:
    from surelabel.adaptation.first_labels import draw_for_adaptation
    from surelabel.dataset.sampling import write_draw
    from surelabel.runs.folder import RunFolder

    with reporting(console, quiet=quiet or as_json) as reporter:
        table = draw_for_adaptation(RunFolder.open(run), images, n, seed, reporter.on_progress)
    write_draw(table, out)
    print_result(
        {"out": out, "images": len(table), "certify": 0},
        draw_to_adapt_sentence(table["drawn"].tolist(), images, run, out),
        quiet=quiet,
        as_json=as_json,
    )


def _draw_certify(run: Path, n: int, out: Path, *, quiet: bool, as_json: bool) -> None:
    from surelabel.dataset.sampling import write_draw
    from surelabel.messages.guarantees import certify_table_sentence
    from surelabel.runs.folder import RunFolder
    from surelabel.workflows.certify_plan import certify_table

    table = certify_table(RunFolder.open(run), n)
    write_draw(table, out)
    print_result(
        {"out": out, "images": len(table), "certify": len(table)},
        certify_table_sentence(len(table), str(out), str(run)),
        quiet=quiet,
        as_json=as_json,
    )


def _drawn(
    images: str,
    n: int,
    strategy: Strategy,
    seed: int,
    certify: float | None,
    without: Path | None,
    on_progress: OnProgress,
) -> pd.DataFrame:
    """The table of drawn images."""
    if strategy is Strategy.RANDOM:
        from surelabel.dataset.sampling import draw as draw_images

        return draw_images(images, n, seed=seed, certify=certify, without=without)
    from surelabel.config.settings import Config
    from surelabel.runs.folder import RunFolder
    from surelabel.workflows.drawing import draw_by_coverage, draw_uncertain

    is_run = (Path(images) / "run.json").is_file()
    if is_run != (strategy is Strategy.UNCERTAIN):
        raise OptionError(
            f"{images} is {'' if is_run else 'not '}a run: the strategy uncertain draws from the "
            "images of a run, coverage and random from images."
        )
    if is_run:
        return draw_uncertain(RunFolder.open(Path(images)), n, on_progress)
    return draw_by_coverage(images, n, Config(seed=seed), without, on_progress)


def add(
    path: RunPath,
    images: Annotated[str | None, typer.Option(help="More images.")] = None,
    labels: Annotated[str | None, typer.Option(help="More labels.")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Let new labels replace labels that differ.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Add images, labels or classes to a run."""
    with handle_errors():
        from surelabel import api

        with reporting(console, quiet=quiet or as_json) as reporter:
            added = api.open_run(path).add(
                images, labels, overwrite=overwrite, on_progress=reporter.on_progress
            )
        print_result(
            dataclasses.asdict(added), add_sentence(added, path), quiet=quiet, as_json=as_json
        )


def demo(
    out: Annotated[Path, typer.Option(help="The folder for the images and the run.")] = Path(
        "runs/demo"
    ),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label built-in handwritten digits and count the errors."""
    with handle_errors(out / "run"):
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
    if quiet or as_json:
        _tell_failed_report(problem)


def _tell_failed_report(problem: str) -> None:
    """A report that could not be written is told also where nothing else is printed."""
    from surelabel.report.page import missing_packages

    if problem and not missing_packages():
        typer.echo(problem, err=True)


def _print_end(
    run: Run,
    nothing_labeled: Callable[[Summary], str],
    *,
    page: bool,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the report and print the summary; ``NothingLabeledError`` if no label was accepted."""
    from surelabel.cli.output import print_summary
    from surelabel.report.page import report_at_end

    summary = run.summary
    if page and not quiet and not as_json:
        console.print("Writing the report.")  # its forecasts take seconds, more on a busy machine
    problem = report_at_end(run.folder) if page else ""
    if as_json:
        print_json(summary.to_json())
    elif not quiet:
        effort = run.effort() if summary.rounds and summary.n_left else None
        print_summary(console, summary, rounds=not console.is_terminal, effort=effort)
        console.print(problem, soft_wrap=True, end="\n" if problem else "")
    if quiet or as_json:
        _tell_failed_report(problem)
    if not summary.n_labeled and summary.n_left:
        raise NothingLabeledError(nothing_labeled(summary))


@contextlib.contextmanager
def _repeat_hint() -> Iterator[None]:
    """After ctrl-C, say that the same command continues: finished training is used again."""
    try:
        yield
    except KeyboardInterrupt:
        console.print("Nothing is lost: run the same command again to continue.")
        raise
