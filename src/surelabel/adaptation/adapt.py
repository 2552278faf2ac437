"""The verb adapt: label a new dataset with the help of a finished run on an old one.

Run 2 is the finished run. Run 1 is an ordinary run on the labels of the new dataset, made beside
the adapted run. ``adaptation.candidates`` fits every way to use the old dataset, and some that do
not use it, and chooses; ``adaptation.round`` writes the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from surelabel.adaptation.comparison import CHOSEN, compare
from surelabel.adaptation.label_partition import (
    REPORT_SHARE,
    LabelPartition,
    check_classes,
    hide_from_report,
    hold_out_report,
    one_per_unit,
    partition_labels,
    train_run1,
    with_learn_labels,
)
from surelabel.adaptation.round import (
    AdaptationCheck,
    adaptation_facts,
    finished_round,
    write_round,
)
from surelabel.config.choices import Measure
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.labels import Labels
from surelabel.dataset.pixels import open_pixels
from surelabel.dataset.sources import Images
from surelabel.errors import InputError, OptionError
from surelabel.files.atomic import fsync, remove_folder
from surelabel.guarantees.targets import ErrorTargets, list_targets, parse_targets
from surelabel.runs.folder import RunFolder
from surelabel.selection.thresholds import parse_rule
from surelabel.types import Ids, JsonObject
from surelabel.workflows.label import SILENT, Listeners, as_recorded
from surelabel.workflows.model_inputs import name_of
from surelabel.workflows.problem import problem_of

if TYPE_CHECKING:
    from surelabel.adaptation.candidates import Evidence
    from surelabel.adaptation.label_curve import LabeledImages

RUN1 = "-alone"
"""Ending of the name of the run on the new labels alone, after the name of the adapted run."""
_OF_THE_OLD_RUN = ("net", "net_weights", "tail", "image_size", "keep_aspect")
"""Settings that adaptation takes from the old run."""
PARTIAL = ".partial"
"""Ending of the name of the adapted run until it is complete."""


@dataclass(frozen=True)
class AdaptRequest:
    """The new dataset, and how to adapt to it."""

    images: Images
    labels: Labels
    """Some labels of the new images."""
    out: Path
    ks: Sequence[int] = ()
    """Numbers of clusters that the paper's way tries; empty: from the number of classes."""
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """Settings of the adapted run that differ from those of the old run."""


def adapt_run(run2: RunFolder, request: AdaptRequest, listeners: Listeners = SILENT) -> RunFolder:
    """Label ``request.images`` with the help of ``run2``, into a new run folder."""
    from surelabel.adaptation.candidates import RunPair
    from surelabel.adaptation.old_run import check_nets

    RunFolder.check_free(request.out)
    config = _config(run2.config, request)
    targets = _check_options(config, request.ks)
    finished_round(run2)
    catalog = _read_catalog(run2, request, config, listeners)
    list_targets(targets, catalog.classes)
    catalog = hide_from_report(hold_out_report(catalog, config.seed), run2)
    partition = partition_labels(catalog)
    store = open_pixels(catalog, cache_folder(config.cache))
    check_nets(run2, catalog, store)
    run1 = train_run1(
        request.out.with_name(request.out.name + RUN1),
        with_learn_labels(catalog, partition.learn),
        run2.config.replace(seed=config.seed, max_error=""),
        listeners,
    )
    pair = RunPair(run2, run1, catalog, store, partition.learn, request.ks, config.seed)
    evidence = pair.evidence()
    check = _check(evidence, catalog, partition, config.seed)
    facts = adaptation_facts(evidence, check, partition, catalog.classes, run1, run2)
    partial = request.out.with_name(request.out.name + PARTIAL)
    _remove_leftover(partial)
    about = _about(run1, run2, request, config)
    folder = RunFolder.create(partial, config=config, catalog=catalog, about=about)
    write_round(folder, evidence, facts, listeners)
    RunFolder.check_free(request.out)
    partial.rename(request.out)
    fsync(request.out.resolve().parent)
    return RunFolder.open(request.out)


