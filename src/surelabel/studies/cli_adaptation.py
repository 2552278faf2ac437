"""``surelabel study adaptation``: parse, run the study, print. No decisions are made here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from surelabel.studies.rows import row_listeners
from surelabel.telling import Json, Quiet, print_json, sentences

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
        from surelabel.studies import adaptation as study
        from surelabel.studies.adaptation_data import Sizes, pairs_named, source_of
        from surelabel.studies.adaptation_report import write_adaptation_report

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
