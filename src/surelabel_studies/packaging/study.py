"""The packaging study: all its runs, one after the other, and the report on them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pandas as pd

from surelabel import api
from surelabel.api import Run
from surelabel.config.choices import Net, Tail
from surelabel.config.settings import Config
from surelabel.errors import OptionError
from surelabel.files.atomic import atomic_write_bytes
from surelabel.models.backbones import is_pretrained, load_backbone, weights_of
from surelabel.workflows.label import Listeners
from surelabel.workflows.model_inputs import round_to_start_from
from surelabel_studies.packaging.attention import attention_in_boxes
from surelabel_studies.packaging.figures import draw_packaging
from surelabel_studies.packaging.results import (
    RESULTS,
    About,
    PackagingResults,
    accuracy_of,
    first_round,
    left_out,
    ranking,
    ranks,
    read_study,
    self_trained,
)
from surelabel_studies.packaging.rows import FIRST_NETS, MODELS, Trained, self_training, supervised
from surelabel_studies.packaging.sets import Sets, own_sets, synthetic_sets
from surelabel_studies.packaging.tables import tables
from surelabel_studies.packaging.tasks import (
    EXPERIMENTS,
    Experiment,
    experiment_table,
    path_in_run,
    set4_table,
    task_of,
)
from surelabel_studies.packaging.verdicts import packaging_verdicts
from surelabel_studies.runner import Announce, refuse_other_settings
from surelabel_studies.use_by_dates.sets import Like

SIZE = 299
"""Side of the rendered photographs."""


class Part(StrEnum):
    """The parts of the study, which can be run separately."""

    EXPERIMENTS = "experiments"
    SELF_TRAINING = "self-training"
    LOCATIONS = "locations"
    """Leave out each location in turn; compared with the run ``tau``."""


def parts_named(names: Sequence[str] | None) -> tuple[Part, ...]:
    """The named parts; all of them if none is named."""
    try:
        return tuple(map(Part, names)) if names else tuple(Part)
    except ValueError as error:
        raise OptionError(f"{error}: --part can be {', '.join(Part)}.") from None


RUNS = (*(experiment.key for experiment in EXPERIMENTS), *MODELS)
"""The names of the runs that can be asked for one by one."""


def runs_named(names: Sequence[str] | None) -> tuple[str, ...]:
    """The named runs; all of them if none is named."""
    for name in names or ():
        if name not in RUNS:
            raise OptionError(f"There is no run {name!r}: --only can be {', '.join(RUNS)}.")
    return tuple(names) if names else RUNS


@dataclass(frozen=True)
class PackagingSettings:
    """The settings of the command line."""

    trained: Trained = field(default_factory=Trained)
    scale: float | None = None
    """Share of the paper's numbers of synthetic photographs; None: 1."""
    seeds: tuple[int, ...] = (0, 1, 2)
    photos: Path | None = None
    """A user's own folders instead of synthetic photographs."""
    parts: tuple[Part, ...] = tuple(Part)
    only: tuple[str, ...] = RUNS
    """The experiments and runs on set 4 that are made."""
    beside: tuple[Path, ...] = ()
    """Folders of finished studies, whose experiments are shown beside these."""

    def __post_init__(self) -> None:
        if self.photos is not None and self.scale is not None:
            raise OptionError(
                "--scale is for synthetic photographs, but --photos names your own, which are used "
                "as they are: leave out one of the two."
            )

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """The experiments that were asked for."""
        asked = EXPERIMENTS if Part.EXPERIMENTS in self.parts else ()
        return tuple(experiment for experiment in asked if experiment.key in self.only)

    @property
    def models(self) -> tuple[str, ...]:
        """The runs on set 4 that were asked for."""
        if Part.SELF_TRAINING in self.parts:
            return tuple(model for model in MODELS if model in self.only)
        return ("tau",) if self.leaves_out else ()

    @property
    def leaves_out(self) -> bool:
        """Whether locations are left out: they are compared with ``tau``."""
        return Part.LOCATIONS in self.parts and "tau" in self.only

    @property
    def likes(self) -> list[Like]:
        """The sets of photographs that are used."""
        used = {experiment.like for experiment in self.experiments}
        return sorted(used | ({Like.SET4} if self.models else set()))

    @property
    def rendered(self) -> float:
        """The share of the paper's numbers that is rendered."""
        return 1.0 if self.scale is None else self.scale


