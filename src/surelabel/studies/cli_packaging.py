"""``surelabel study packaging``: the paper's study of photographs, as a command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surelabel.choices import Tail
from surelabel.studies.rows import row_listeners
from surelabel.telling import print_json, sentences


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
        from surelabel.inputs import whole_path
        from surelabel.studies import packaging as study
        from surelabel.studies.packaging_report import write_packaging_report
        from surelabel.studies.packaging_rows import Trained

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
