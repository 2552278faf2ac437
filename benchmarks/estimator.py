"""The scikit-learn estimator: scikit-learn's own checks, and its errors beside a rival's.

The rival, on the same labels, is ``SelfTrainingClassifier``. Digits and tables come with
scikit-learn; features are those of EfficientNet-Lite0 of the leaf photographs. Labels are drawn at
random, the rest is the pool, whose truth is used to report only.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils.estimator_checks import check_estimator

from photographs import DATA, SETS, read_collection
from selective import figures
from settings import Settings
from surelabel.models.backbones import photos_installed
from surelabel.sklearn import SelfTrainingImageClassifier
from surelabel.types import FloatArray, IntArray

TABLES = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}
N_LABELS = {"digits": 100, "breast cancer": 40, "wine": 30}
N_LABELS_PHOTOGRAPHS = 300
OURS = "surelabel"
EXPECTED_FAILED = {
    "check_classifiers_classes": "it calls a class -1, which means unlabeled here, as in "
    "scikit-learn's own semi-supervised estimators, which it leaves out by name"
}


def methods(seed: int) -> Mapping[str, Callable[[], BaseEstimator]]:
    """What is compared; the rival sees standardized columns."""
    return {
        OURS: lambda: SelfTrainingImageClassifier(kind="features", random_state=seed),
        "SelfTrainingClassifier(LogisticRegression)": lambda: make_pipeline(
            StandardScaler(), SelfTrainingClassifier(LogisticRegression(max_iter=1000))
        ),
    }


def main(settings: Settings) -> dict[str, Any]:
    warnings.filterwarnings("ignore")
    checks = {} if settings.tiny else count_checks()
    names = ["wine"] if settings.tiny else list(TABLES)
    n_seeds = 1 if settings.tiny else settings.n_seeds
    results = {}
    for name in names:
        X, y = TABLES[name](return_X_y=True)
        results[f"{name}, {N_LABELS[name]} labels"] = _compare(X, y, N_LABELS[name], n_seeds)
    if not settings.tiny and DATA.exists() and photos_installed():
        with tempfile.TemporaryDirectory() as temporary:
            for name in SETS:
                found = read_collection(name, settings.out or Path(temporary), settings.images)
                n = N_LABELS_PHOTOGRAPHS
                results[f"{name}, {n} labels"] = _compare(found.features, found.truth, n, n_seeds)
    return {"check_estimator": checks, "seeds": n_seeds, "tables": results}


def count_checks() -> dict[str, int]:
    """How the checks of the installed scikit-learn end: passed, skipped, xfail, failed."""
    found = check_estimator(
        SelfTrainingImageClassifier(), expected_failed_checks=EXPECTED_FAILED, on_fail=None
    )
    for check in found:
        if check["status"] not in ("passed", "xfail"):
            print(check["check_name"], check["status"], check["exception"], file=sys.stderr)
    return dict(Counter(check["status"] for check in found))


def _compare(X: FloatArray, y: IntArray, n_labels: int, n_seeds: int) -> dict[str, Any]:
    """By method the mean over the seeds of error, AURC and seconds, all of pool rows."""
    rows: dict[str, list[dict[str, float]]] = {}
    for seed in range(n_seeds):
        order = np.random.default_rng(seed).permutation(len(y))
        counts = np.zeros(int(y.max()) + 1, dtype=np.int64)
        given = y.copy()
        given[order[n_labels:]] = -1
        np.add.at(counts, given[given >= 0], 1)
        given[np.isin(given, np.flatnonzero(counts < 3))] = -1
        pool = order[n_labels:]
        pool = pool[np.isin(y[pool], given)]
        for name, method in methods(seed).items():
            started = time.process_time()
            model = method().fit(X, given)
            p = model.predict_proba(X[pool])
            seconds = time.process_time() - started
            wrong = model.classes_[p.argmax(axis=1)] != y[pool]
            row = figures(1 - p.max(axis=1), wrong)
            rows.setdefault(name, []).append({**row, "seconds": seconds})
            print(name, seed, rows[name][-1], file=sys.stderr, flush=True)
    return {
        name: {key: round(float(np.mean([row[key] for row in of])), 4) for key in of[0]}
        for name, of in rows.items()
    }