def run_packaging(settings: PackagingSettings, out: Path, announce: Announce) -> PackagingResults:
    """Run what is not finished yet below ``out``; the same call continues an interrupted study."""
    about = about_of(settings)
    beside = [read_study(folder) for folder in settings.beside]
    with announce("photographs") as listeners:
        sets = _sets(settings, out, listeners)
    skipped = _without_sets(settings.parts, sets)
    results = PackagingResults(about, sets, beside=beside, skipped=skipped)
    for seed in settings.seeds:
        place = out / f"seed-{seed}"
        for experiment in settings.experiments:
            if experiment.like in sets:
                _experiment(results, experiment, settings, seed, place, announce)
        if Like.SET4 in sets and settings.models:
            _set4(results, settings, seed, place, announce)
    return results


def write_report(results: PackagingResults, folder: Path) -> str:
    """Write tables, verdicts, figures and all values; returns the tables and verdicts."""
    table, verdicts = tables(results), packaging_verdicts(results)
    pages = {
        "table.md": table,
        "verdicts.md": verdicts,
        RESULTS: json.dumps(results.to_json(), indent=1, allow_nan=False) + "\n",
    }
    for name, text in pages.items():
        atomic_write_bytes(folder / name, text.encode())
    captions = draw_packaging(results, folder / "figures")
    shown = [f"![{name}](figures/{name}.png)\n\n{caption}\n" for name, caption in captions.items()]
    atomic_write_bytes(folder / "figures.md", "\n".join(shown).encode())
    return f"{table}\n{verdicts}"


_SETS_OF: Mapping[Part, frozenset[Like]] = {
    Part.EXPERIMENTS: frozenset(experiment.like for experiment in EXPERIMENTS),
    Part.SELF_TRAINING: frozenset({Like.SET4}),
    Part.LOCATIONS: frozenset({Like.SET4}),
}
"""The photographs that each part uses."""


def _without_sets(parts: Sequence[Part], sets: Sets) -> list[str]:
    """One sentence on each part for which there are no photographs."""
    return [
        f"The part {part} was not run: there is no {' or '.join(sorted(likes))}."
        for part, likes in _SETS_OF.items()
        if part in parts and not likes & sets.keys()
    ]


def about_of(settings: PackagingSettings) -> About:
    """The facts for titles. It loads the backbone, so missing weights are noticed at the start."""
    trained = settings.trained
    if not is_pretrained(trained.net):
        known = ", ".join(net for net in Net if is_pretrained(net))
        raise OptionError(
            f"net is {trained.net}, but this study needs a pre-trained net: {known}, or timm's."
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
        _name_of_run(trained.start_from),
    )


def _name_of_run(start_from: str) -> str:
    """The last two folders of the path of a run, such as ``seed-0/experiment-2-set2``."""
    return "/".join(Path(start_from).parts[-4:-2])


def start_named(run: Path | None) -> str:
    """The last round of ``run``, from whose layers every net is to start."""
    if run is None:
        return ""
    _, last = round_to_start_from(run.absolute())
    if last is None:
        raise OptionError(f"{run} has no finished round to start from.")
    return str(last.path.resolve())


def _sets(settings: PackagingSettings, out: Path, listeners: Listeners) -> Sets:
    if settings.photos is not None:
        return own_sets(settings.photos)
    progress = listeners.on_progress
    return synthetic_sets(out / "images", settings.likes, settings.rendered, SIZE, progress)


