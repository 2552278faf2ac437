"""The command ``adapt``: parse, call the API, print. No decisions here."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from surelabel.cli.output import Json, Page, Quiet, console, sentences
from surelabel.errors import NothingLabeledError


def adapt(
    path: Annotated[
        Path, typer.Argument(metavar="RUN", help="A finished run.", show_default=False)
    ],
    images: Annotated[
        Path, typer.Argument(metavar="IMAGES", help="The new images.", show_default=False)
    ],
    labels: Annotated[Path, typer.Option(help="Some labels of the new images: path,label.")],
    out: Annotated[Path, typer.Option(help="The run folder to make.")],
    run1: Annotated[
        Path | None,
        typer.Option(help="A run on the new images; else one is made, beside --out."),
    ] = None,
    k: Annotated[
        list[int] | None,
        typer.Option(help="Clusters a dataset; give several to choose from.", min=1),
    ] = None,
    accept: Annotated[str | None, typer.Option(help="As for surelabel label.")] = None,
    max_error: Annotated[str | None, typer.Option(help="As for surelabel label.")] = None,
    seed: Annotated[int | None, typer.Option(help="One seed for everything random.")] = None,
    page: Page = True,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Label a new dataset with the nets of a finished run, without training them again."""
    from surelabel.cli.progress import reporting

    with sentences():
        from surelabel import api
        from surelabel.cli.output import close
        from surelabel.messages.adaptation import refusal_sentence
        from surelabel.workflows.label import Listeners

        given: dict[str, Any] = {"accept": accept, "max_error": max_error, "seed": seed}
        options = {name: value for name, value in given.items() if value is not None}
        with _going_on(), reporting(console, quiet=quiet or as_json) as reporter:
            listeners = Listeners(reporter.on_progress, reporter.on_event)
            made = api.open_run(path).adapt(
                images, labels, out, run1=run1, ks=k or (), listeners=listeners, **options
            )
        summary = close(console, made, page=page, quiet=quiet, as_json=as_json)
        if not summary.n_labeled and summary.n_left:
            raise NothingLabeledError(refusal_sentence(summary))


@contextlib.contextmanager
def _going_on() -> Iterator[None]:
    """After ctrl-C, the way to go on: finished training of the second facet is used again."""
    try:
        yield
    except KeyboardInterrupt:
        console.print("Nothing is lost: the same command goes on from here.")
        raise
