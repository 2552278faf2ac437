"""Label errors: our rule beside cleanlab's ``find_label_issues`` on the same probabilities.

All images have labels, of which 5 % are flipped to another class at random. The probabilities are
those of cross-fitted linear heads, each label by a head that did not see it: on the pixels of 5,000
digits, and on features of EfficientNet-Lite0 of both leaf collections.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from digits import IMAGES, LABELS, have_digits
from photographs import DATA, SETS, read_collection
from settings import Settings
from surelabel.config.settings import Config
from surelabel.dataset.arrays import read_idx
from surelabel.engines.inputs import GivenFeatures
from surelabel.engines.linear_learner import LinearLearner
from surelabel.integrations.estimator import catalog_of, with_labels
from surelabel.models.backbones import photos_installed
from surelabel.selection.label_errors import find_label_errors
from surelabel.selftraining.round_inputs import round_inputs_from
from surelabel.types import FloatArray, IntArray, no_progress
from surelabel.workflows.problem import build_problem

SHARE = 0.05
N_DIGITS = 5000


def main(settings: Settings) -> dict[str, Any]:
    try:
        import cleanlab  # noqa: F401
    except ImportError:
        return {"skipped": "needs cleanlab: pip install 'surelabel[bench]'"}
    if not have_digits():
        return {"skipped": "shared/data/mnist is not there"}
    n_seeds = 1 if settings.tiny else settings.n_seeds
    sets = {"MNIST": _digits(400 if settings.tiny else N_DIGITS)}
    if not settings.tiny and DATA.exists() and photos_installed():
        with tempfile.TemporaryDirectory() as temporary:
            for name in SETS:
                found = read_collection(name, settings.out or Path(temporary), settings.images)
                sets[name] = (found.features, found.truth)
    results: dict[str, Any] = {}
    for name, (X, truth) in sets.items():
        rows: dict[str, list[dict[str, float]]] = {}
        for seed in range(n_seeds):
            given, wrong = flipped(truth, seed)
            kept, p = out_of_fold(X, given, seed)
            for rule, listed in judged(p, given[kept]).items():
                row = precision_and_recall(listed, wrong[kept])
                rows.setdefault(rule, []).append(row)
                print(name, seed, rule, row, file=sys.stderr, flush=True)
        results[name] = {
            rule: {key: round(float(np.mean([row[key] for row in of])), 4) for key in of[0]}
            for rule, of in rows.items()
        }
    return {"seeds": n_seeds, "share": SHARE, "sets": results}


def judged(p: FloatArray, labels: IntArray) -> dict[str, IntArray]:
    """Rows that each rule reports, the likeliest errors first."""
    from cleanlab.filter import find_label_issues

    found = {"surelabel": find_label_errors(p, labels).rows}
    for how in ("prune_by_noise_rate", "confident_learning", "both"):
        found[f"cleanlab, {how}"] = find_label_issues(
            labels, p, filter_by=how, return_indices_ranked_by="self_confidence", n_jobs=1
        )
    return found


def precision_and_recall(found: IntArray, wrong: IntArray) -> dict[str, float]:
    """Of the rows found, against the labels that were flipped."""
    hits = int(wrong[found].sum())
    precision, recall = hits / max(len(found), 1), hits / max(int(wrong.sum()), 1)
    f1 = 2 * precision * recall / max(precision + recall, 1e-12)
    return {"found": len(found), "precision": precision, "recall": recall, "f1": f1}


def flipped(truth: IntArray, seed: int) -> tuple[IntArray, Any]:
    """Labels, 5 % of them of another class; and which."""
    rng = np.random.default_rng(seed)
    wrong = np.zeros(len(truth), dtype=bool)
    wrong[rng.permutation(len(truth))[: round(SHARE * len(truth))]] = True
    n_classes = int(truth.max()) + 1
    shift = rng.integers(1, n_classes, len(truth))
    return np.where(wrong, (truth + shift) % n_classes, truth), wrong


def out_of_fold(X: FloatArray, labels: IntArray, seed: int) -> tuple[IntArray, FloatArray]:
    """(N,) rows and (N, K) the probabilities of their classes by heads that did not see them."""
    config = Config(seed=seed).in_effect(pretrained=True)
    values = np.ascontiguousarray(X, dtype=np.float32)
    catalog = with_labels(catalog_of(values), labels, config)
    problem = build_problem(catalog, {}, 0)
    learner = LinearLearner(config, GivenFeatures(catalog, values))
    with tempfile.TemporaryDirectory() as folder:
        inputs = round_inputs_from(1, problem, None)
        ensemble = learner.train(inputs, Path(folder), no_progress)
        prediction = ensemble.predict_held_out(problem)
    rows = catalog.rows(prediction.ids)
    return rows, prediction.probabilities


def _digits(n: int) -> tuple[FloatArray, IntArray]:
    rows = np.sort(np.random.default_rng(0).permutation(60_000)[:n])
    pixels = read_idx(IMAGES)[rows].reshape(n, -1).astype(np.float32) / 255
    return pixels, read_idx(LABELS)[rows].astype(np.int64)
