"""Photographs: surelabel beside what else can be trained on the same cached features.

Real collections, labels drawn at random, the rest is the pool. Rivals are tuned by five-fold
cross-validation on the labels and see the last layer of EfficientNet-Lite0; surelabel runs whole,
with its defaults, once on the same net and once on its default nets. The truth of the pool is used
to report only. Features are computed once and kept in the folder ``--out``.
"""

from __future__ import annotations

import csv
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import surelabel
from selective import figures
from settings import Settings
from surelabel.dataset.build import unlabeled_catalog
from surelabel.dataset.pixels import open_pixels
from surelabel.models.backbones import photos_installed
from surelabel.runs.rounds import POOL_TABLE
from surelabel.types import BoolArray, FloatArray, IntArray
from surelabel.workflows.model_inputs import PHOTOGRAPH_NETS, decoding_of, open_inputs

DATA = Path(__file__).resolve().parents[2] / "shared/data/photos"
SETS: tuple[str, ...] = ("leaves-lab", "leaves-field")
N_LABELS: tuple[int, ...] = (300, 600)
COVERAGES = (0.5, 0.8, 0.9, 0.95, 1.0)
NETS = {"surelabel, lite0 at 224": "lite0", "surelabel, default nets": PHOTOGRAPH_NETS}
SAME_FEATURES = "surelabel, lite0 at 224"
PROTOTYPE = "prototype: three regressions, ten neighbors"
_LAST_LAYER = 1280


@dataclass(frozen=True)
class Collection:
    """Photographs with their true classes and the features that the rivals see."""

    folder: Path
    """Where the paths begin."""
    paths: list[str]
    truth: IntArray
    """(N,) class numbers."""
    features: FloatArray
    """(N, 1280)."""


@dataclass(frozen=True)
class Draw:
    """Which images have labels."""

    labeled: IntArray
    pool: IntArray


def main(settings: Settings) -> dict[str, Any]:
    if not DATA.exists() or not photos_installed():
        return {"skipped": f"needs {DATA} and surelabel[photos]"}
    warnings.filterwarnings("ignore")
    sets, sizes, n_seeds = SETS, N_LABELS, settings.n_seeds
    nets = NETS
    if settings.tiny:
        sets, sizes, n_seeds = SETS[1:], (80,), 1
        nets = {SAME_FEATURES: NETS[SAME_FEATURES]}
    results: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        cache = settings.out or Path(temporary)
        for name in sets:
            collection = read_collection(name, cache, settings.size(settings.images, 0, 240))
            for n in sizes:
                rows: dict[str, list[dict[str, float]]] = {}
                for seed in range(n_seeds):
                    for method, row in _compare(collection, n, seed, nets, cache):
                        rows.setdefault(method, []).append(row)
                        print(name, n, seed, method, row, file=sys.stderr, flush=True)
                results[f"{name}, {n} labels"] = summary(rows)
    return {"seeds": n_seeds, "collections": results}


def summary(rows: Mapping[str, list[dict[str, float]]]) -> dict[str, Any]:
    """By method means over the seeds; and surelabel's ratios to the best rival, seed by seed."""
    means = {
        method: {key: round(float(np.mean([row[key] for row in of])), 3) for key in of[0]}
        for method, of in rows.items()
    }
    rivals = [m for m in rows if not m.startswith("surelabel") and m != PROTOTYPE]
    best = min(rivals, key=lambda m: means[m]["aurc"])
    ratios = {
        method: {
            "aurc_ratio": round(means[method]["aurc"] / means[best]["aurc"], 3),
            "aurc_ratio_by_seed": [
                round(own["aurc"] / min(rows[m][i]["aurc"] for m in rivals), 3)
                for i, own in enumerate(rows[method])
            ],
            "error_over_best": round(
                means[method]["error"] / min(means[m]["error"] for m in rivals), 3
            ),
        }
        for method in rows
        if method not in rivals
    }
    return {"best_rival": best, "methods": means, "ratios": ratios}


def read_truth(name: str) -> dict[str, str]:
    """The class of each photograph of a collection, by path."""
    with (DATA / name / "truth.csv").open(newline="") as file:
        return {row["path"]: row["label"] for row in csv.DictReader(file)}


