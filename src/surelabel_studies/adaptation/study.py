"""The adaptation study: for each pair of datasets and seed, an ordinary run and its adaptation.

The test images are used only after everything was decided.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from surelabel import api
from surelabel.adaptation.adapt import nets_of
from surelabel.adaptation.clustering import CentroidSet
from surelabel.adaptation.comparison import labels_alone
from surelabel.adaptation.label_partition import partition_labels
from surelabel.adaptation.learner import CENTROIDS
from surelabel.api import Run
from surelabel.config.choices import Effort, Net
from surelabel.config.settings import Config
from surelabel.dataset.array_store import Pixels, cache_folder
from surelabel.dataset.build import catalog_like
from surelabel.dataset.pixels import open_pixels
from surelabel.engines.storage import read_tensors
from surelabel.files.atomic import atomic_write_bytes
from surelabel.types import FloatArray, IntArray, JsonObject, LabelSource
from surelabel.workflows.label import Listeners
from surelabel_studies.adaptation.pairs import Pair, Side, Sizes, sides
from surelabel_studies.datasets.mnist import Digits
from surelabel_studies.runner import Announce, Options, refuse_other_settings, size_text


@dataclass(frozen=True)
class AdaptationSettings:
    """The settings of the command line."""

    pairs: tuple[Pair, ...] = tuple(Pair)
    seeds: int = 5
    sizes: Sizes = field(default_factory=Sizes)
    options: Options = field(default_factory=dict)
    """Settings of the runs; the others are the tool's own with low effort."""

    def config(self, seed: int) -> Config:
        """The settings of the runs of one seed."""
        return Config.from_mapping(
            {"effort": Effort.LOW, "accept": "tukey", **self.options, "seed": seed}
        )


@dataclass(frozen=True)
class Trial:
    """The result of one pair and one seed."""

    pair: Pair
    seed: int
    net: str
    accuracy: dict[str, float]
    """On test images: direct_1, adapted_1, few_1, own_1, direct_2, adapted_2; most_2 is that of
    always predicting the most frequent class.
    """
    facts: JsonObject
    """What the adapted run recorded about its adaptation."""
    joined: CentroidSet
    classes: tuple[str, ...]
    images_per_centroid: IntArray
    """(M,) the number of test images of T1 for which each centroid is the nearest."""

    def to_json(self) -> JsonObject:
        """The result as JSON values."""
        return {
            "seed": self.seed,
            "net": self.net,
            "accuracy": self.accuracy,
            "adaptation": self.facts,
        }


def run_adaptation(
    settings: AdaptationSettings,
    data: Callable[[Pair], tuple[Digits, Digits]],
    out: Path,
    announce: Announce,
) -> list[Trial]:
    """Every pair with every seed; the same call continues an interrupted study."""
    trials = []
    for pair in settings.pairs:
        old, new = data(pair)
        for seed in range(settings.seeds):
            drawn = sides(old, new, settings.sizes, seed)
            with announce(f"{pair}, seed {seed}") as listeners:
                place = out / str(pair) / f"seed-{seed}"
                trials.append(_trial(pair, seed, drawn, settings.config(seed), place, listeners))
    return trials


def _trial(
    pair: Pair,
    seed: int,
    drawn: tuple[Side, Side],
    config: Config,
    place: Path,
    listeners: Listeners,
) -> Trial:
    run2 = _run(place / "run2", drawn[0], config, listeners)
    adapted = _adapted(run2, place / "adapted", drawn[1], seed, listeners)
    joined, classes = _joined(adapted)
    recorded = place / f"test-{len(drawn[0].test_truth)}-{len(drawn[1].test_truth)}.json"
    if not recorded.exists():
        net1 = api.open_run(place / "adapted-net1")
        evaluated = _on_test_images(run2, net1, adapted, drawn)
        atomic_write_bytes(recorded, json.dumps(evaluated).encode())
    values = json.loads(recorded.read_text(encoding="utf-8"))
    facts = dict(adapted.rounds[0].learner["adaptation"])
    counts = np.array(values["images_per_centroid"], dtype=np.int64)
    net = str(run2.config.net)
    return Trial(pair, seed, net, values["accuracy"], facts, joined, classes, counts)


