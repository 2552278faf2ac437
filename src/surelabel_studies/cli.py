"""``surelabel study`` and ``surelabel data``: parse, run, print. No decisions here."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec

import typer

from surelabel.cli.output import Json, Quiet, console, print_json, sentences, tell
from surelabel.config.choices import Net, Tail
from surelabel.errors import InputError

if TYPE_CHECKING:
    from surelabel.workflows.label import Listeners


def data_app() -> typer.Typer:
    """The group of commands."""
    app = typer.Typer(help="Make datasets to try things on.", no_args_is_help=True)
    app.callback()(_group)
    app.command("use-by-dates")(use_by_dates)
    return app


def _group() -> None:
    """Make datasets to try things on."""


def use_by_dates(
    out: Annotated[
        Path,
        typer.Argument(metavar="OUT", help="The folder to make or go on with.", show_default=False),
    ],
    like: Annotated[str, typer.Option(help="Which set of the paper: set1, set2, set3 or set4.")],
    seed: Annotated[int, typer.Option(help="Seed of all that is random.")] = 0,
    scale: Annotated[float, typer.Option(help="Share of the paper's number of images.")] = 1.0,
    size: Annotated[int, typer.Option(help="Width and height in pixels, from 299.")] = 299,
    workers: Annotated[
        int | None, typer.Option(help="Processes; by default one a core.", show_default=False)
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Draw synthetic photographs of food packaging with use-by dates."""
    from surelabel.cli.progress import reporting

    with sentences():
        from surelabel.messages.run import use_by_dates_sentence
        from surelabel_studies.use_by_dates.records import Settings
        from surelabel_studies.use_by_dates.sets import like_named
        from surelabel_studies.use_by_dates.writer import write_use_by_dates

        settings = Settings(like_named(like), seed, scale, size)
        with reporting(console, quiet=quiet or as_json) as reporter:
            written = write_use_by_dates(
                out, settings, workers=workers, on_progress=reporter.on_progress
            )
        tell(
            {"synthetic": True, "out": out, "images": written.n_images, **written.n_of_label},
            use_by_dates_sentence(written),
            quiet=quiet,
            as_json=as_json,
        )


@contextlib.contextmanager
def row_listeners(name: str, *, silent: bool) -> Iterator[Listeners]:
    """The listeners of one row, under its name."""
    from surelabel.cli.progress import reporting
    from surelabel.workflows.label import Listeners

    if not silent:
        console.print(f"\n{name}", style="bold")
    try:
        with reporting(console, quiet=silent) as reporter:
            yield Listeners(reporter.on_progress, reporter.on_event)
    except KeyboardInterrupt:
        console.print("Nothing is lost: the same command goes on from here.")
        raise


Folder = Annotated[Path | None, typer.Option("--data", help="Folder with MNIST; else downloaded.")]
Usps = Annotated[
    Path | None, typer.Option(help="Folder with zip.train.gz and zip.test.gz; else downloaded.")
]
PairNames = Annotated[
    list[str] | None, typer.Option(help="mnist-usps, usps-mnist, packaging; all by default.")
]
Seeds = Annotated[int, typer.Option(help="How many seeds, from 0 up.", min=1)]
OldLabels = Annotated[int, typer.Option(help="Labels that the net learns from.", min=20)]
NewLabels = Annotated[int, typer.Option(help="Labels of the new dataset.", min=100)]
Pool = Annotated[int, typer.Option(help="More images of the new dataset.", min=1)]
Test = Annotated[int, typer.Option(help="Test images of each dataset.", min=10)]
Scale = Annotated[
    float, typer.Option(help="Synthetic packaging: share of the paper's number of images.")
]
ImageSize = Annotated[int, typer.Option(help="Side of its pictures.", min=32)]
NetName = Annotated[
    str, typer.Option(help="auto: compact for digits, pre-trained for packaging if installed.")
]
Steps = Annotated[int, typer.Option(help="Training steps of a net; 0: by data.", min=0)]
Rounds = Annotated[int, typer.Option(help="Rounds of each run at most.", min=1)]
Out = Annotated[Path, typer.Option(help="Folder for the runs and the report.")]


