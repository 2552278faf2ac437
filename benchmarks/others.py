"""What people would use instead, from scikit-learn, on the same split; and surelabel beside it.

Each learns from the same labels and the same pool, and is ranked by its own highest probability;
no threshold is needed for that. Held-out labels, by which surelabel chooses settings and corrects
its guesses, the others have no use for: once more, each learns from those, too.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from digits import ABSENT, Digits, have_digits, read_digits
from our_run import scored_rounds, some_run
from selective import curve, figures
from settings import Settings
from surelabel.types import FloatArray, IntArray

Pixels = npt.NDArray[np.float32]
_CONFIDENCE = 0.95
"""From which a guess becomes a label in self-training: that of surelabel's own consistency."""
_ROUNDS = 5
_DIRECTIONS = 50


def main(settings: Settings) -> dict[str, Any]:
    if not have_digits():
        return ABSENT
    digits = read_digits(settings, n_pool=settings.images)
    known = np.concatenate([digits.train, digits.tune])
    return {
        "seed": settings.seed,
        "labels_per_class": settings.labels,
        "pool": len(digits.pool),
        "methods": {name: _judge(rival, digits, digits.train) for name, rival in RIVALS.items()},
        "from_held_out_labels_too": {
            name: _judge(rival, digits, known) for name, rival in RIVALS.items()
        },
        "surelabel": _ours(settings),
    }


def _judge(
    rival: Callable[[Pixels, IntArray, int], FloatArray], digits: Digits, known: IntArray
) -> dict[str, Any]:
    """Learn from the labels at the rows ``known`` and from the pool; judge the pool."""
    rows = np.concatenate([known, digits.pool])
    pixels = digits.images[rows].reshape(len(rows), -1).astype(np.float32) / 255
    labels = np.where(np.arange(len(rows)) < len(known), digits.truth[rows], -1)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a limit of iterations that is reached
        probabilities = rival(pixels, labels, 0)[len(known) :]
    seconds = time.perf_counter() - started
    top = probabilities.max(axis=1)
    guess, truth = probabilities.argmax(axis=1), digits.truth[digits.pool]
    return {
        "curve": curve(-top, guess, truth),
        **figures(-top, guess != truth),
        "seconds": round(seconds, 3),
    }


def _ours(settings: Settings) -> dict[str, Any]:
    """The last round of the run that was named, or of one made here."""
    started = time.perf_counter()
    with some_run(settings) as (run, digits):
        seconds = time.perf_counter() - started
        if settings.run is not None:
            seconds = sum(metrics.seconds for metrics in run.rounds)
        last = scored_rounds(run, digits)[-1]
    return {
        "curve": curve(last.score, last.guess, last.truth),
        **figures(last.score, last.guess != last.truth),
        "seconds": round(seconds, 3),
    }


def self_trained_svm(pixels: Pixels, labels: IntArray, seed: int) -> FloatArray:
    """A calibrated SVM with an RBF kernel, approximated on the first principal components.

    An exact SVM costs the square of its labels, and self-training brings tens of thousands. From
    500 labels the approximation is as often right and ranks as well as exact machines one against
    the rest; scikit-learn's ``SVC``, one against one, is as often right and ranks far worse.
    """
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.kernel_approximation import Nystroem
    from sklearn.semi_supervised import SelfTrainingClassifier
    from sklearn.svm import LinearSVC

    kernel = Nystroem(gamma=0.02, n_components=500, random_state=seed)
    features = kernel.fit_transform(_components(pixels, seed))
    svm = CalibratedClassifierCV(LinearSVC(C=10, random_state=seed), cv=3, ensemble=False)
    learner = SelfTrainingClassifier(svm, threshold=_CONFIDENCE, max_iter=_ROUNDS)
    found: FloatArray = learner.fit(features, labels).predict_proba(features)
    return found


def self_trained_mlp(pixels: Pixels, labels: IntArray, seed: int) -> FloatArray:
    """A perceptron with one hidden layer."""
    from sklearn.neural_network import MLPClassifier
    from sklearn.semi_supervised import SelfTrainingClassifier

    mlp = MLPClassifier(
        (256,), batch_size=128, max_iter=100, tol=1e-3, n_iter_no_change=5, random_state=seed
    )
    learner = SelfTrainingClassifier(mlp, threshold=_CONFIDENCE, max_iter=_ROUNDS)
    found: FloatArray = learner.fit(pixels, labels).predict_proba(pixels)
    return found


def label_spreading(pixels: Pixels, labels: IntArray, seed: int) -> FloatArray:
    """Labels that flow along a graph of nearest neighbors in the first principal components."""
    from sklearn.semi_supervised import LabelSpreading

    spreading = LabelSpreading(kernel="knn", n_neighbors=10, alpha=0.2, max_iter=100)
    found: FloatArray = spreading.fit(_components(pixels, seed), labels).label_distributions_
    return found


def _components(pixels: Pixels, seed: int) -> Pixels:
    from sklearn.decomposition import PCA

    found: Pixels = PCA(_DIRECTIONS, random_state=seed).fit_transform(pixels)
    return found


RIVALS: dict[str, Callable[[Pixels, IntArray, int], FloatArray]] = {
    "self_training_svm": self_trained_svm,
    "self_training_mlp": self_trained_mlp,
    "label_spreading_knn": label_spreading,
}
