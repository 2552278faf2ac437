"""The commands below ``surelabel data``: datasets to try things on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surelabel.telling import Json, Quiet, console, sentences, tell


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
    from surelabel.console import reporting

    with sentences():
        from surelabel.datasets.use_by_dates import Settings, like_named, write_use_by_dates
        from surelabel.words import use_by_dates_sentence

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
