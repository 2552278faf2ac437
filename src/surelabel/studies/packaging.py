"""The packaging study: every run one after the other, then tables, verdicts and figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import pandas as pd

from surelabel import api
from surelabel.atomic import atomic_write_bytes
from surelabel.choices import Net
from surelabel.config import Config
from surelabel.datasets.use_by_dates import Like
from surelabel.errors import OptionError
from surelabel.nets.backbones import is_pretrained, load_backbone, weights_of
from surelabel.run import Run
from surelabel.session import Listeners
from surelabel.studies.mnist import Announce
from surelabel.studies.packaging_paper import TOTALS
from surelabel.studies.packaging_results import (
    Accuracy,
    LeftOut,
    Ranking,
    Ranks,
    SelfTrained,
    accuracy_of,
    first_round,
    self_trained,
)
from surelabel.studies.packaging_rows import (
    FIRST_NETS,
    MODELS,
    Trained,
    self_training,
    supervised,
)
from surelabel.studies.packaging_sets import Sets, own_sets, synthetic_sets
from surelabel.studies.packaging_tasks import (
    EXPERIMENTS,
    Experiment,
    called,
    experiment_table,
    set4_table,
    task_of,
)
from surelabel.studies.packaging_uncertainty import left_out, ranking, ranks
from surelabel.studies.runner import refuse_other_settings

SIZE = 299
"""Side of the rendered photographs."""


class Part(StrEnum):
    """What can be run by itself."""

    EXPERIMENTS = "experiments"
    SELF_TRAINING = "self-training"
    LOCATIONS = "locations"
    """Left out one by one; compared with the run that has tau and the plain loss."""


def parts_named(names: Sequence[str] | None) -> tuple[Part, ...]:
    """The parts that were asked for, all without a name."""
    try:
        return tuple(map(Part, names)) if names else tuple(Part)
    except ValueError as error:
        raise OptionError(f"{error}: --part can be {', '.join(Part)}.") from None


@dataclass(frozen=True)
class PackagingSettings:
    """What the command line asks for."""

    trained: Trained = field(default_factory=Trained)
    scale: float = 1.0
    seeds: tuple[int, ...] = (0, 1, 2)
    photos: Path | None = None
    """A user's own folders instead of synthetic photographs."""
    parts: tuple[Part, ...] = tuple(Part)


@dataclass(frozen=True)
class About:
    """What stands in the title of every table and figure."""

    photographs: str
    net: str
    weights: str
    digest: str
    tail: str
    rounds: int
    steps: int

    @property
    def title(self) -> str:
        """Which photographs, backbone, weights and tail."""
        return (
            f"{self.photographs}; {self.net}, {self.weights} ({self.digest[:8]}), tail {self.tail}"
        )


@dataclass
class Found:
    """All that the study found, with what it was found on."""

    about: About
    sets: Sets
    accuracies: list[Accuracy] = field(default_factory=list)
    runs: list[SelfTrained] = field(default_factory=list)
    rankings: list[Ranking] = field(default_factory=list)
    ranks: list[Ranks] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    """Sentences on what could not be done with the photographs at hand."""

    def of(self, model: str) -> list[SelfTrained]:
        """The runs of a model, by seed."""
        return [run for run in self.runs if run.model == model]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            **dataclasses.asdict(self.about),
            "experiments": [dataclasses.asdict(a) for a in self.accuracies],
            "self_training": [run.to_json() for run in self.runs],
            "rankings": [dataclasses.asdict(one) for one in self.rankings],
            "aleatoric_ranks": [dataclasses.asdict(r) for r in self.ranks],
            "left_out_locations": [dataclasses.asdict(one) for one in self.left_out],
            "skipped": self.skipped,
        }


def run_packaging(settings: PackagingSettings, out: Path, announce: Announce) -> Found:
    """Run what is not finished yet below ``out``; after a kill the same call goes on."""
    about = about_of(settings)
    with announce("photographs") as listeners:
        sets = _sets(settings, out, listeners)
    found = Found(about, sets)
    for seed in settings.seeds:
        place = out / f"seed-{seed}"
        for experiment in EXPERIMENTS if Part.EXPERIMENTS in settings.parts else ():
            if experiment.like in sets:
                _experiment(found, experiment, settings, seed, place, announce)
        if Like.SET4 in sets and settings.parts != (Part.EXPERIMENTS,):
            _set4(found, settings, seed, place, announce)
    return found


