"""The verb adapt: label a new dataset with the nets of a finished run, without retraining them.

Paper: § Latent Variable Adaptive Clustering; ``adaptation.clustering`` does the six steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from surelabel.adaptation.clustering import Adaptation, Facets, Joined, adapt, default_ks
from surelabel.adaptation.comparison import compare, labels_alone
from surelabel.adaptation.domain_gap import Gap, gap
from surelabel.adaptation.label_partition import (
    REPORT_SHARE,
    Parts,
    check_classes,
    divide,
    facet_catalog,
    hide_from_report,
    one_a_unit,
    train_facet,
)
from surelabel.adaptation.round import Check, facts_of, finished, write_round
from surelabel.config.choices import Measure
from surelabel.config.settings import Config
from surelabel.dataset.array_store import PixelStore, cache_folder
from surelabel.dataset.build import build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import open_pixels, restore_pixels
from surelabel.errors import InputError, OptionError, RunError
from surelabel.files.atomic import fsync, remove_folder
from surelabel.guarantees.targets import ErrorTargets, families, parse_targets
from surelabel.runs.folder import RunFolder
from surelabel.selection.thresholds import parse_rule
from surelabel.types import UNLABELED, BoolArray, FloatArray, Ids, IntArray, Split, no_progress
from surelabel.workflows.label import SILENT, Listeners, annotations_of, as_recorded, problem_of
from surelabel.workflows.model_inputs import name_of, open_inputs

if TYPE_CHECKING:
    from surelabel.engines.local import LocalLearner

FACET = "-facet1"
"""What the second facet's run is called, after the name of the adapted run."""
PARTIAL = ".partial"
"""What the adapted run is called until it is whole."""


@dataclass(frozen=True)
class Request:
    """What to adapt to."""

    images: Any
    labels: Any
    out: Path
    run1: Path | None = None
    ks: Sequence[int] = ()
    """Numbers of clusters to try; empty: from the number of classes."""
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Settings of the adapted run that differ from those of the run it comes from."""


def adapt_run(run2: RunFolder, request: Request, listeners: Listeners = SILENT) -> RunFolder:
    """Label ``request.images`` into a new run folder; the second facet's run is beside it."""
    RunFolder.check_free(request.out)
    config = _config(run2.config, request)
    targets = _checked(config, request.ks)
    run1 = RunFolder.open(request.run1) if request.run1 is not None else None
    runs = [run2] if run1 is None else [run2, run1]
    for run in runs:
        finished(run)
    catalog = _read(run2, request, config, listeners)
    families(targets, catalog.classes)
    catalog = hide_from_report(catalog, runs)
    parts = divide(catalog, config.seed)
    if run1 is None:
        beside = request.out.with_name(request.out.name + FACET)
        facet_config = run2.config.replace(seed=config.seed, max_error="")
        run1 = train_facet(beside, facet_catalog(catalog, parts.fit), facet_config, listeners)
    found, check, latents = _fit(run2, run1, catalog, parts, request, config)
    facts = facts_of(found, check, parts, run1, run2)
    facts["classes_unused"] = sorted(set(problem_of(run2).classes) - set(catalog.classes))
    named = set(found.joined.labels[found.joined.kept].tolist())
    lost = [name for k, name in enumerate(catalog.classes) if k not in named]
    facts["classes_without_centroid"] = lost
    about: dict[str, Any] = {"images": name_of(request.images), "labels": name_of(request.labels)}
    about |= {"adapted_from": str(run2.path.resolve()), "facet": str(run1.path.resolve())}
    about |= {"seed": config.seed, "threads": as_recorded(run2).threads}
    partial = request.out.with_name(request.out.name + PARTIAL)
    _remove_own(partial)
    folder = RunFolder.create(partial, config=config, catalog=catalog, about=about)
    write_round(folder, found, latents, facts, check, listeners)
    RunFolder.check_free(request.out)
    partial.rename(request.out)
    fsync(request.out.resolve().parent)
    return RunFolder.open(request.out)


def _remove_own(partial: Path) -> None:
    """Remove what an adaptation left that was killed; what else is there stays."""
    if not partial.exists():
        return
    if not (partial / "run.json").is_file() or "adapted_from" not in RunFolder.open(partial).about:
        raise InputError(f"{partial} is in the way and no leftover of surelabel: move it.")
    remove_folder(partial)


def nets_of(folder: RunFolder, catalog: Catalog, store: PixelStore) -> LocalLearner:
    """The nets of a run's last round, looking at the images of ``catalog``."""
    from surelabel.engines.device import prepare
    from surelabel.engines.local import LocalLearner

    prepare(as_recorded(folder))
    last = finished(folder)
    learner = LocalLearner(folder.config, open_inputs(folder.config, catalog, store))
    learner.load(last.weights(), last.number, neighbor_vote=False)
    return learner


