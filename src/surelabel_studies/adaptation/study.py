"""The adaptation study: what each way makes of how many labels of the new dataset.

All ways see the same frozen features. The pool is the new dataset without the labels that are
shown; its truth is used to report only. A part of the old dataset (T2) is kept from every way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from surelabel.adaptation.clustering import CentroidSet, DatasetLatents, cluster_both
from surelabel.adaptation.comparison import CHOSEN
from surelabel.adaptation.domain_gap import gap_from
from surelabel.adaptation.first_labels import rows_to_label
from surelabel.adaptation.label_curve import (
    COUNTS,
    CurvePoint,
    LabeledImages,
    curve_point,
    predictions,
    shown_at,
)
from surelabel.adaptation.spaces import Stored, spaces_of
from surelabel.adaptation.ways import (
    CLUSTERING,
    WAYS,
    Space,
    Statistics,
    TwoDatasets,
    log_floor,
)
from surelabel.errors import RunError
from surelabel.files.atomic import atomic_write_bytes
from surelabel.models.backbones import Layers
from surelabel.types import UNLABELED, FloatArray, IntArray, JsonObject, derive_seed
from surelabel_studies.adaptation.pairs import Pair, PairData
from surelabel_studies.runner import Announce

AT_RANDOM, TO_ADAPT = "at random", "to adapt"
_N_DRAWN = 100
_T2_SHARE = 0.2
_MAX_CLUSTERED = 2000
"""Old images that the paper's way clusters."""
_CLUSTERS_PER_CLASS = (1, 2, 4)


@dataclass(frozen=True)
class AdaptationSettings:
    """The settings of the command line."""

    pairs: tuple[Pair, ...] = tuple(Pair)
    seeds: int = 5
    counts: tuple[str, ...] = COUNTS
    net: str = "lite0"
    images: int = 4000


@dataclass(frozen=True)
class Trial:
    """The result of one pair and one seed."""

    pair: Pair
    seed: int
    classes: tuple[str, ...]
    rows: tuple[CurvePoint, ...]
    chosen: Mapping[str, Mapping[str, float]]
    """By number of labels, the weights of the ways."""
    farther: float
    """How often a new image is farther from the old clusters than an old one of T2."""
    old_test: Mapping[str, float]
    """Accuracy on T2: direct inference, adaptive clustering, the most frequent class."""
    k: int
    joined: CentroidSet
    """The set A with the most labels."""
    images_per_centroid: IntArray
    """(M,) images of the pool for which each centroid is the nearest."""
    drawn: Mapping[str, float]
    """Accuracy with 100 labels of images that were drawn at random, and by ``--adapt-from``; on
    images that neither draw has.
    """

    def value(self, count: str, way: str, name: str = "accuracy") -> float | None:
        """A value of one row; None if the way says nothing with that number of labels."""
        found = [row for row in self.rows if (row.count, row.way) == (count, way)]
        return float(getattr(found[0], name)) if found else None

    def to_json(self) -> JsonObject:
        """The result as JSON values."""
        joined = {name: np.asarray(each).tolist() for name, each in vars(self.joined).items()}
        return {
            **{name: each for name, each in vars(self).items() if name != "joined"},
            "pair": str(self.pair),
            "rows": [asdict(row) for row in self.rows],
            "joined": joined,
            "images_per_centroid": self.images_per_centroid.tolist(),
        }

    @classmethod
    def from_json(cls, values: JsonObject) -> Trial:
        """The trial that ``to_json`` wrote."""
        dtypes = {"centroids": np.float32, "labels": np.int64}
        arrays = {n: np.array(v, dtype=dtypes.get(n, bool)) for n, v in values["joined"].items()}
        made = {
            **values,
            "pair": Pair(values["pair"]),
            "classes": tuple(values["classes"]),
            "rows": tuple(CurvePoint(**row) for row in values["rows"]),
            "joined": CentroidSet(**arrays),
            "images_per_centroid": np.array(values["images_per_centroid"], dtype=np.int64),
        }
        return cls(**made)


def run_adaptation(
    settings: AdaptationSettings,
    data: Callable[[Pair], PairData],
    out: Path,
    announce: Announce,
) -> list[Trial]:
    """Every pair with every seed; the same call continues an interrupted study."""
    trials = []
    for pair in settings.pairs:
        read: PairData | None = None
        for seed in range(settings.seeds):
            recorded = out / str(pair) / f"seed-{seed}.json"
            counts = list(settings.counts)
            facts = {"counts": counts, "net": settings.net, "images": settings.images}
            if not recorded.exists():
                read = read or data(pair)
                with announce(f"{pair}, seed {seed}"):
                    made = run_trial(pair, read, seed, settings.counts)
                recorded.parent.mkdir(parents=True, exist_ok=True)
                content = json.dumps({"settings": facts, "trial": made.to_json()})
                atomic_write_bytes(recorded, content.encode())
            values = json.loads(recorded.read_text(encoding="utf-8"))
            if values["settings"] != facts:
                raise RunError(f"{recorded} was made with other settings: give another --out.")
            trials.append(Trial.from_json(values["trial"]))
    return trials


