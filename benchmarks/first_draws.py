"""Which images to label first: accuracy by number of labels, for each strategy of ``draw``.

The same learner for all: scikit-learn's logistic regression on features of EfficientNet-Lite0.
Photographs are drawn by those features, USPS by thumbnails, as ``draw`` does. ``uncertain`` begins
with 100 random labels and adds 100 twice. Each seed takes nine tenths of a collection. The error of
the labels, each predicted from the others, shows how well chosen labels estimate the pool's error.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import surelabel
from photographs import DATA as PHOTOGRAPHS
from photographs import read_collection
from recipe_data import DATASETS
from settings import Settings
from surelabel.dataset.build import unlabeled_catalog
from surelabel.dataset.pixels import restore_pixels
from surelabel.dataset.thumbnails import thumbnail_vectors
from surelabel.models.backbones import photos_installed
from surelabel.selection.coverage import coverage_order
from surelabel.types import FloatArray, IntArray
from surelabel.workflows.drawing import unit_vectors
from surelabel.workflows.model_inputs import decoding_of, open_inputs

SIZES = (100, 200, 300)
_LAST_LAYER = 1280
_USPS_SIDE = 96
"""Pixels at which the net sees the digits."""


def main(settings: Settings) -> dict[str, Any]:
    if not PHOTOGRAPHS.exists() or not DATASETS["USPS"].is_there() or not photos_installed():
        return {"skipped": f"needs {PHOTOGRAPHS.parent} and surelabel[photos]"}
    warnings.filterwarnings("ignore")
    n_images = settings.size(settings.images, 0, 300)
    n_seeds = 1 if settings.tiny else settings.n_seeds
    sizes = (30, 60, 90) if settings.tiny else SIZES
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        cache = settings.out or Path(temporary)
        for name in ("leaves-field",) if settings.tiny else ("leaves-lab", "leaves-field", "USPS"):
            features, looks, truth = _collection(name, cache, n_images)
            rows = [_one_seed(features, looks, truth, seed, sizes) for seed in range(n_seeds)]
            results[name] = {
                strategy: {
                    kind: {
                        "mean": np.mean([row[strategy][kind] for row in rows], axis=0).round(1),
                        "deviation": np.std([row[strategy][kind] for row in rows], axis=0).round(1),
                    }
                    for kind in rows[0][strategy]
                }
                for strategy in rows[0]
            }
    return {"seeds": n_seeds, "labels": sizes, "collections": _plain(results)}


def _collection(name: str, cache: Path, n: int) -> tuple[FloatArray, FloatArray, IntArray]:
    """What the learner sees, what images are drawn by, and the truth."""
    if name != "USPS":
        photographs = read_collection(name, cache, n)
        features = unit_vectors(photographs.features)
        return features, features, photographs.truth
    digits = DATASETS["USPS"].draw(0)
    options = {"net": "lite0", "image_size": _USPS_SIDE, "cache": str(cache)}
    config = surelabel.Config.from_mapping(options).in_effect(pretrained=True)
    catalog = unlabeled_catalog(digits.images, decoding=decoding_of(config), cache=cache)
    store = restore_pixels(catalog, cache=cache, images=digits.images)
    inputs: Any = open_inputs(config, catalog, store)
    row = [int(path.rsplit(":", 1)[-1]) for path in catalog.paths.tolist()]
    values = inputs.pixels(inputs.rows(catalog.ids[np.argsort(row)]))[:, :_LAST_LAYER]
    looks = thumbnail_vectors(digits.images[..., None], 16)
    return unit_vectors(values.float().numpy()), unit_vectors(looks), digits.truth


def _one_seed(
    features: FloatArray, looks: FloatArray, truth: IntArray, seed: int, sizes: tuple[int, ...]
) -> dict[str, dict[str, list[float]]]:
    """By strategy, for each number of labels: percent right in the pool, wrong on own labels."""
    rng = np.random.default_rng(seed)
    part = rng.permutation(len(truth))[: round(0.9 * len(truth))]
    x, look, y = features[part], looks[part], truth[part]
    everything = rng.permutation(len(y))
    covering = coverage_order(look, look, sizes[-1])
    chosen = {
        "random": [everything[:n] for n in sizes],
        "coverage": [covering[:n] for n in sizes],
        "uncertain": _uncertain(x, y, everything[: sizes[0]], sizes),
        "coverage, then uncertain": _uncertain(x, y, covering[: sizes[0]], sizes),
    }
    return {
        strategy: {
            "right": [_right(x, y, labeled) for labeled in each],
            "own_wrong": [_own_wrong(x, y, labeled) for labeled in each],
            "wrong": [100 - _right(x, y, labeled) for labeled in each],
        }
        for strategy, each in chosen.items()
    }


def _uncertain(
    x: FloatArray, y: IntArray, first: IntArray, sizes: tuple[int, ...]
) -> list[IntArray]:
    steps = [first]
    for n in sizes[1:]:
        labeled = steps[-1]
        left = np.setdiff1d(np.arange(len(y)), labeled)
        p = _fit(x, y, labeled).predict_proba(x[left])
        entropy = -(p * np.log(np.maximum(p, 1e-12))).sum(1)
        new = coverage_order(
            x[left], x[left], n - len(labeled), weights=entropy, labeled=x[labeled]
        )
        steps.append(np.concatenate([labeled, left[new]]))
    return steps


def _fit(x: FloatArray, y: IntArray, labeled: IntArray) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=100.0, max_iter=200, tol=1e-3).fit(x[labeled], y[labeled])


def _right(x: FloatArray, y: IntArray, labeled: IntArray) -> float:
    left = np.setdiff1d(np.arange(len(y)), labeled)
    return 100 * float((_fit(x, y, labeled).predict(x[left]) == y[left]).mean())


def _own_wrong(x: FloatArray, y: IntArray, labeled: IntArray) -> float:
    """Of the labels, each predicted from four fifths of the others."""
    folds = np.random.default_rng(0).permutation(len(labeled)) % 5
    wrong = 0
    for k in range(5):
        out = labeled[folds == k]
        wrong += int((_fit(x, y, labeled[folds != k]).predict(x[out]) != y[out]).sum())
    return 100 * wrong / len(labeled)


def _plain(values: Any) -> Any:
    if isinstance(values, dict):
        return {key: _plain(value) for key, value in values.items()}
    return values.tolist() if isinstance(values, np.ndarray) else values