def read_collection(name: str, cache: Path, n_images: int) -> Collection:
    """A collection of real photographs, or ``n_images`` of them at random."""
    rows = list(read_truth(name).items())
    kept = np.sort(np.random.default_rng(0).permutation(len(rows))[: n_images or len(rows)])
    return collection_of(DATA / name / "images", dict(rows[i] for i in kept), cache)


def collection_of(folder: Path, labels: Mapping[str, str], cache: Path) -> Collection:
    """The photographs and what Lite0 makes of them at the size it was trained with."""
    paths = list(labels)
    _, truth = np.unique(list(labels.values()), return_inverse=True)
    config = photograph_config(cache, "lite0")
    with tempfile.TemporaryDirectory() as scratch:
        table = _write_table(Path(scratch), folder, paths, {})
        catalog = unlabeled_catalog(table, decoding=decoding_of(config), cache=cache)
    features: Any = open_inputs(config, catalog, open_pixels(catalog, cache))
    row = {Path(path).name: i for i, path in enumerate(catalog.paths.tolist())}
    ids = catalog.ids[[row[path] for path in paths]]
    values = features.pixels(features.rows(ids))[:, :_LAST_LAYER].float().numpy()
    return Collection(folder, paths, truth, values)


def _write_table(scratch: Path, folder: Path, paths: list[str], labels: Mapping[int, str]) -> Path:
    """A table of images, with the labels that are given by position."""
    table = scratch / "labels.csv"
    with table.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "label"])
        for i, path in enumerate(paths):
            writer.writerow([folder / path, labels.get(i, "")])
    return table


def photograph_config(cache: Path, net: str, **changes: Any) -> surelabel.Config:
    small = {"image_size": 224} if net == "lite0" else {}
    return surelabel.Config.from_mapping({"net": net, "cache": str(cache), **small, **changes})


def _compare(
    collection: Collection, n: int, seed: int, nets: Mapping[str, str], cache: Path
) -> Iterator[tuple[str, dict[str, float]]]:
    order = np.random.default_rng([seed, n]).permutation(len(collection.truth))
    draw = Draw(np.sort(order[:n]), np.sort(order[n:]))
    rivals = Rivals(collection.features, collection.truth, draw)
    for method, fit in rivals.all().items():
        started = time.monotonic()
        classes, p = fit()
        guess = classes[p.argmax(1)]
        wrong = guess != collection.truth[draw.pool]
        yield method, _row(1 - p.max(1), wrong, time.monotonic() - started)
    for method, net in nets.items():
        for suffix, row in _ours(collection, draw, seed, net, cache):
            yield method + suffix, row


def _row(score: FloatArray, wrong: np.ndarray, seconds: float) -> dict[str, float]:
    """Errors at each coverage in percent, area x 100, seconds."""
    ranked = wrong[np.argsort(score, kind="stable")]
    by_coverage = {
        f"error_at_{round(100 * c)}": 100 * float(ranked[: round(c * len(ranked))].mean())
        for c in COVERAGES
    }
    area = 100 * figures(score, wrong)["aurc"]
    return {"aurc": area, "error": 100 * float(wrong.mean()), **by_coverage, "seconds": seconds}


def run_on(
    collection: Collection, draw: Draw, config: surelabel.Config, names: list[str], folder: Path
) -> surelabel.Run:
    """A whole run with the labels of ``draw``; classes have ``names``."""
    given = {int(i): names[collection.truth[i]] for i in draw.labeled}
    table = _write_table(folder, collection.folder, collection.paths, given)
    return surelabel.label(table, out=folder / "run", config=config)


