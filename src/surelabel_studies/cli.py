"""The commands ``surelabel study`` and ``surelabel data``: parse, run, print.

``surelabel`` finds both groups through entry points. What a command needs is imported when it
runs, so that ``surelabel --help`` starts without torch and matplotlib.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ParamSpec

import typer

from surelabel.cli.options import Json, Quiet
from surelabel.cli.output import console, handle_errors, print_json, print_result
from surelabel.config.choices import Net, Tail
from surelabel.errors import InputError

if TYPE_CHECKING:
    from surelabel.workflows.label import Listeners
    from surelabel_studies.use_by_dates.writer import Written

P = ParamSpec("P")


class MnistNet(StrEnum):
    """The nets that the MNIST study has a schedule for."""

    COMPACT = str(Net.COMPACT)
    DENSENET = str(Net.DENSENET)


# Options that several studies have.
Out = Annotated[Path, typer.Option(help="Folder for the runs and the report.")]
Seeds = Annotated[int, typer.Option(help="Number of seeds, from 0 up.", min=1)]
# Options of the MNIST study.
MnistFolder = Annotated[
    Path | None, typer.Option(help="Folder with MNIST's four IDX files; else they are downloaded.")
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        help="dst, dest, dbst-1 to dbst-4, all of these, or default: the tool's own settings."
    ),
]
NetOfMnist = Annotated[
    MnistNet, typer.Option(help="densenet is the paper's, with its schedule; compact is fast.")
]
Seed = Annotated[int, typer.Option(help="Draws the split and seeds the runs.", min=0)]
LabelsPerClass = Annotated[
    int, typer.Option(help="Labels of each class to train on.", min=2, max=50)
]
Total = Annotated[
    int,
    typer.Option(
        help="With --model default: number of labels in all, drawn uniformly, without a split.",
        min=0,
    ),
]
PoolSize = Annotated[
    int, typer.Option(help="A smaller pool, and fewer tune and test images.", min=0)
]
TestSize = Annotated[
    int, typer.Option(help="Number of test images; 0: in proportion to the pool.", min=0)
]
Epochs = Annotated[
    int | None, typer.Option(help="Passes over the labels per round, if not the default.", min=1)
]
MaxRounds = Annotated[int | None, typer.Option(help="Rounds at most.", min=1)]
# Options of the adaptation study.
AdaptedMnist = Annotated[
    Path | None, typer.Option("--data", help="Folder with MNIST; else downloaded.")
]
Usps = Annotated[
    Path | None, typer.Option(help="Folder with zip.train.gz and zip.test.gz; else downloaded.")
]
Leaves = Annotated[
    Path | None,
    typer.Option(help="Folder with leaves-lab, leaves-field and field-to-lab.csv; for the leaves."),
]
PairNames = Annotated[
    list[str] | None,
    typer.Option(help="leaves, mnist-usps, usps-mnist, packaging; all that are there by default."),
]
MostImages = Annotated[int, typer.Option(help="Images of each dataset at most.", min=200)]
FrozenNet = Annotated[str, typer.Option(help="The frozen net whose features every way sees.")]
PackagingShare = Annotated[
    float, typer.Option(help="Synthetic packaging: share of the paper's number of images.")
]
# Options of the packaging study.
Photos = Annotated[
    Path | None,
    typer.Option(help="Folder with your own set1 to set4; else synthetic ones are rendered."),
]
PhotoShare = Annotated[
    float | None,
    typer.Option(help="Synthetic photographs: share of the paper's numbers, 1 by default."),
]
PartNames = Annotated[
    list[str] | None, typer.Option(help="experiments, self-training, locations; all by default.")
]
RunNames = Annotated[
    list[str] | None,
    typer.Option(help="Only this run, such as experiment-2-set2 or tau; all by default."),
]
PretrainedNet = Annotated[str, typer.Option(help="A pre-trained net.")]
NetWeights = Annotated[
    str, typer.Option(help="File with its weights, if they come in no installed package.")
]
TailName = Annotated[Tail, typer.Option(help="What is trained on its features.")]
PackagingSteps = Annotated[int, typer.Option(help="Training steps per net.", min=1)]
PackagingRounds = Annotated[int, typer.Option(help="Rounds at most.", min=1)]
StartFrom = Annotated[
    Path | None,
    typer.Option(help="A finished run with the tail detail, from whose layers nets start."),
]
Beside = Annotated[
    list[Path] | None,
    typer.Option(help="The --out of a finished study, to show its experiments beside these."),
]
PackagingOut = Annotated[Path, typer.Option(help="Folder for images, runs and report.")]
# Options of the synthetic use-by dates.
SetFolder = Annotated[
    Path,
    typer.Argument(metavar="OUT", help="The folder to create or continue.", show_default=False),
]
SetName = Annotated[str, typer.Option(help="Which set of the paper: set1, set2, set3 or set4.")]
SetSeed = Annotated[int, typer.Option(help="Seed of everything random.")]
SetShare = Annotated[float, typer.Option(help="Share of the paper's number of images.")]
SetSize = Annotated[int, typer.Option(help="Width and height in pixels, from 299.")]
Workers = Annotated[
    int | None, typer.Option(help="Processes; by default one per core.", show_default=False)
]


def study_app() -> typer.Typer:
    """The group ``surelabel study``, with one command per study."""
    app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback()(_study)
    for command in (mnist, adaptation, packaging):
        app.command()(_needs_matplotlib(command))
    return app


def data_app() -> typer.Typer:
    """The group ``surelabel data``."""
    app = typer.Typer(no_args_is_help=True)
    app.callback()(_data)
    app.command("use-by-dates")(use_by_dates)
    return app


def _study() -> None:
    """Repeat a study of the paper, and compare."""


def _data() -> None:
    """Make datasets to try things on."""


def mnist(
    data: MnistFolder = None,
    model: Models = None,
    net: NetOfMnist = MnistNet.COMPACT,
    out: Out = Path("runs/mnist-study"),
    seed: Seed = 0,
    labels_per_class: LabelsPerClass = 50,
    total: Total = 0,
    pool_size: PoolSize = 0,
    test_size: TestSize = 0,
    epochs: Epochs = None,
    rounds: MaxRounds = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label MNIST from 50 labels per class with the paper's six models; compare with its table.

    If it is interrupted, the same command continues where it stopped.
    """
    with handle_errors():
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
        report = run_study(settings, load_mnist(data), out, _announcer(quiet or as_json))
        _print_study(report.to_json(), report.text, report.folder, quiet=quiet, as_json=as_json)