def labeled_latents(
    folder: RunFolder, classes: tuple[str, ...]
) -> tuple[FloatArray, IntArray, BoolArray]:
    """Latents (N, D) of all images of a run that have a label of ``classes``, and those labels.

    The third (N,) marks the tune images: the nets have not been trained on them.
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


def _config(config: Config, request: Request) -> Config:
    """One round; scores come from distances, which have one sample and no noise variance."""
    fixed = {"score": Measure.LEAST_CONFIDENCE, "max_rounds": 1, "growth_warm": False}
    asked = [name for name in fixed if name in request.options]
    if asked:
        raise OptionError(f"{asked[0]} cannot be chosen: adaptation has its own.")
    plain = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    return Config.from_mapping({**plain, "max_error": "", **request.options, **fixed})


def _checked(config: Config, ks: Sequence[int]) -> ErrorTargets:
    """Refuse what cannot be, before anything is read or trained; what was asked for."""
    parse_rule(config.accept)
    if any(k < 1 for k in ks):
        raise OptionError(f"k is {min(ks)}; a dataset has one cluster at least.")
    return parse_targets(config.max_error)


def _read(run2: RunFolder, request: Request, config: Config, listeners: Listeners) -> Catalog:
    catalog = build_catalog(
        request.images,
        request.labels,
        seed=config.seed,
        tune_share=REPORT_SHARE,
        image_size=run2.catalog.size,
        channels=run2.catalog.channels,
        resize=run2.catalog.resize,
        cache=cache_folder(config.cache),
        on_progress=listeners.on_progress,
    )
    check_classes(catalog, problem_of(run2).classes, run2.path)
    return catalog


def _fit(
    run2: RunFolder,
    run1: RunFolder,
    catalog: Catalog,
    parts: Parts,
    request: Request,
    config: Config,
) -> tuple[Adaptation, Check, FloatArray]:
    classes = catalog.classes
    store = open_pixels(catalog, cache_folder(config.cache))
    nets2 = nets_of(run2, catalog, store)
    new = nets2.latents(catalog.ids)
    old, old_labels, unseen = labeled_latents(run2, classes)
    fit, decide = catalog.rows(parts.fit), catalog.rows(parts.decide)
    new_labels = np.full(len(catalog), UNLABELED)
    new_labels[fit] = catalog.labels[fit]
    nets1 = _under(run1, catalog, store)
    facets = Facets(
        old=old,
        old_labels=old_labels,
        new_own=nets1.latents(catalog.ids),
        new=new,
        new_labels=new_labels,
        decide=decide,
        decide_labels=catalog.labels[decide],
        n_classes=len(classes),
    )
    ks = list(request.ks) or default_ks(len(classes), min(len(old), len(catalog)))
    found = adapt(facets, ks, config.seed)
    judged = one_a_unit(catalog, parts.report)
    direct = _direct(nets2, run2, classes, judged)
    named, decided = ((new[rows], catalog.labels[rows]) for rows in (fit, decide))
    few = labels_alone(named, decided, ks, config.seed)
    own = _direct(nets1, run1, classes, judged)
    apart = gap(old, unseen, new, found.k, config.seed)
    return found, _check(found, facets, few, direct, own, catalog, judged, apart), new


def _under(folder: RunFolder, catalog: Catalog, store: PixelStore) -> LocalLearner:
    """A run's nets on the images of ``catalog``, read in the size that they were trained on."""
    theirs = folder.catalog
    if _decoding(theirs) != _decoding(catalog):
        raise RunError(
            f"{folder.path} reads images as {_decoding(theirs)}, and the run to adapt from as "
            f"{_decoding(catalog)}: both nets have to be of one architecture. Leave out --run1, "
            f"or make that run with --image-size {catalog.size}."
        )
    return nets_of(folder, catalog, store)


def _decoding(catalog: Catalog) -> str:
    size, method = catalog.size, f" ({catalog.resize})" if catalog.resize else ""
    return f"{size}x{size} with {catalog.channels} channels{method}"


def _direct(nets: LocalLearner, folder: RunFolder, classes: tuple[str, ...], ids: Ids) -> IntArray:
    """(N,) guesses of a run's nets as they are, among the classes at hand."""
    known = list(finished(folder).metrics["classes"])
    every = nets.predict(ids, no_progress).probabilities
    p = np.zeros((len(ids), len(classes)))
    for k, name in enumerate(classes):
        p[:, k] = every[:, known.index(name)] if name in known else 0.0
    guess: IntArray = p.argmax(axis=1).astype(np.int64)
    return guess


def _check(
    found: Adaptation,
    facets: Facets,
    few: Joined,
    direct: IntArray,
    own: IntArray,
    catalog: Catalog,
    judged: Ids,
    apart: Gap,
) -> Check:
    """The only place where the report labels are compared with anything but scores."""
    rows = catalog.rows(judged)
    truth, at = catalog.labels[rows], facets.new[rows]
    right = found.guess(at) == truth
    return Check(
        apart,
        compare(right, direct == truth),
        compare(right, few.guess(at, facets.n_classes) == truth),
        compare(right, own == truth),
    )