def about_of(settings: PackagingSettings) -> About:
    """The backbone is loaded once for its digest, so a lack of weights is told at the start."""
    trained = settings.trained
    if not is_pretrained(trained.net):
        known = ", ".join(net for net in Net if is_pretrained(net))
        raise OptionError(
            f"net is {trained.net}; this study needs a pre-trained one: {known}, or one of timm's."
        )
    config = supervised(trained, 0)
    backbone = load_backbone(config)
    own = settings.photos
    shown = f"photographs in {own}" if own else f"synthetic photographs, scale {settings.scale:g}"
    return About(
        shown,
        trained.net,
        weights_of(config),
        backbone.digest,
        str(trained.tail),
        trained.rounds,
        trained.steps,
    )


def _sets(settings: PackagingSettings, out: Path, listeners: Listeners) -> Sets:
    if settings.photos is not None:
        return own_sets(settings.photos)
    return synthetic_sets(out / "images", settings.scale, SIZE, listeners.on_progress)


def _experiment(
    found: Found,
    experiment: Experiment,
    settings: PackagingSettings,
    seed: int,
    place: Path,
    announce: Announce,
) -> None:
    made = place.parent / "made" / str(experiment.like)
    table = experiment_table(experiment, found.sets[experiment.like], made, seed)
    if table is None:
        said = f"Experiment {experiment.name} on {experiment.like} has too few images of a class."
        found.skipped += [said] if said not in found.skipped else []
        return
    config = supervised(settings.trained, seed)
    run, truth = _run(found, place, experiment.key, table, config, announce)
    found.accuracies.append(accuracy_of(experiment.key, seed, run, table, truth))


def _set4(
    found: Found, settings: PackagingSettings, seed: int, place: Path, announce: Announce
) -> None:
    photos = found.sets[Like.SET4]
    table = set4_table(photos, seed)
    share = len(photos) / TOTALS[Like.SET4]
    for model in MODELS if Part.SELF_TRAINING in settings.parts else ("tau",):
        config = self_training(model, settings.trained, seed, share)
        run, truth = _run(found, place, model, table, config, announce)
        found.runs.append(self_trained(model, seed, run, truth))
        if model not in FIRST_NETS:
            continue
        guessed = first_round(run)
        found.rankings.append(ranking(model, seed, guessed, run.rounds[0].classes, truth))
        if model == "tau":
            seen = guessed
    paths = _by_path(table, place)
    if paths["difficulty"].notna().all():
        found.ranks += ranks(seed, seen, paths["difficulty"])
    names = sorted(set(photos["location"]) - {""})
    for location in names if len(names) > 1 and Part.LOCATIONS in settings.parts else []:
        config = self_training("tau", settings.trained, seed, share).replace(max_rounds=1)
        without = set4_table(photos, seed, without=location)
        run, _ = _run(found, place, f"without-{location}", without, config, announce)
        found.left_out.append(left_out(location, seed, first_round(run), seen, paths["location"]))


def _by_path(table: pd.DataFrame, place: Path) -> pd.DataFrame:
    """``table`` by the paths that runs call its images."""
    return table.set_index(pd.Index(called(table, place / "tasks")))


def _run(
    found: Found, place: Path, name: str, table: pd.DataFrame, config: Config, announce: Announce
) -> tuple[Run, pd.Series]:
    """The finished run ``name``, and the truth of its test images by path.

    A run that was given other images, labels or weights is refused: its figures would stand
    beside truths and titles that are not its own.
    """
    task, folder = place / "tasks" / f"{name}.csv", place / name
    text, truth = task_of(table, task.parent)
    with announce(f"{place.name} {name}") as listeners:
        if not (folder / "run.json").exists():
            atomic_write_bytes(task, text.encode())
            run = api.label(task, None, folder, config=config, listeners=listeners)
        else:
            run = api.open_run(folder)
            same = task.exists() and task.read_bytes() == text.encode()
            other = [] if same else ["other images or labels"]
            nets = [net for done in run.rounds[:1] for net in done.learner["members"]]
            if any(net["backbone"] != found.about.digest for net in nets):
                other.append(f"other weights of {found.about.net}")
            refuse_other_settings(run, config, other)
            if run.config.max_rounds < config.max_rounds or not run.summary.is_finished:
                run.resume(listeners, max_rounds=config.max_rounds)
    there = truth.index.isin(run.folder.catalog.paths)
    return run, truth[there]