def adaptation(
    mnist_data: Folder = None,
    usps: Usps = None,
    pair: PairNames = None,
    seeds: Seeds = 5,
    old_labels: OldLabels = 1000,
    new_labels: NewLabels = 400,
    pool: Pool = 1000,
    test: Test = 1000,
    scale: Scale = 2.0,
    image_size: ImageSize = 224,
    net: NetName = "auto",
    steps: Steps = 300,
    rounds: Rounds = 1,
    out: Out = Path("runs/adaptation-study"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label a dataset with a net trained on another, by adaptive clustering; compare.

    Call it again after a kill, and it goes on where it stopped.
    """
    with sentences():
        from surelabel_studies.adaptation import study
        from surelabel_studies.adaptation.pairs import Sizes, pairs_named, source_of
        from surelabel_studies.adaptation.report import write_adaptation_report

        sizes = Sizes(old_labels, max(1, old_labels // 2), new_labels, pool, test)
        options = {"net": net, "steps": steps, "max_rounds": rounds}
        settings = study.AdaptationSettings(pairs_named(pair), seeds, sizes, options)
        data = source_of(mnist_data, usps, out / "packaging-images", scale, image_size)
        silent = quiet or as_json
        found = study.run_adaptation(
            settings, data, out, lambda name: row_listeners(name, silent=silent)
        )
        text = write_adaptation_report(found, settings, out / "report")
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
        float | None,
        typer.Option(help="Synthetic photographs: share of the paper's numbers, 1 by default."),
    ] = None,
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
        from surelabel.workflows.model_inputs import whole_path
        from surelabel_studies.packaging import study
        from surelabel_studies.packaging.report import write_packaging_report
        from surelabel_studies.packaging.rows import Trained

        file = whole_path(net_weights) if net_weights else ""
        trained = Trained(net, file, tail, steps, rounds)
        parts = study.parts_named(part)
        settings = study.PackagingSettings(trained, scale, tuple(range(seeds)), photos, parts)
        found = study.run_packaging(
            settings, out, lambda n: row_listeners(n, silent=quiet or as_json)
        )
        text = write_packaging_report(found, out / "report")
        if as_json:
            print_json(found.to_json())
        elif not quiet:
            typer.echo(text)
            typer.echo(f"Tables, verdicts and figures are in {out / 'report'}.")


P = ParamSpec("P")


class MnistNet(StrEnum):
    """The nets that the MNIST study knows a schedule for."""

    COMPACT = str(Net.COMPACT)
    DENSENET = str(Net.DENSENET)


def study_app() -> typer.Typer:
    """The studies, each a command."""
    app = typer.Typer(
        help="Repeat a study of the paper, and compare.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
    )
    app.callback()(_studies)
    for study in (mnist, adaptation, packaging):
        app.command()(_drawing(study))
    return app


def _drawing(study: Callable[P, None]) -> Callable[P, None]:
    """``study``, but a sentence before all else where its figures could not be drawn."""

    @functools.wraps(study)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with sentences():
            if importlib.util.find_spec("matplotlib") is None:
                raise InputError("A study needs matplotlib: pip install 'surelabel[studies]'.")
        study(*args, **kwargs)

    return run


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
        MnistNet, typer.Option(help="densenet is the paper's, with its schedule; compact is fast.")
    ] = MnistNet.COMPACT,
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
        int | None,
        typer.Option(help="Passes over the labels a round, instead of the usual.", min=1),
    ] = None,
    rounds: Annotated[int | None, typer.Option(help="Rounds at most.", min=1)] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Label MNIST from 50 labels a class with the paper's six models; compare with its table.

    Call it again after a kill, and it goes on where it stopped.
    """
    with sentences():
        from surelabel_studies.mnist.rows import models_named

        models = models_named(model or ["all"])
        from surelabel_studies.datasets.mnist import load_mnist
        from surelabel_studies.mnist.study import StudySettings, run_study

        settings = StudySettings(
            models=models,
            net=Net(net),
            seed=seed,
            labels_per_class=labels_per_class,
            total=total,
            pool_size=pool_size,
            test_size=test_size,
            epochs=epochs,
            rounds=rounds,
        )
        digits = load_mnist(data)
        report = run_study(
            settings, digits, out, lambda name: row_listeners(name, silent=quiet or as_json)
        )
        if as_json:
            print_json(report.to_json())
        elif not quiet:
            typer.echo(report.text)
            typer.echo(f"Tables, verdicts and figures are in {report.folder}.")