def _ours(
    collection: Collection, draw: Draw, seed: int, net: str, cache: Path
) -> list[tuple[str, dict[str, float]]]:
    """A whole run: what the rounds say of the pool, round 1 and the last; seconds are summed."""
    names = [f"class {k}" for k in range(int(collection.truth.max()) + 1)]
    with tempfile.TemporaryDirectory() as folder:
        config = photograph_config(cache, net, seed=seed)
        run = run_on(collection, draw, config, names, Path(folder))
        catalog, finished = run.folder.catalog, run.folder.finished_rounds()
        row = {Path(path).name: i for i, path in enumerate(collection.paths)}
        rows = []
        for suffix, files in ((", round 1", finished[0]), ("", finished[-1])):
            pool = files.read_table(POOL_TABLE)
            paths = catalog.paths[catalog.rows(pool["id"].to_numpy(dtype=np.str_))]
            truth = np.array([names[collection.truth[row[Path(path).name]]] for path in paths])
            wrong = np.array(run.rounds[-1].classes)[pool["guess"].to_numpy()] != truth
            seconds = sum(r.seconds for r in run.rounds[: files.number])
            rows.append((suffix, _row(pool["score"].to_numpy(), wrong, seconds)))
        return rows


Fit = Callable[[], tuple[IntArray, FloatArray]]
"""Gives classes (K,) and probabilities (M, K) of the pool."""
_PENALTIES = {
    "raw": np.logspace(-4, 2, 9),
    "standardized": np.logspace(-5, 1, 9),
    "L2-normalized": np.logspace(-1, 5, 9),
}
"""C of logistic regression, by how features are normalized."""


