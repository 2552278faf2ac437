"""The choice among ways by evidence: labels that a fit has not seen choose one way or a mixture.

Each way predicts each label from the labels of the other folds; of its settings the one with the
lowest loss counts. A mixture multiplies the ways' probabilities, each to the power of its weight,
with weights that are not negative (a log-linear pool): a convex problem, of which a single way at
its best temperature is a special case. Mixture and single ways are compared by weights from the
other folds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from surelabel.adaptation.ways import (
    LabelPropagation,
    OldPosterior,
    OwnStatistics,
    Predict,
    Together,
    TwoDatasets,
    Way,
)
from surelabel.types import FloatArray, IntArray

N_FOLDS = 5
MIXTURE = "mixture"
_WITHOUT_EVIDENCE = tuple(
    way.name for way in (OwnStatistics(), Together(), OldPosterior(), LabelPropagation())
)
"""With one label per class their mean is better than old and new labels together, the best one."""
_MOST_LONELY = 0.5
"""Share of labels that are the only one of their class, above which nothing is chosen."""


@dataclass(frozen=True)
class Candidate:
    """A way with the setting that was chosen for it."""

    name: str
    held_out: FloatArray
    """(n, K) log-probabilities of the labeled images, each without its own label."""
    predict: Predict
    """Fitted to all labels."""

    def loss(self, labels: IntArray) -> float:
        """Mean -ln p of the labels (n,)."""
        return mean_loss(self.held_out, labels)


@dataclass(frozen=True)
class Choice:
    """The way or mixture that labels the new images."""

    name: str
    candidates: Sequence[Candidate]
    weights: FloatArray
    """(M,) one for each candidate; 0 where it is not used."""
    losses: dict[str, float]
    """Mean -ln p of labels that neither the ways nor the weights have seen, by name."""
    by_rule: bool = False
    """Whether there was no evidence to choose by."""

    def predict(self, rows: IntArray) -> FloatArray:
        """(m,) new images -> (m, K) log-probabilities."""
        used = [(c, w) for c, w in zip(self.candidates, self.weights, strict=True) if w > 0]
        logs: FloatArray = sum(w * c.predict(rows) for c, w in used)
        return np.asarray(log_softmax(logs, axis=1))


def cross_fit(
    way: Way,
    data_of: Callable[[int], TwoDatasets],
    rows: IntArray,
    labels: IntArray,
    folds: IntArray,
) -> Candidate:
    """The way with its best setting.

    ``rows``, ``labels`` and ``folds`` (n,) are the labeled new images. ``data_of`` gives what may
    be used to predict a fold; -1 stands for no fold, to label the new images.
    """
    best, chosen, held_out = np.inf, way.settings[0], np.empty((0, 0))
    for setting in way.settings:
        logs = np.empty((len(rows), data_of(-1).n_classes))
        for fold in np.unique(folds).tolist():
            out = folds == fold
            logs[out] = way.fit(data_of(fold), rows[~out], labels[~out], setting)(rows[out])
        loss = mean_loss(logs, labels)
        if loss < best:
            best, chosen, held_out = loss, setting, logs
    return Candidate(way.name, held_out, way.fit(data_of(-1), rows, labels, chosen))


def choose(candidates: Sequence[Candidate], labels: IntArray, folds: IntArray) -> Choice:
    """The mixture, or the single way that predicts unseen labels better than the mixture does.

    Without the only label of its class a way cannot know the class. Where most labels are such,
    there is no evidence to choose by, and the ways that adapt the old dataset count the same.
    """
    lonely = np.bincount(labels)[labels] < 2
    if lonely.mean() > _MOST_LONELY:
        counts = np.array([float(each.name in _WITHOUT_EVIDENCE) for each in candidates])
        counts = counts if counts.any() else np.ones(len(candidates))
        weights: FloatArray = counts / counts.sum()
        losses = {candidate.name: candidate.loss(labels) for candidate in candidates}
        return Choice(MIXTURE, candidates, weights, losses, by_rule=True)
    single = [[i] for i in range(len(candidates))]
    together = list(range(len(candidates)))
    losses = {
        **{candidates[i].name: _held_out_loss(candidates, [i], labels, folds) for [i] in single},
        MIXTURE: _held_out_loss(candidates, together, labels, folds),
    }
    name = min(losses, key=lambda each: losses[each])
    used = together if name == MIXTURE else [i for i in together if candidates[i].name == name]
    weights = np.zeros(len(candidates), dtype=np.float64)
    weights[used] = mixture_weights([candidates[i].held_out for i in used], labels)
    return Choice(name, candidates, weights, losses)


def mixture_weights(logs: Sequence[FloatArray], labels: IntArray) -> FloatArray:
    """(M,) non-negative powers that make labels (n,) most likely under M times (n, K).

    A standard normal prior around equal weights that sum to 1 decides where labels do not.
    """
    values = np.stack(logs)
    at, equal = np.arange(len(labels)), 1 / len(logs)
    chosen = values[:, at, labels].sum(axis=1)

    def loss_and_gradient(weights: FloatArray) -> tuple[float, FloatArray]:
        log_p = log_softmax(np.tensordot(weights, values, axes=1), axis=1)
        away = weights - equal
        expected = np.einsum("nk,mnk->m", np.exp(log_p), values)
        return float(-log_p[at, labels].sum() + away @ away / 2), expected - chosen + away

    start = np.full(len(logs), equal)
    bounds = [(0.0, None)] * len(logs)
    found = minimize(loss_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds)
    weights: FloatArray = np.where(found.x < 1e-3, 0.0, found.x)
    return weights if weights.any() else start


def mean_loss(logs: FloatArray, labels: IntArray) -> float:
    """Mean -ln p of labels (n,) under log-probabilities (n, K)."""
    return float(-logs[np.arange(len(labels)), labels].mean())


def _held_out_loss(
    candidates: Sequence[Candidate], used: Sequence[int], labels: IntArray, folds: IntArray
) -> float:
    """Of the candidates ``used``, with weights that other folds chose."""
    total = 0.0
    for fold in np.unique(folds):
        out = folds == fold
        weights = mixture_weights([candidates[i].held_out[~out] for i in used], labels[~out])
        values = np.stack([candidates[i].held_out[out] for i in used])
        logs = log_softmax(np.tensordot(weights, values, axes=1), axis=1)
        total += mean_loss(logs, labels[out]) * int(out.sum())
    return total / max(1, len(labels))