def run_trial(pair: Pair, data: PairData, seed: int, counts: Sequence[str]) -> Trial:
    """One seed: it draws the part T2 of the old dataset and the labels of the new one."""
    both, test, test_labels = _two_datasets(data, seed)
    truth, n_classes = data.new.labels, len(data.classes)
    rng = np.random.default_rng(derive_seed(seed, "shown labels"))
    order = rng.permutation(len(truth))
    rows: list[CurvePoint] = []
    chosen = {}
    shown = np.empty(0, dtype=np.int64)
    for count in counts:
        shown = shown_at(order, truth, n_classes, count)
        pool = np.setdiff1d(np.arange(len(truth)), shown)
        given = LabeledImages(shown, truth[shown], units=shown)
        choice, made = predictions(both, given, pool, WAYS, seed)
        rows += [curve_point(count, len(shown), *each, truth[pool]) for each in made.items()]
        if choice is not None:
            names = [candidate.name for candidate in choice.candidates]
            chosen[count] = dict(zip(names, choice.weights.tolist(), strict=True))
    clustering = CLUSTERING.adaptation(both, shown, truth[shown])
    space, joined = both.spaces[Statistics.OLD], clustering.centroid_set
    direct = both.old_head(Statistics.OLD).probabilities(test).argmax(1).numpy()
    most = np.bincount(both.old_labels).argmax()
    old_test = {
        "direct": float((direct == test_labels).mean()),
        "clustering": float((clustering.predict(test.numpy()) == test_labels).mean()),
        "most frequent": float((test_labels == most).mean()),
    }
    old_centroids = joined.centroids[~joined.is_adapted]
    gap = gap_from(old_centroids, test.numpy(), space.new.numpy())
    nearest = joined.nearest(space.new.numpy()[pool])
    sizes = np.bincount(nearest, minlength=len(joined.labels))
    return Trial(
        pair,
        seed,
        data.classes,
        tuple(rows),
        chosen,
        gap.farther,
        old_test,
        clustering.k,
        joined,
        sizes,
        _compare_draws(both, order, truth, seed),
    )


def _compare_draws(
    both: TwoDatasets, order: IntArray, truth: IntArray, seed: int
) -> dict[str, float]:
    """By kind of draw, the accuracy of the way that is chosen among those that learn from labels.

    Unlike elsewhere in the study, no class is sure to have a label.
    """
    n = min(_N_DRAWN, len(order) // 4)
    draws = {
        AT_RANDOM: order[:n],
        TO_ADAPT: np.concatenate(rows_to_label(both, order, n)),
    }
    rest = np.setdiff1d(order, np.concatenate(list(draws.values())))
    ways = [way for way in WAYS if way.needs_labels and way is not CLUSTERING]
    right = {}
    for name, rows in draws.items():
        given = LabeledImages(rows, truth[rows], units=rows)
        _, made = predictions(both, given, rest, ways, seed)
        right[name] = float((made[CHOSEN].argmax(axis=1) == truth[rest]).mean())
    return right


def _two_datasets(data: PairData, seed: int) -> tuple[TwoDatasets, torch.Tensor, IntArray]:
    """Both datasets for the ways, and T2: places (n, R) and labels (n,)."""
    layers = Layers((data.old.features.shape[1],), (0,))
    spaces = spaces_of(_stored(data.old.features), _stored(data.new.features), layers, 0, seed)
    order = np.random.default_rng(derive_seed(seed, "T2")).permutation(len(data.old.labels))
    n_test = round(_T2_SHARE * len(order))
    test, kept = np.sort(order[:n_test]), np.sort(order[n_test:])
    labels = data.old.labels[kept]
    shown = {name: Space(each.old[kept], each.new) for name, each in spaces.items()}
    n_classes = len(data.classes)
    nobody = np.zeros((len(data.new.labels), n_classes))
    first = TwoDatasets(shown, labels, nobody, seed=seed)
    space = shown[Statistics.OLD]
    direct = log_floor(first.old_head(Statistics.OLD).logits(space.new).double().numpy())
    latents = DatasetLatents(
        old=space.old[:_MAX_CLUSTERED].numpy(),
        old_labels=labels[:_MAX_CLUSTERED],
        new_net1=shown[Statistics.CENTERED].new.numpy(),
        new=space.new.numpy(),
        new_labels=np.full(len(direct), UNLABELED),
        decide_rows=np.empty(0, dtype=np.int64),
        decide_labels=np.empty(0, dtype=np.int64),
        n_classes=n_classes,
    )
    clusterings = [cluster_both(latents, times * n_classes, seed) for times in _CLUSTERS_PER_CLASS]
    both = replace(first, direct=direct, clusterings=clusterings)
    return both, spaces[Statistics.OLD].old[test], data.old.labels[test]


def _stored(features: FloatArray) -> Stored:
    return Stored(len(features), lambda rows: torch.from_numpy(features[rows]))


def by_pair(trials: Sequence[Trial]) -> dict[Pair, list[Trial]]:
    """The trials by pair, in the order of ``Pair``."""
    groups = {pair: [trial for trial in trials if trial.pair is pair] for pair in Pair}
    return {pair: group for pair, group in groups.items() if group}


def to_json(trials: Sequence[Trial]) -> JsonObject:
    """All values by pair, without the centroids."""
    hidden = ("joined", "images_per_centroid")
    return {
        str(pair): [
            {name: each for name, each in trial.to_json().items() if name not in hidden}
            for trial in group
        ]
        for pair, group in by_pair(trials).items()
    }
