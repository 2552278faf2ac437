"""``surelabel study``: parse, run the study, print. No decisions are made here."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ParamSpec

import typer

from surelabel.choices import Net
from surelabel.errors import InputError
from surelabel.studies.cli_adaptation import adaptation
from surelabel.studies.cli_packaging import packaging
from surelabel.studies.rows import row_listeners
from surelabel.telling import print_json, sentences

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
        from surelabel.studies.mnist_rows import models_named

        models = models_named(model or ["all"])
        from surelabel.datasets.mnist import load_mnist
        from surelabel.studies.mnist import StudySettings, run_study

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
