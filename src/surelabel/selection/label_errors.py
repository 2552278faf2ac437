"""Human labels that held-out predictions contradict with confidence."""

from __future__ import annotations

import numpy as np

from surelabel.types import FloatArray, IntArray


def suspicious_labels(probabilities: FloatArray, labels: IntArray, least: float = 0.9) -> IntArray:
    """Rows whose label is probably a slip, the surest first.

    ``probabilities`` (N, K) are of nets that did not train on the row: out of fold, or tune. A row
    is listed when another class has at least ``least``, and more than the images that people gave
    that class have on average (confident learning, Northcutt et al., 2021): a class that the net
    is never sure of raises no alarm.
    """
    guess = probabilities.argmax(axis=1)
    probability = probabilities.max(axis=1)
    usual = np.full(probabilities.shape[1], 1.0)
    for k in np.unique(labels):
        usual[k] = float(probabilities[labels == k, k].mean()) - 1e-9
    doubtful = (guess != labels) & (probability >= least) & (probability >= usual[guess])
    rows = np.flatnonzero(doubtful)
    chosen: IntArray = rows[np.argsort(-probability[rows], kind="stable")]
    return chosen