def _on_test_images(run2: Run, net1: Run, adapted: Run, drawn: tuple[Side, Side]) -> JsonObject:
    """The accuracy of each method on both sides, and the images per centroid on T1."""
    old, new = drawn
    joined, classes = _joined(adapted)
    few = _few(run2, adapted)
    latents1, guess1 = _predict(run2, new.test_images)
    latents2, guess2 = _predict(run2, old.test_images)
    _, own = _predict(net1, new.test_images)
    truth1, truth2 = new.test_truth.astype(str), old.test_truth.astype(str)
    names, k = np.array(classes), len(classes)
    right = {
        "direct_1": guess1 == truth1,
        "adapted_1": names[joined.predict(latents1, k)] == truth1,
        "few_1": names[few.predict(latents1, k)] == truth1,
        "own_1": own == truth1,
        "direct_2": guess2 == truth2,
        "adapted_2": names[joined.predict(latents2, k)] == truth2,
        "most_2": truth2 == statistics.mode(sorted(truth2.tolist())),
    }
    counts = np.bincount(joined.nearest(latents1), minlength=len(joined.labels))
    accuracy = {name: float(np.mean(each)) for name, each in right.items()}
    return {"accuracy": accuracy, "images_per_centroid": counts.tolist()}


def _run(path: Path, side: Side, config: Config, listeners: Listeners) -> Run:
    if not (path / "run.json").exists():
        return api.label(side.images, side.labels, path, config=config, listeners=listeners)
    run = api.open_run(path)
    _refuse_another(run, config, side)
    if not run.summary.is_finished:
        run.resume(listeners, images=side.images)
    return run


def _refuse_another(run: Run, config: Config, side: Side) -> None:
    catalog = run.folder.catalog
    n_labels = int((catalog.sources == LabelSource.GIVEN).sum())
    there = size_text(len(catalog), n_labels)
    here = size_text(len(side.images), len(side.labels))
    resolved = config.replace(net=run.config.net) if config.net == Net.AUTO else config
    refuse_other_settings(run, resolved, [f"{there}, not {here}"] if there != here else [])


def _adapted(run2: Run, path: Path, side: Side, seed: int, listeners: Listeners) -> Run:
    if path.exists():
        adapted = api.open_run(path)
        _refuse_another(adapted, adapted.config, side)
        return adapted
    return run2.adapt(side.images, side.labels, path, seed=seed, listeners=listeners)


def _joined(adapted: Run) -> tuple[CentroidSet, tuple[str, ...]]:
    first = adapted.folder.finished_rounds()[0]
    tensors, _ = read_tensors(first.path / CENTROIDS)
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    return CentroidSet(**arrays), tuple(first.metrics["classes"])


def _few(run2: Run, adapted: Run) -> CentroidSet:
    """Centroids of the new labels alone (those to fit and to decide), in the latents of net 2."""
    catalog, seed = adapted.folder.catalog, adapted.config.seed
    nets = nets_of(run2.folder, catalog, open_pixels(catalog, cache_folder(run2.config.cache)))
    parts = partition_labels(catalog, seed)
    fit, decide = ((nets.latents(i), catalog.labels_of(i)) for i in (parts.fit, parts.decide))
    ks = adapted.rounds[0].learner["adaptation"]["right_by_k"]
    return labels_alone(fit, decide, [int(k) for k in ks], seed)


def _predict(run: Run, images: Pixels) -> tuple[FloatArray, npt.NDArray[np.str_]]:
    """Latents of test images in the nets of a run, and the names of the predicted classes."""
    folder = run.folder
    cache = cache_folder(run.config.cache)
    catalog = catalog_like(folder.catalog, images, cache=cache)
    nets = nets_of(folder, catalog, open_pixels(catalog, cache))
    last = folder.last_round()
    assert last is not None
    names = np.array(last.metrics["classes"])
    return nets.latents(catalog.ids), names[nets.predict(catalog.ids).guess]


def by_pair(trials: Sequence[Trial]) -> dict[Pair, list[Trial]]:
    """The trials by pair, in the order of ``Pair``."""
    groups = {pair: [trial for trial in trials if trial.pair is pair] for pair in Pair}
    return {pair: group for pair, group in groups.items() if group}


def to_json(trials: Sequence[Trial]) -> JsonObject:
    """All trials as JSON values, by pair."""
    return {str(p): [t.to_json() for t in group] for p, group in by_pair(trials).items()}


def sizes_text(settings: AdaptationSettings) -> str:
    """The sizes of data and training in a sentence."""
    sizes, config = settings.sizes, settings.config(0)
    steps = f"{config.steps:,} steps per net" if config.steps else "steps by data"
    return (
        f"At most {sizes.old_labels:,} labels of the old dataset and {sizes.new_labels:,} of the "
        f"new one, {sizes.test:,} test images of each; {steps}, {config.max_rounds} "
        f"round{'s' if config.max_rounds > 1 else ''}."
    )