def adaptation(
    mnist_data: AdaptedMnist = None,
    usps: Usps = None,
    leaves: Leaves = None,
    pair: PairNames = None,
    seeds: Seeds = 5,
    images: MostImages = 4000,
    scale: PackagingShare = 2.0,
    net: FrozenNet = "lite0",
    out: Out = Path("runs/adaptation-study"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label a dataset with the help of another: each way, by number of new labels.

    If it is interrupted, the same command continues where it stopped.
    """
    with handle_errors():
        from surelabel_studies.adaptation import study
        from surelabel_studies.adaptation.pairs import Places, pairs_named, source_of
        from surelabel_studies.adaptation.report import write_adaptation_report

        places = Places(mnist_data, usps, leaves, out / "packaging-images", scale, net, images)
        pairs = pairs_named(pair, places)
        settings = study.AdaptationSettings(pairs, seeds, net=net, images=images)
        data = source_of(places)
        trials = study.run_adaptation(settings, data, out, _announcer(quiet or as_json))
        text = write_adaptation_report(trials, out / "report")
        _print_study(study.to_json(trials), text, out / "report", quiet=quiet, as_json=as_json)


def packaging(
    photos: Photos = None,
    scale: PhotoShare = None,
    part: PartNames = None,
    only: RunNames = None,
    net: PretrainedNet = "efficientnet-lite0",
    net_weights: NetWeights = "",
    tail: TailName = Tail.SMALL,
    steps: PackagingSteps = 400,
    rounds: PackagingRounds = 20,
    seeds: Seeds = 3,
    start_from: StartFrom = None,
    beside: Beside = None,
    out: PackagingOut = Path("runs/packaging-study"),
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Read use-by dates off food packaging, and label it by self-training; compare.

    If it is interrupted, the same command continues where it stopped.
    """
    with handle_errors():
        from surelabel.workflows.model_inputs import absolute_path
        from surelabel_studies.packaging import study
        from surelabel_studies.packaging.rows import Trained

        file = absolute_path(net_weights) if net_weights else ""
        start = study.start_named(start_from)
        trained = Trained(net, file, tail, steps, rounds, start)
        parts = study.parts_named(part)
        runs = study.runs_named(only)
        settings = study.PackagingSettings(
            trained, scale, tuple(range(seeds)), photos, parts, runs, tuple(beside or ())
        )
        results = study.run_packaging(settings, out, _announcer(quiet or as_json))
        text = study.write_report(results, out / "report")
        _print_study(results.to_json(), text, out / "report", quiet=quiet, as_json=as_json)


def use_by_dates(
    out: SetFolder,
    like: SetName,
    seed: SetSeed = 0,
    scale: SetShare = 1.0,
    size: SetSize = 299,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Draw synthetic photographs of food packaging with use-by dates."""
    from surelabel.cli.progress import reporting

    with handle_errors():
        from surelabel_studies.use_by_dates.records import Settings
        from surelabel_studies.use_by_dates.sets import like_named
        from surelabel_studies.use_by_dates.writer import write_use_by_dates

        settings = Settings(like_named(like), seed, scale, size)
        with reporting(console, quiet=quiet or as_json) as reporter:
            written = write_use_by_dates(
                out, settings, workers=workers, on_progress=reporter.on_progress
            )
        print_result(
            {"synthetic": True, "out": out, "images": written.n_images, **written.n_of_label},
            _written_sentence(written),
            quiet=quiet,
            as_json=as_json,
        )


def _needs_matplotlib(study: Callable[P, None]) -> Callable[P, None]:
    """``study``, which refuses to start if its figures could not be drawn at the end."""

    @functools.wraps(study)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with handle_errors():
            if importlib.util.find_spec("matplotlib") is None:
                raise InputError("A study needs matplotlib: pip install 'surelabel[studies]'.")
        study(*args, **kwargs)

    return run


def _announcer(silent: bool) -> Callable[[str], AbstractContextManager[Listeners]]:
    """What opens the progress listeners of one run of a study under the run's name."""

    @contextlib.contextmanager
    def announce(name: str) -> Iterator[Listeners]:
        from surelabel.cli.progress import reporting
        from surelabel.workflows.label import Listeners

        if not silent:
            console.print(f"\n{name}", style="bold")
        try:
            with reporting(console, quiet=silent) as reporter:
                yield Listeners(reporter.on_progress, reporter.on_event)
        except KeyboardInterrupt:
            console.print("Nothing is lost: the same command continues from here.")
            raise

    return announce


def _print_study(
    values: Mapping[str, object], text: str, report: Path, *, quiet: bool, as_json: bool
) -> None:
    """Print the results of a study as JSON, or its tables and verdicts as text."""
    if as_json:
        print_json(values)
    elif not quiet:
        typer.echo(text)
        typer.echo(f"Tables, verdicts and figures are in {report}.")


def _written_sentence(written: Written) -> str:
    """How many synthetic photographs there are now, and what can be done with them."""
    kinds = ", ".join(f"{n:,} {label}" for label, n in written.n_of_label.items())
    there = written.n_images - written.n_made
    kept = f" ({there:,} were there already)" if there else ""
    folder = shlex.quote(str(written.out))
    return (
        f"Wrote {written.n_images:,} synthetic photographs to {written.out}{kept}: {kinds}.\n"
        "labels.csv has their labels and the difficulty of each fault. To label some yourself:\n"
        f"  surelabel draw {folder}"
    )
