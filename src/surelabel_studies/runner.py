"""What the studies share: the paper's loop as settings, and one row of a study as a run.

A row is an ordinary run. It is started, continued after an interruption, or left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from surelabel import api
from surelabel.api import Run
from surelabel.config.choices import Measure, Mode
from surelabel.config.settings import Config, options
from surelabel.dataset.catalog import Catalog
from surelabel.errors import RunError
from surelabel.types import LabelSource, Split
from surelabel.workflows.label import Listeners

if TYPE_CHECKING:
    from surelabel_studies.mnist.split import StudySplit

#: Options of a run with their values, for ``Config.from_mapping``.
Options: TypeAlias = Mapping[str, object]
#: Opens the progress listeners of one run, by the run's name.
Announce: TypeAlias = Callable[[str], AbstractContextManager[Listeners]]

PAPER_LOOP: Options = {
    "mode": Mode.KEEP,
    "score": Measure.TOTAL_VARIANCE,
    "weight_measure": Measure.TOTAL_VARIANCE,
    "weight_cap": 0.0,
    "human_share": 0.0,
    "left_share": 0.0,
    "consistency": 0.0,
    "neighbor_vote": False,
    "matrix_scaling": False,
    "weight_average": 0.0,
    "pseudo_label_evidence": 1.0,
    "out_of_distribution": False,
    "roll_back": False,
    "teacher_correction": False,
    "warm_start": False,
    "augment": False,
}
"""Self-training as in the paper: everything that the paper did not have is off."""
_MACHINE_OPTIONS = ("threads", "device", "cache")
"""Options that may differ between two calls of the same study."""


def run_row(path: Path, config: Config, split: StudySplit, listeners: Listeners) -> Run:
    """The finished run at ``path``, trained as far as is still needed.

    ``config`` may allow more rounds than before. Any other change of settings or images is
    refused, because the results would belong to neither.
    """
    if not (path / "run.json").exists():
        return api.label(split.images, split.labels, path, config=config, listeners=listeners)
    run = api.open_run(path)
    there, here = _size_of_catalog(run.folder.catalog, split), _size_of_split(split)
    refuse_other_settings(run, config, [f"{there}, not {here}"] if there != here else [])
    if run.config.max_rounds < config.max_rounds or not run.summary.is_finished:
        run.resume(listeners, images=split.images, max_rounds=config.max_rounds)
    return run


def refuse_other_settings(run: Run, config: Config, differing: Sequence[str] = ()) -> None:
    """Refuse a run whose settings are not ``config``, or that has other ``differing`` facts."""
    from surelabel.models.backbones import is_pretrained

    before = run.config
    config = config.in_effect(pretrained=is_pretrained(before.net))
    others = [
        f"{name} {getattr(before, name)}, not {getattr(config, name)}"
        for name in (spec.name for spec in options())
        if name not in (*_MACHINE_OPTIONS, "max_rounds")
        and getattr(before, name) != getattr(config, name)
    ]
    if before.max_rounds > config.max_rounds:
        others.append(f"max_rounds {before.max_rounds}, not {config.max_rounds}")
    others += differing
    if others:
        raise RunError(
            f"{run.path} holds a run with other settings ({'; '.join(others)}): give the study "
            "another --out, or delete that folder."
        )


def size_text(n_images: int, n_labels: int, n_tune: int = 0) -> str:
    """How many images and labels a run is given, and how many of the labels are tune labels."""
    held_out = f", {n_tune:,} of them to tune" if n_tune else ""
    return f"{n_images:,} images with {n_labels:,} labels{held_out}"


def _size_of_catalog(catalog: Catalog, split: StudySplit) -> str:
    n_labels = int((catalog.sources == LabelSource.GIVEN).sum())
    n_tune = int((catalog.splits == Split.TUNE).sum()) if "split" in split.labels else 0
    return size_text(len(catalog), n_labels, n_tune)


def _size_of_split(split: StudySplit) -> str:
    n_tune = int((split.labels["split"] == "tune").sum()) if "split" in split.labels else 0
    return size_text(len(split.truth), len(split.labels), n_tune)
