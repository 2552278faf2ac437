"""One row of a study as an ordinary run: made, resumed after a kill, or left as it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from surelabel import api
from surelabel.api import Run
from surelabel.config.settings import Config, options
from surelabel.dataset.catalog import Catalog
from surelabel.errors import RunError
from surelabel.types import LabelSource, Split
from surelabel.workflows.label import Listeners
from surelabel_studies.mnist.split import StudySplit

_MACHINE = ("threads", "device", "cache")
"""What may differ between two calls of the same study."""


def run_row(path: Path, config: Config, split: StudySplit, listeners: Listeners) -> Run:
    """The finished run at ``path``, with as much training as it still needs.

    More rounds than before may be asked for; any other change of settings or images is refused,
    because the figures would be of neither.
    """
    if not (path / "run.json").exists():
        return api.label(split.images, split.labels, path, config=config, listeners=listeners)
    run = api.open_run(path)
    _refuse_another(run, config, split)
    if run.config.max_rounds < config.max_rounds or not run.summary.is_finished:
        run.resume(listeners, images=split.images, max_rounds=config.max_rounds)
    return run


def _refuse_another(run: Run, config: Config, split: StudySplit) -> None:
    there, here = _sizes(run.folder.catalog, split), _asked(split)
    refuse_other_settings(run, config, [f"{there}, not {here}"] if there != here else [])


def refuse_other_settings(run: Run, config: Config, differing: Sequence[str] = ()) -> None:
    """Refuse a run whose settings are not ``config``, or that is ``differing`` otherwise."""
    before = run.config
    others = [
        f"{name} {getattr(before, name)}, not {getattr(config, name)}"
        for name in (spec.name for spec in options())
        if name not in (*_MACHINE, "max_rounds") and getattr(before, name) != getattr(config, name)
    ]
    if before.max_rounds > config.max_rounds:
        others.append(f"max_rounds {before.max_rounds}, not {config.max_rounds}")
    others += differing
    if others:
        raise RunError(
            f"{run.path} holds a run with other settings ({'; '.join(others)}): give the study "
            "another --out, or delete that folder."
        )


def _sizes(catalog: Catalog, split: StudySplit) -> str:
    n_labels = int((catalog.sources == LabelSource.GIVEN).sum())
    n_tune = int((catalog.splits == Split.TUNE).sum()) if "split" in split.labels else 0
    return size_words(len(catalog), n_labels, n_tune)


def _asked(split: StudySplit) -> str:
    n_tune = int((split.labels["split"] == "tune").sum()) if "split" in split.labels else 0
    return size_words(len(split.truth), len(split.labels), n_tune)


def size_words(n_images: int, n_labels: int, n_tune: int = 0) -> str:
    """How many images a run is given, how many labels, and how many of those to tune."""
    held_out = f", {n_tune:,} of them to tune" if n_tune else ""
    return f"{n_images:,} images with {n_labels:,} labels{held_out}"
