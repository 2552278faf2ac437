"""The verb adapt: label a new dataset with the nets of a finished run, without retraining them.

The finished run holds net 2, trained on the old dataset 2. Net 1 is an ordinary run on a part of
the labels of the new dataset 1, which is made beside the adapted run unless the caller has one.
``adaptation.clustering`` does the paper's six steps; ``adaptation.round`` writes the result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surelabel.adaptation.clustering import Adaptation, DatasetLatents, adapt, default_ks
from surelabel.adaptation.comparison import compare, labels_alone
from surelabel.adaptation.domain_gap import domain_gap
from surelabel.adaptation.label_partition import (
    REPORT_SHARE,
    LabelPartition,
    check_classes,
    hide_from_report,
    one_per_unit,
    partition_labels,
    train_net1,
    with_fit_labels,
)
from surelabel.adaptation.round import (
    AdaptationCheck,
    adaptation_facts,
    finished_round,
    write_round,
)
from surelabel.config.choices import Measure
from surelabel.config.settings import Config
from surelabel.dataset.array_store import PixelStore, cache_folder
from surelabel.dataset.build import build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.labels import Labels
from surelabel.dataset.pixels import open_pixels, restore_pixels
from surelabel.dataset.sources import Images
from surelabel.errors import InputError, OptionError, RunError
from surelabel.files.atomic import fsync, remove_folder
from surelabel.guarantees.targets import ErrorTargets, list_targets, parse_targets
from surelabel.runs.folder import RunFolder
from surelabel.selection.thresholds import parse_rule
from surelabel.types import (
    UNLABELED,
    BoolArray,
    FloatArray,
    Ids,
    IntArray,
    JsonObject,
    Split,
    no_progress,
)
from surelabel.workflows.label import SILENT, Listeners, annotations_of, as_recorded
from surelabel.workflows.model_inputs import name_of, open_inputs
from surelabel.workflows.problem import problem_of

if TYPE_CHECKING:
    from surelabel.engines.ensemble import Ensemble
    from surelabel.engines.linear_model import LinearEnsemble

NET1 = "-net1"
"""Ending of the name of net 1's run, after the name of the adapted run."""
PARTIAL = ".partial"
"""Ending of the name of the adapted run until it is complete."""


@dataclass(frozen=True)
class AdaptRequest:
    """The new dataset, and how to adapt to it."""

    images: Images
    labels: Labels
    """Some labels of the new images."""
    out: Path
    run1: Path | None = None
    """A finished run on the new dataset; without one, net 1 is trained."""
    ks: Sequence[int] = ()
    """Numbers of clusters to try; empty: chosen from the number of classes."""
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)
    """Settings of the adapted run that differ from those of the old run."""


def adapt_run(run2: RunFolder, request: AdaptRequest, listeners: Listeners = SILENT) -> RunFolder:
    """Label ``request.images`` with the nets of ``run2`` into a new run folder."""
    RunFolder.check_free(request.out)
    config = _config(run2.config, request)
    targets = _check_options(config, request.ks)
    run1 = RunFolder.open(request.run1) if request.run1 is not None else None
    runs = [run2] if run1 is None else [run2, run1]
    for run in runs:
        finished_round(run)
    catalog = _read_catalog(run2, request, config, listeners)
    list_targets(targets, catalog.classes)
    catalog = hide_from_report(catalog, runs)
    partition = partition_labels(catalog, config.seed)
    if run1 is None:
        beside = request.out.with_name(request.out.name + NET1)
        net1_config = run2.config.replace(seed=config.seed, max_error="")
        run1 = train_net1(beside, with_fit_labels(catalog, partition.fit), net1_config, listeners)
    adaptation, check, latents = _adapt(run1, run2, catalog, partition, request.ks, config)
    facts = adaptation_facts(adaptation, check, partition, catalog.classes, run1, run2)
    partial = request.out.with_name(request.out.name + PARTIAL)
    _remove_leftover(partial)
    about = _about(run1, run2, request, config)
    folder = RunFolder.create(partial, config=config, catalog=catalog, about=about)
    write_round(folder, adaptation, latents, facts, listeners)
    RunFolder.check_free(request.out)
    partial.rename(request.out)
    fsync(request.out.resolve().parent)
    return RunFolder.open(request.out)


def nets_of(folder: RunFolder, catalog: Catalog, store: PixelStore) -> Ensemble | LinearEnsemble:
    """The nets of a run's last round, applied to the images of ``catalog``."""
    from surelabel.engines.device import prepare
    from surelabel.engines.ensemble import load_round

    prepare(as_recorded(folder))
    last = finished_round(folder)
    inputs = open_inputs(folder.config, catalog, store)
    return load_round(last.weights(), last.number, folder.config, inputs)