def _experiment(
    results: PackagingResults,
    experiment: Experiment,
    settings: PackagingSettings,
    seed: int,
    place: Path,
    announce: Announce,
) -> None:
    made = place.parent / "made" / str(experiment.like)
    table = experiment_table(experiment, results.sets[experiment.like], made, seed)
    if table is None:
        results.skip(
            f"Experiment {experiment.name} on {experiment.like} has too few images of one class."
        )
        return
    config = supervised(settings.trained, seed)
    run, truth = _run(results, place, experiment.key, table, config, announce)
    results.accuracies.append(accuracy_of(experiment.key, seed, run, table, truth))
    if settings.trained.tail is Tail.DETAIL:
        photos = results.sets[experiment.like]
        boxes = photos.set_index(pd.Index(path_in_run(photos, place / "tasks")))
        found = attention_in_boxes(experiment.key, seed, run, boxes, truth.index)
        results.in_boxes += [found] if found is not None else []


def _set4(
    results: PackagingResults,
    settings: PackagingSettings,
    seed: int,
    place: Path,
    announce: Announce,
) -> None:
    table = set4_table(results.sets[Like.SET4], seed)
    if table is None:
        results.skip(f"Set 4 has too few photographs, in total or of one class, for seed {seed}.")
        return
    for model in settings.models:
        config = self_training(model, settings.trained, seed, results.share)
        run, truth = _run(results, place, model, table, config, announce)
        results.runs.append(self_trained(model, seed, run, truth))
        if model not in FIRST_NETS:
            continue
        predicted = first_round(run)
        results.rankings.append(ranking(model, seed, predicted, run.rounds[0].classes, truth))
        if model == "tau":
            by_tau = predicted
    if "tau" not in settings.models:
        return
    paths = _by_path(table, place)
    if paths["difficulty"].notna().all():
        results.ranks += ranks(seed, by_tau, paths["difficulty"])
    if settings.leaves_out:
        config = self_training("tau", settings.trained, seed, results.share).replace(max_rounds=1)
        _locations(results, config, place, announce, by_tau, paths["location"])


def _locations(
    results: PackagingResults,
    config: Config,
    place: Path,
    announce: Announce,
    known: pd.DataFrame,
    locations: pd.Series,
) -> None:
    """Leave out each location in turn; ``known`` and ``locations`` are indexed by path."""
    photos = results.sets[Like.SET4]
    names = sorted(set(photos["location"]) - {""})
    if len(names) < 2:
        results.skip("No location was left out: the photographs of set 4 name fewer than two.")
        return
    for name in names:
        table = set4_table(photos, config.seed, without=name)
        if table is None:
            results.skip(
                f"The location {name} was not left out with seed {config.seed}: without it there "
                "are too few labels of one class."
            )
            continue
        run, _ = _run(results, place, f"without-{name}", table, config, announce)
        results.left_out.append(left_out(name, config.seed, first_round(run), known, locations))


def _by_path(table: pd.DataFrame, place: Path) -> pd.DataFrame:
    """``table`` indexed by the path that a run uses for each image."""
    return table.set_index(pd.Index(path_in_run(table, place / "tasks")))


def _run(
    results: PackagingResults,
    place: Path,
    name: str,
    table: pd.DataFrame,
    config: Config,
    announce: Announce,
) -> tuple[Run, pd.Series]:
    """The finished run ``name``, and the truth of its test images by path.

    A run with other images, labels or weights is refused: its results would be compared with the
    wrong truth under the wrong title.
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
            if any(net["backbone"] != results.about.digest for net in nets):
                other.append(f"other weights of {results.about.net}")
            refuse_other_settings(run, config, other)
            if run.config.max_rounds < config.max_rounds or not run.summary.is_finished:
                run.resume(listeners, max_rounds=config.max_rounds)
    there = truth.index.isin(run.folder.catalog.paths)
    return run, truth[there]
