"""The adaptation study: pairs of datasets, several seeds, each an ordinary run and its adaptation.

Test images are looked at after everything was decided.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from surelabel import api
from surelabel.adaptation.adapt import nets_of
from surelabel.adaptation.clustering import Joined
from surelabel.adaptation.comparison import labels_alone
from surelabel.adaptation.label_partition import divide
from surelabel.adaptation.learner import CENTROIDS
from surelabel.api import Run
from surelabel.config.choices import Effort, Net
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import catalog_like
from surelabel.dataset.pixels import open_pixels
from surelabel.engines.members import read_tensors
from surelabel.files.atomic import atomic_write_bytes
from surelabel.types import BoolArray, FloatArray, IntArray, LabelSource
from surelabel.workflows.label import Listeners
from surelabel_studies.adaptation.pairs import Pair, Side, Sizes, sides
from surelabel_studies.datasets.mnist import Digits
from surelabel_studies.runner import refuse_other_settings, size_words

#: Opens the listeners of one run, by its name.
Announce = Callable[[str], AbstractContextManager[Listeners]]


@dataclass(frozen=True)
class AdaptationSettings:
    """What the command line asks for."""

    pairs: tuple[Pair, ...] = tuple(Pair)
    seeds: int = 5
    sizes: Sizes = field(default_factory=Sizes)
    options: dict[str, Any] = field(default_factory=dict)
    """Settings of the runs other than the tool's own with low effort."""

    def config(self, seed: int) -> Config:
        """The settings of the runs of one seed."""
        return Config.from_mapping({"effort": Effort.LOW, **self.options, "seed": seed})


@dataclass(frozen=True)
class Trial:
    """One pair, one seed."""

    pair: Pair
    seed: int
    net: str
    accuracy: dict[str, float]
    """Share right on test images: direct_1, adapted_1, few_1, own_1, direct_2, adapted_2; most_2
    is that of naming always the most frequent class.
    """
    facts: dict[str, Any]
    """What the adapted run says of itself."""
    joined: Joined
    classes: tuple[str, ...]
    images_per_centroid: IntArray
    """(M,) test images of T1 that each centroid is nearest to."""

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
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
    """Every pair with every seed; after a kill the same call goes on where it stopped."""
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
    looked = place / f"test-{len(drawn[0].test_truth)}-{len(drawn[1].test_truth)}.json"
    if not looked.exists():
        facet = api.open_run(place / "adapted-facet1")
        found = _on_test_images(run2, facet, adapted, drawn)
        atomic_write_bytes(looked, json.dumps(found).encode())
    seen = json.loads(looked.read_text(encoding="utf-8"))
    facts = dict(adapted.rounds[0].learner["adaptation"])
    counts = np.array(seen["images_per_centroid"], dtype=np.int64)
    net = str(run2.config.net)
    return Trial(pair, seed, net, seen["accuracy"], facts, joined, classes, counts)


def _on_test_images(run2: Run, facet: Run, adapted: Run, drawn: tuple[Side, Side]) -> Any:
    """Share right of each way on each side, and how many of T1 each centroid is nearest to."""
    old, new = drawn
    joined, classes = _joined(adapted)
    few = _few(run2, adapted)
    latents1, guess1 = _look(run2, new.test_images)
    latents2, guess2 = _look(run2, old.test_images)
    _, own = _look(facet, new.test_images)
    truth1, truth2 = (_names(side.test_truth) for side in (new, old))
    names, k = np.array(classes, dtype=object), len(classes)
    said = {
        "direct_1": guess1 == truth1,
        "adapted_1": names[joined.guess(latents1, k)] == truth1,
        "few_1": names[few.guess(latents1, k)] == truth1,
        "own_1": own == truth1,
        "direct_2": guess2 == truth2,
        "adapted_2": names[joined.guess(latents2, k)] == truth2,
        "most_2": truth2 == _most_frequent(truth2),
    }
    counts = np.bincount(joined.owner(latents1), minlength=len(joined.labels))
    accuracy = {name: _share(right) for name, right in said.items()}
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
    there = size_words(len(catalog), n_labels)
    here = size_words(len(side.images), len(side.labels))
    asked = config.replace(net=run.config.net) if config.net == Net.AUTO else config
    refuse_other_settings(run, asked, [f"{there}, not {here}"] if there != here else [])


def _adapted(run2: Run, path: Path, side: Side, seed: int, listeners: Listeners) -> Run:
    if path.exists():
        adapted = api.open_run(path)
        _refuse_another(adapted, adapted.config, side)
        return adapted
    return run2.adapt(side.images, side.labels, path, seed=seed, listeners=listeners)


def _joined(adapted: Run) -> tuple[Joined, tuple[str, ...]]:
    first = adapted.folder.finished_rounds()[0]
    found, _ = read_tensors(first.path / CENTROIDS)
    arrays = {name: tensor.numpy() for name, tensor in found.items()}
    return Joined(**arrays), tuple(first.metrics["classes"])


def _few(run2: Run, adapted: Run) -> Joined:
    """Nearest centroids of the labels that adaptation had, fit and decide, under net 2."""
    catalog, seed = adapted.folder.catalog, adapted.config.seed
    nets = nets_of(run2.folder, catalog, open_pixels(catalog, cache_folder(run2.config.cache)))
    parts = divide(catalog, seed)
    fit, decide = ((nets.latents(i), catalog.labels_of(i)) for i in (parts.fit, parts.decide))
    ks = adapted.rounds[0].learner["adaptation"]["right_by_k"]
    return labels_alone(fit, decide, [int(k) for k in ks], seed)


def _look(run: Run, images: Any) -> tuple[FloatArray, Any]:
    """Latents of test images under the nets of a run, and the names of their guesses."""
    folder = run.folder
    cache = cache_folder(run.config.cache)
    catalog = catalog_like(folder.catalog, images, cache=cache)
    nets = nets_of(folder, catalog, open_pixels(catalog, cache))
    last = folder.last_round()
    assert last is not None
    names = np.array(last.metrics["classes"], dtype=object)
    return nets.latents(catalog.ids), names[nets.predict(catalog.ids).guess]


def _names(truth: IntArray) -> Any:
    return truth.astype(str).astype(object)


def _most_frequent(names: Any) -> Any:
    found, counts = np.unique(names.astype(str), return_counts=True)
    return found[counts.argmax()]


def _share(right: BoolArray) -> float:
    return float(np.mean(right))


def by_pair(trials: Sequence[Trial]) -> dict[Pair, list[Trial]]:
    """The trials of each pair, in the order of the pairs."""
    return {pair: [t for t in trials if t.pair is pair] for pair in Pair if _has(trials, pair)}


def _has(trials: Sequence[Trial], pair: Pair) -> bool:
    return any(trial.pair is pair for trial in trials)


def to_json(trials: Sequence[Trial]) -> dict[str, Any]:
    """Plain values of all trials."""
    return {str(p): [t.to_json() for t in found] for p, found in by_pair(trials).items()}


def sizes_text(settings: AdaptationSettings) -> str:
    """The sizes of data and training in a sentence."""
    sizes, config = settings.sizes, settings.config(0)
    steps = f"{config.steps:,} steps a net" if config.steps else "steps by data"
    return (
        f"At most {sizes.old_labels:,} labels of the old dataset and {sizes.new_labels:,} of the "
        f"new one, {sizes.test:,} test images of each; {steps}, {config.max_rounds} "
        f"round{'s' if config.max_rounds > 1 else ''}."
    )