class Rivals:
    """scikit-learn's classifiers on one draw of labels, tuned by five-fold cross-validation."""

    def __init__(self, features: FloatArray, truth: IntArray, draw: Draw) -> None:
        from sklearn.model_selection import StratifiedKFold
        from sklearn.preprocessing import StandardScaler

        unit = features / np.maximum(np.linalg.norm(features, axis=1, keepdims=True), 1e-12)
        scaled = StandardScaler().fit_transform(features)
        self.values = {"raw": features, "standardized": scaled, "L2-normalized": unit}
        self.unit, self.draw = unit, draw
        self.labels, self.n_classes = truth[draw.labeled], int(truth.max()) + 1
        self.folds = StratifiedKFold(5, shuffle=True, random_state=0)

    def all(self) -> dict[str, Fit]:
        """By name."""
        return {
            **{f"logistic regression, {kind}": partial(self.logistic, kind) for kind in _PENALTIES},
            "logistic regression, L2-normalized, tuned by loss": self.logistic_by_loss,
            "calibrated linear SVM": self.support_vectors,
            "k-NN": self.nearest,
            "SelfTrainingClassifier": self.self_training,
            "LabelSpreading": self.spreading,
            PROTOTYPE: self.prototype,
        }

    def logistic(self, kind: str) -> tuple[IntArray, FloatArray]:
        """Tuned for the accuracy."""
        model = _regression(self._best_c(kind)).fit(*self._labeled(kind))
        return model.classes_, model.predict_proba(self.values[kind][self.draw.pool])

    def held_out(self, kind: str) -> tuple[FloatArray, BoolArray]:
        """Cross-validated predictions of the labels: scores, and whether they are right."""
        best, rows = self._best_c(kind), self.draw.labeled
        scores, correct = np.zeros(len(rows)), np.zeros(len(rows), dtype=bool)
        for train, out in self._splits():
            model = _regression(best).fit(self.values[kind][rows[train]], self.labels[train])
            p = model.predict_proba(self.values[kind][rows[out]])
            scores[out] = 1 - p.max(1)
            correct[out] = model.classes_[p.argmax(1)] == self.labels[out]
        return scores, correct

    def logistic_by_loss(self) -> tuple[IntArray, FloatArray]:
        """Tuned for the loss; a class that a fold lacks has almost no probability there."""

        def loss(c: float) -> float:
            total = 0.0
            for train, out in self._splits():
                rows = self.draw.labeled
                model = _regression(c).fit(self.unit[rows[train]], self.labels[train])
                p = np.full((len(out), self.n_classes), 1e-12)
                p[:, model.classes_] = model.predict_proba(self.unit[rows[out]])
                of_label = np.maximum(p[np.arange(len(out)), self.labels[out]], 1e-12)
                total -= float(np.log(of_label).sum())
            return total

        best = min(_PENALTIES["L2-normalized"], key=loss)
        model = _regression(best).fit(*self._labeled("L2-normalized"))
        return model.classes_, model.predict_proba(self.unit[self.draw.pool])

    def support_vectors(self) -> tuple[IntArray, FloatArray]:
        """Calibration needs two labels of a class, so classes with one are left out."""
        from sklearn.calibration import CalibratedClassifierCV
        from sklearn.svm import LinearSVC

        c = self._search(LinearSVC(), {"C": np.logspace(-2, 3, 6)}).best_params_["C"]
        often = np.bincount(self.labels)[self.labels] >= 2
        model = CalibratedClassifierCV(LinearSVC(C=c), ensemble=False, cv=2)
        model.fit(self.unit[self.draw.labeled[often]], self.labels[often])
        return model.classes_, model.predict_proba(self.unit[self.draw.pool])

    def nearest(self) -> tuple[IntArray, FloatArray]:
        """By distance in L2-normalized features."""
        from sklearn.neighbors import KNeighborsClassifier

        grid = {"n_neighbors": [1, 3, 5, 10, 20]}
        search = self._search(KNeighborsClassifier(weights="distance"), grid)
        return search.classes_, search.predict_proba(self.unit[self.draw.pool])

    def self_training(self) -> tuple[IntArray, FloatArray]:
        """Logistic regression tuned alone, then the threshold of its pseudo-labels."""
        from sklearn.semi_supervised import SelfTrainingClassifier

        base = _regression(self._best_c("L2-normalized"))
        models = [SelfTrainingClassifier(base, threshold=t) for t in (0.75, 0.9, 0.97)]
        return self._transductive(models)

    def spreading(self) -> tuple[IntArray, FloatArray]:
        """On the graph of nearest neighbors."""
        from sklearn.semi_supervised import LabelSpreading

        return self._transductive(
            [
                LabelSpreading(kernel="knn", n_neighbors=k, alpha=alpha, max_iter=50)
                for k in (5, 10, 20)
                for alpha in (0.2, 0.8)
            ]
        )

    def prototype(self) -> tuple[IntArray, FloatArray]:
        """Three regressions averaged; log-probabilities blended with those of ten neighbors."""
        best = self._best_c("L2-normalized")
        models = [
            _regression(c).fit(*self._labeled("L2-normalized")) for c in (best / 3, best, 3 * best)
        ]
        p = np.mean([model.predict_proba(self.unit) for model in models], axis=0)
        logs = np.log(np.maximum(p, 1e-6))
        similarity = self.unit @ self.unit.T
        np.fill_diagonal(similarity, -1)
        near = np.argpartition(-similarity, 10, axis=1)[:, :10]
        blended = 0.5 * logs + 0.5 * logs[near].mean(1)
        p = np.exp(blended - blended.max(1, keepdims=True))
        return models[0].classes_, (p / p.sum(1, keepdims=True))[self.draw.pool]

    def _labeled(self, kind: str) -> tuple[FloatArray, IntArray]:
        return self.values[kind][self.draw.labeled], self.labels

    def _splits(self) -> list[tuple[IntArray, IntArray]]:
        return list(self.folds.split(self.unit[self.draw.labeled], self.labels))

    def _search(self, model: Any, grid: Mapping[str, Any], kind: str = "L2-normalized") -> Any:
        from sklearn.model_selection import GridSearchCV

        return GridSearchCV(model, dict(grid), cv=self.folds).fit(*self._labeled(kind))

    def _best_c(self, kind: str) -> float:
        search = self._search(_regression(1.0), {"C": _PENALTIES[kind]}, kind)
        return float(search.best_params_["C"])

    def _transductive(self, models: list[Any]) -> tuple[IntArray, FloatArray]:
        """The most accurate of models that learn from the pool, too."""

        def fitted(model: Any, known: IntArray) -> Any:
            partly = np.full(len(self.unit), -1)
            partly[self.draw.labeled[known]] = self.labels[known]
            return model.fit(self.unit, partly)

        def n_right(model: Any) -> int:
            right = 0
            for train, out in self._splits():
                guess = fitted(model, train).predict(self.unit[self.draw.labeled[out]])
                right += int((guess == self.labels[out]).sum())
            return right

        best = fitted(max(models, key=n_right), np.arange(len(self.labels)))
        p = best.predict_proba(self.unit[self.draw.pool])
        return best.classes_, np.nan_to_num(p, nan=1 / p.shape[1])  # nan: no neighbor has a label


def _regression(c: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=c, max_iter=300, tol=1e-3)
