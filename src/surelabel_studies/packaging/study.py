"""The packaging study: every run one after the other, then tables, verdicts and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pandas as pd

from surelabel import api
from surelabel.api import Run
from surelabel.config.choices import Net
from surelabel.config.settings import Config
from surelabel.errors import OptionError
from surelabel.files.atomic import atomic_write_bytes
from surelabel.models.backbones import is_pretrained, load_backbone, weights_of
from surelabel.workflows.label import Listeners
from surelabel_studies.mnist.study import Announce
from surelabel_studies.packaging.results import (
    About,
    Found,
    accuracy_of,
    first_round,
    left_out,
    ranking,
    ranks,
    self_trained,
)
from surelabel_studies.packaging.rows import FIRST_NETS, MODELS, Trained, self_training, supervised
from surelabel_studies.packaging.sets import Sets, own_sets, synthetic_sets
from surelabel_studies.packaging.tasks import (
    EXPERIMENTS,
    Experiment,
    called,
    experiment_table,
    set4_table,
    task_of,
)
from surelabel_studies.runner import refuse_other_settings
from surelabel_studies.use_by_dates.sets import Like

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
    scale: float | None = None
    """Share of the paper's numbers of synthetic photographs, 1 unless said."""
    seeds: tuple[int, ...] = (0, 1, 2)
    photos: Path | None = None
    """A user's own folders instead of synthetic photographs."""
    parts: tuple[Part, ...] = tuple(Part)

    def __post_init__(self) -> None:
        if self.photos is not None and self.scale is not None:
            raise OptionError(
                "--scale is for synthetic photographs, and --photos names your own, which are "
                "taken as they are: leave one of the two out."
            )

    @property
    def rendered(self) -> float:
        """The share of the paper's numbers that is rendered."""
        return 1.0 if self.scale is None else self.scale


def run_packaging(settings: PackagingSettings, out: Path, announce: Announce) -> Found:
    """Run what is not finished yet below ``out``; after a kill the same call goes on."""
    about = about_of(settings)
    with announce("photographs") as listeners:
        sets = _sets(settings, out, listeners)
    found = Found(about, sets, skipped=_without_sets(settings.parts, sets))
    for seed in settings.seeds:
        place = out / f"seed-{seed}"
        for experiment in EXPERIMENTS if Part.EXPERIMENTS in settings.parts else ():
            if experiment.like in sets:
                _experiment(found, experiment, settings, seed, place, announce)
        if Like.SET4 in sets and set(settings.parts) - {Part.EXPERIMENTS}:
            _set4(found, settings, seed, place, announce)
    return found


def _without_sets(parts: Sequence[Part], sets: Sets) -> list[str]:
    """Sentences on the parts for which there are no photographs."""
    needed = {part: {Like.SET4} for part in Part}
    needed[Part.EXPERIMENTS] = {experiment.like for experiment in EXPERIMENTS}
    return [
        f"The part {part} was not run: there is no {' or '.join(sorted(likes))}."
        for part, likes in needed.items()
        if part in parts and not likes & sets.keys()
    ]


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
    shown = (
        f"photographs in {own}" if own else f"synthetic photographs, scale {settings.rendered:g}"
    )
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
    return synthetic_sets(out / "images", settings.rendered, SIZE, listeners.on_progress)


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
        found.skip(
            f"Experiment {experiment.name} on {experiment.like} has too few images of a class."
        )
        return
    config = supervised(settings.trained, seed)
    run, truth = _run(found, place, experiment.key, table, config, announce)
    found.accuracies.append(accuracy_of(experiment.key, seed, run, table, truth))


def _set4(
    found: Found, settings: PackagingSettings, seed: int, place: Path, announce: Announce
) -> None:
    table = set4_table(found.sets[Like.SET4], seed)
    if table is None:
        found.skip(f"Set 4 has too few photographs, in all or of a class, for seed {seed}.")
        return
    for model in MODELS if Part.SELF_TRAINING in settings.parts else ("tau",):
        config = self_training(model, settings.trained, seed, found.share)
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
    if Part.LOCATIONS in settings.parts:
        config = self_training("tau", settings.trained, seed, found.share).replace(max_rounds=1)
        _locations(found, config, place, announce, seen, paths["location"])


def _locations(
    found: Found,
    config: Config,
    place: Path,
    announce: Announce,
    known: pd.DataFrame,
    locations: pd.Series,
) -> None:
    """Leave out each location in turn; ``known`` and ``locations`` go by path."""
    photos = found.sets[Like.SET4]
    names = sorted(set(photos["location"]) - {""})
    if len(names) < 2:
        found.skip("No location was left out: the photographs of set 4 name fewer than two.")
        return
    for name in names:
        table = set4_table(photos, config.seed, without=name)
        if table is None:
            found.skip(
                f"The location {name} was not left out with seed {config.seed}: without it there "
                "are too few labels of a class."
            )
            continue
        run, _ = _run(found, place, f"without-{name}", table, config, announce)
        found.left_out.append(left_out(name, config.seed, first_round(run), known, locations))


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
