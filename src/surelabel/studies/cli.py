"""``surelabel study``: parse, run the study, print. No decisions are made here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from surelabel.choices import Net, Tail
from surelabel.telling import print_json, sentences

if TYPE_CHECKING:
    from surelabel.session import Listeners

console = Console(stderr=True, highlight=False, markup=False)


def study_app() -> typer.Typer:
    """The studies, each a command."""
    app = typer.Typer(
        help="Repeat a study of the paper, and compare.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_studies)
    app.command()(mnist)
    app.command()(adaptation)
    app.command()(packaging)
    return app


def _studies() -> None:
    """Repeat a study of the paper, and compare."""


def mnist(
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with MNIST's four IDX files; else they are downloaded."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="dst, dest, dbst-1 to dbst-4, all of these, or default: the tool's own settings."
        ),
    ] = None,
    net: Annotated[
        Net, typer.Option(help="densenet is the paper's, with its schedule; compact is fast.")
    ] = Net.COMPACT,
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path(
        "runs/mnist-study"
    ),
    seed: Annotated[int, typer.Option(help="Draws the split and seeds the runs.", min=0)] = 0,
    labels_per_class: Annotated[
        int, typer.Option(help="Labels of each class to train on.", min=2, max=50)
    ] = 50,
    total: Annotated[
        int,
        typer.Option(
            help="With --model default: so many labels in all, drawn uniformly, no split given.",
            min=0,
        ),
    ] = 0,
    pool_size: Annotated[
        int, typer.Option(help="A smaller pool, and fewer tune and test images.", min=0)
    ] = 0,
    test_size: Annotated[
        int, typer.Option(help="Test images to look at; 0: in proportion to the pool.", min=0)
    ] = 0,
    epochs: Annotated[
        int | None, typer.Option(help="Passes over the labels a round, instead of the usual.")
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds at most.", min=1)] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Label MNIST from 50 labels a class with the paper's six models; compare with its table.

    Call it again after a kill, and it goes on where it stopped.
    """
    with sentences():
        from surelabel.studies.mnist_rows import models_named

        models = models_named(model or ["all"])
        from surelabel.datasets.mnist import load_mnist
        from surelabel.studies.mnist import StudySettings, run_study

        settings = StudySettings(
            models=models,
            net=net,
            seed=seed,
            labels_per_class=labels_per_class,
            total=total,
            pool_size=pool_size,
            test_size=test_size,
            epochs=epochs,
            rounds=rounds,
        )
        digits = load_mnist(data)
        report = run_study(settings, digits, out, lambda name: _row(name, quiet or as_json))
        if as_json:
            print_json(report.to_json())
        elif not quiet:
            typer.echo(report.text)
            typer.echo(f"Tables, verdicts and figures are in {report.folder}.")


def adaptation(
    mnist_data: Annotated[
        Path | None, typer.Option("--data", help="Folder with MNIST; else it is downloaded.")
    ] = None,
    usps: Annotated[
        Path | None,
        typer.Option(help="Folder with zip.train.gz and zip.test.gz; else they are downloaded."),
    ] = None,
    pair: Annotated[
        list[str] | None, typer.Option(help="mnist-usps, usps-mnist, packaging; all by default.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0 up.", min=1)] = 5,
    old_labels: Annotated[int, typer.Option(help="Labels that the net learns from.")] = 2000,
    new_labels: Annotated[int, typer.Option(help="Labels of the new dataset.", min=100)] = 400,
    pool: Annotated[int, typer.Option(help="More images of the new dataset.", min=1)] = 3000,
    test: Annotated[int, typer.Option(help="Test images of each dataset.", min=10)] = 2000,
    scale: Annotated[
        float, typer.Option(help="Synthetic packaging: share of the paper's number of images.")
    ] = 2.0,
    image_size: Annotated[int, typer.Option(help="Side of its pictures.", min=32)] = 96,
    steps: Annotated[int, typer.Option(help="Training steps of a net; 0: by data.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path(
        "runs/adaptation-study"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Label a dataset with a net trained on another, by adaptive clustering; compare.

    Call it again after a kill, and it goes on where it stopped.
    """
    with sentences():
        from surelabel.studies import adaptation as study
        from surelabel.studies.adaptation_data import Sizes, pairs_named, source_of
        from surelabel.studies.adaptation_report import write_adaptation_report

        sizes = Sizes(old_labels, max(1, old_labels // 2), new_labels, pool, test)
        settings = study.AdaptationSettings(
            pairs_named(pair), seeds, sizes, {"steps": steps} if steps else {}
        )
        data = source_of(mnist_data, usps, out / "packaging-images", scale, image_size)
        found = study.run_adaptation(settings, data, out, lambda n: _row(n, quiet or as_json))
        text = write_adaptation_report(found, sizes, out / "report")
        if as_json:
            print_json(study.to_json(found))
        elif not quiet:
            typer.echo(text)
            typer.echo(f"Tables, verdicts and figures are in {out / 'report'}.")


def packaging(
    photos: Annotated[
        Path | None,
        typer.Option(help="Folder with your own set1 to set4; else synthetic ones are rendered."),
    ] = None,
    scale: Annotated[
        float, typer.Option(help="Synthetic photographs: share of the paper's numbers.")
    ] = 1.0,
    part: Annotated[
        list[str] | None,
        typer.Option(help="experiments, self-training, locations; all by default."),
    ] = None,
    net: Annotated[str, typer.Option(help="A pre-trained net.")] = "efficientnet-lite0",
    net_weights: Annotated[
        str, typer.Option(help="File with its weights, where no package has them.")
    ] = "",
    tail: Annotated[Tail, typer.Option(help="What is trained on its features.")] = Tail.SMALL,
    steps: Annotated[int, typer.Option(help="Training steps of a net.", min=1)] = 400,
    rounds: Annotated[int, typer.Option(help="Rounds at most.", min=1)] = 20,
    seeds: Annotated[int, typer.Option(help="How many seeds, from 0 up.", min=1)] = 3,
    out: Annotated[Path, typer.Option(help="Folder for images, runs and report.")] = Path(
        "runs/packaging-study"
    ),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Read use-by dates off food packaging, and label it by self-training; compare.

    Call it again after a kill, and it goes on where it stopped.
    """
    with sentences():
        from surelabel.studies import packaging as study
        from surelabel.studies.packaging_report import write_packaging_report
        from surelabel.studies.packaging_rows import Trained

        trained = Trained(net, net_weights, tail, steps, rounds)
        parts = study.parts_named(part)
        settings = study.PackagingSettings(trained, scale, tuple(range(seeds)), photos, parts)
        found = study.run_packaging(settings, out, lambda n: _row(n, quiet or as_json))
        text = write_packaging_report(found, out / "report")
        if as_json:
            print_json(found.to_json())
        elif not quiet:
            typer.echo(text)
            typer.echo(f"Tables, verdicts and figures are in {out / 'report'}.")


@contextlib.contextmanager
def _row(name: str, silent: bool) -> Iterator[Listeners]:
    """The listeners of one row, under its name."""
    from surelabel.console import reporting
    from surelabel.session import Listeners

    if not silent:
        console.print(f"\n{name}", style="bold")
    try:
        with reporting(console, quiet=silent) as reporter:
            yield Listeners(reporter.on_progress, reporter.on_event)
    except KeyboardInterrupt:
        console.print("Nothing is lost: the same command goes on from here.")
        raise