def labeled_latents(
    folder: RunFolder, classes: tuple[str, ...]
) -> tuple[FloatArray, IntArray, BoolArray]:
    """Latents (N, D) and labels (N,) of all images of a run that have a label of ``classes``.

    The third (N,) marks the tune images: the nets were not trained on them.
    """
    table = annotations_of(folder)
    number = {name: k for k, name in enumerate(classes)}
    labels = table["label"].map(number).fillna(UNLABELED).to_numpy(dtype=np.int64)
    catalog = folder.catalog
    store = restore_pixels(catalog, cache=cache_folder(folder.config.cache))
    ids = table["id"].to_numpy().astype(np.str_)[labels != UNLABELED]
    latents = nets_of(folder, catalog, store).latents(ids)
    answered = np.array(list(folder.answers.standing()), dtype=np.str_)
    unseen = (catalog.splits[catalog.rows(ids)] == Split.TUNE) & ~np.isin(ids, answered)
    return latents, labels[labels != UNLABELED], unseen


def _config(config: Config, request: AdaptRequest) -> Config:
    """One round; scores come from distances, which have one sample and no noise variance."""
    fixed = {"score": Measure.LEAST_CONFIDENCE, "max_rounds": 1, "growth_warm": False}
    refused = [name for name in fixed if name in request.options]
    if refused:
        raise OptionError(f"{refused[0]} cannot be set: adaptation needs its own value.")
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


def _adapt(
    run1: RunFolder,
    run2: RunFolder,
    catalog: Catalog,
    partition: LabelPartition,
    ks: Sequence[int],
    config: Config,
) -> tuple[Adaptation, AdaptationCheck, FloatArray]:
    """The adaptation, its check, and the latents (N, D) of the new images under net 2.

    Only the predictions that are compared at the end meet the report labels.
    """
    classes = catalog.classes
    store = open_pixels(catalog, cache_folder(config.cache))
    nets2 = nets_of(run2, catalog, store)
    new = nets2.latents(catalog.ids)
    old, old_labels, unseen = labeled_latents(run2, classes)
    fit, decide = catalog.rows(partition.fit), catalog.rows(partition.decide)
    new_labels = np.full(len(catalog), UNLABELED)
    new_labels[fit] = catalog.labels[fit]
    _check_decoding(run1, catalog)
    nets1 = nets_of(run1, catalog, store)
    latents = DatasetLatents(
        old=old,
        old_labels=old_labels,
        new_net1=nets1.latents(catalog.ids),
        new=new,
        new_labels=new_labels,
        decide_rows=decide,
        decide_labels=catalog.labels[decide],
        n_classes=len(classes),
    )
    ks = list(ks) or default_ks(len(classes), min(len(old), len(catalog)))
    adaptation = adapt(latents, ks, config.seed)
    few = labels_alone(
        (new[fit], catalog.labels[fit]), (new[decide], catalog.labels[decide]), ks, config.seed
    )
    judged = one_per_unit(catalog, partition.report)
    rows = catalog.rows(judged)
    truth = catalog.labels[rows]
    right = adaptation.predict(new[rows]) == truth
    check = AdaptationCheck(
        gap=domain_gap(old, unseen, new, adaptation.k, config.seed),
        direct=compare(right, _predict(nets2, run2, classes, judged) == truth),
        labels_alone=compare(right, few.predict(new[rows], len(classes)) == truth),
        net1=compare(right, _predict(nets1, run1, classes, judged) == truth),
    )
    return adaptation, check, new


def _check_decoding(run1: RunFolder, catalog: Catalog) -> None:
    """Refuse a run 1 that reads images in another size than the run to adapt from."""
    if run1.catalog.decoding != catalog.decoding:
        raise RunError(
            f"{run1.path} reads images as {_decoding_text(run1.catalog)}, and the run to adapt "
            f"from as {_decoding_text(catalog)}: both nets need the same architecture. Leave out "
            f"--run1, or make that run with --image-size {catalog.size}."
        )


def _decoding_text(catalog: Catalog) -> str:
    size, method = catalog.size, f" ({catalog.resize})" if catalog.resize else ""
    return f"{size}x{size} with {catalog.channels} channels{method}"


def _predict(
    nets: Ensemble | LinearEnsemble, folder: RunFolder, classes: tuple[str, ...], ids: Ids
) -> IntArray:
    """(N,) the predictions of a run's nets among ``classes``, without adaptation."""
    known = list(finished_round(folder).metrics["classes"])
    probabilities = nets.predict(ids, no_progress).probabilities
    among = np.zeros((len(ids), len(classes)))
    for k, name in enumerate(classes):
        among[:, k] = probabilities[:, known.index(name)] if name in known else 0.0
    predicted: IntArray = among.argmax(axis=1).astype(np.int64)
    return predicted


def _about(run1: RunFolder, run2: RunFolder, request: AdaptRequest, config: Config) -> JsonObject:
    return {
        "images": name_of(request.images),
        "labels": name_of(request.labels),
        "adapted_from": str(run2.path.resolve()),
        "run1": str(run1.path.resolve()),
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