def _config(config: Config, request: AdaptRequest) -> Config:
    """One round; scores come from distances, which have one sample and no noise variance."""
    fixed = {"score": Measure.LEAST_CONFIDENCE, "max_rounds": 1, "growth_warm": False}
    refused = [name for name in fixed if name in request.options]
    if refused:
        raise OptionError(f"{refused[0]} cannot be set: adaptation needs its own value.")
    for name in _OF_THE_OLD_RUN:
        known, asked = getattr(config, name), request.options.get(name)
        if asked is not None and asked != known:
            raise OptionError(
                f"{name} is {asked}, but the run to adapt from was made with {known}: both "
                f"datasets are seen by the same nets. Leave out {name}, or run surelabel label on "
                f"the old images with {name} {asked} first."
            )
    plain = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    return Config.from_mapping({**plain, "max_error": "", **request.options, **fixed})


def _check_options(config: Config, ks: Sequence[int]) -> ErrorTargets:
    """Refuse wrong options before anything is read or trained; the error targets."""
    parse_rule(config.accept)
    if any(k < 1 for k in ks):
        raise OptionError(f"k is {min(ks)}; there has to be at least one cluster.")
    return parse_targets(config.max_error)


def _read_catalog(
    run2: RunFolder, request: AdaptRequest, config: Config, listeners: Listeners
) -> Catalog:
    catalog = build_catalog(
        request.images,
        request.labels,
        seed=config.seed,
        tune_share=REPORT_SHARE,
        decoding=run2.catalog.decoding,
        cache=cache_folder(config.cache),
        on_progress=listeners.on_progress,
    )
    check_classes(catalog, problem_of(run2).classes, run2.path)
    return catalog


def _check(
    evidence: Evidence, catalog: Catalog, partition: LabelPartition, seed: int
) -> AdaptationCheck:
    """The chosen way and each single one on labels that decided nothing; also by fewer labels."""
    from surelabel.adaptation.label_curve import curve_point, label_curve
    from surelabel.adaptation.ways import DIRECT

    learn = _labeled(catalog, partition.learn)
    report = _labeled(catalog, one_per_unit(catalog, partition.report))
    choice = evidence.choice
    logs = {each.name: each.predict(report.rows) for each in choice.candidates}
    logs[CHOSEN] = choice.predict(report.rows)
    right = {name: each.argmax(axis=1) == report.labels for name, each in logs.items()}
    n = len(learn.rows)
    curve = label_curve(evidence.data, learn, report, evidence.refitted, seed)
    curve += [curve_point(str(n), n, *each, report.labels) for each in logs.items()]
    n_right = {name: int(each.sum()) for name, each in right.items()}
    return AdaptationCheck(
        n_right={**n_right, choice.name: n_right[CHOSEN]},
        direct=compare(right[CHOSEN], right[DIRECT.name]),
        labels_alone=compare(right[CHOSEN], right[evidence.alone]),
        curve=curve,
    )


def _labeled(catalog: Catalog, ids: Ids) -> LabeledImages:
    from surelabel.adaptation.label_curve import LabeledImages

    return LabeledImages(catalog.rows(ids), catalog.labels_of(ids), catalog.units(ids))


def _about(run1: RunFolder, run2: RunFolder, request: AdaptRequest, config: Config) -> JsonObject:
    return {
        "images": name_of(request.images),
        "labels": name_of(request.labels),
        "adapted_from": str(run2.path.resolve()),
        "alone": str(run1.path.resolve()),
        "seed": config.seed,
        "threads": as_recorded(run2).threads,
    }


def _remove_leftover(partial: Path) -> None:
    """Remove what a killed adaptation left behind, and nothing else."""
    if not partial.exists():
        return
    if not (partial / "run.json").is_file() or "adapted_from" not in RunFolder.open(partial).about:
        raise InputError(f"{partial} is in the way and not a leftover of surelabel: move it.")
    remove_folder(partial)
