"""Several people's labels: how far they agree, what they settle on, and how wrong they must be.

``ratings`` (N, A) are the class numbers that A people gave to N images, -1 for none. Only images
with two labels or more say anything about agreement. All measures are 1 for perfect agreement and
0 for what chance would give; NaN where they are not defined, as with a single class.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from surelabel.types import UNLABELED, FloatArray, IntArray

_PRIOR = (4.0, 1.0)
"""Of a person's accuracy: as if 4 labels had been right and 1 wrong."""
_ROUNDS = 20


@dataclass(frozen=True)
class Agreement:
    """What labels by several people show; None stands for a measure that is not defined."""

    n_images: int
    """Images with two labels or more."""
    n_labels: int
    """The labels of these images."""
    n_people: int
    n_disputed: int
    """Images whose labels are not all the same."""
    cohen: float | None
    """Cohen's kappa, mean over pairs of people, by the number of images they share."""
    fleiss: float | None
    """Fleiss' kappa."""
    alpha: float | None
    """Krippendorff's alpha for nominal data."""
    wrong_at_least: float | None
    """Share of the labels that must be wrong, whatever the truth is; see ``least_error``."""


def agreement(ratings: IntArray, n_classes: int) -> Agreement:
    """How far people agree on the images (N, A) that several of them labeled."""
    several = ratings[(ratings != UNLABELED).sum(axis=1) >= 2]
    counts = class_counts(several, n_classes)
    return Agreement(
        n_images=len(several),
        n_labels=int(counts.sum()),
        n_people=int((several != UNLABELED).any(axis=0).sum()),
        n_disputed=int(((counts > 0).sum(axis=1) > 1).sum()),
        cohen=defined(mean_cohen_kappa(several)),
        fleiss=defined(fleiss_kappa(counts)),
        alpha=defined(krippendorff_alpha(counts)),
        wrong_at_least=defined(least_error(counts)),
    )


def class_counts(ratings: IntArray, n_classes: int) -> IntArray:
    """(N, K) how many people gave each image each class."""
    counts = np.zeros((len(ratings), n_classes), dtype=np.int64)
    rows, people = np.nonzero(ratings != UNLABELED)
    np.add.at(counts, (rows, ratings[rows, people]), 1)
    return counts


def cohen_kappa(first: IntArray, second: IntArray) -> float:
    """Cohen's kappa of two people's labels (N,): (p_o - p_e) / (1 - p_e)."""
    n_classes = int(max(first.max(initial=0), second.max(initial=0))) + 1
    if not len(first):
        return float("nan")
    table = np.zeros((n_classes, n_classes))
    np.add.at(table, (first, second), 1 / len(first))
    return _beyond_chance(float(np.trace(table)), float(table.sum(axis=0) @ table.sum(axis=1)))


def mean_cohen_kappa(ratings: IntArray) -> float:
    """Mean of Cohen's kappa over pairs of people, weighted by the images that both labeled."""
    kappas, weights = [], []
    for a, b in itertools.combinations(range(ratings.shape[1]), 2):
        both = (ratings[:, a] != UNLABELED) & (ratings[:, b] != UNLABELED)
        kappa = cohen_kappa(ratings[both, a], ratings[both, b])
        if not np.isnan(kappa):
            kappas.append(kappa)
            weights.append(int(both.sum()))
    return float(np.average(kappas, weights=weights)) if kappas else float("nan")


def fleiss_kappa(counts: IntArray) -> float:
    """Fleiss' kappa of counts (N, K); images may have different numbers of labels, two or more."""
    n = counts.sum(axis=1)
    if not len(n):
        return float("nan")
    observed = ((counts * (counts - 1)).sum(axis=1) / (n * (n - 1))).mean()
    shares = counts.sum(axis=0) / n.sum()
    return _beyond_chance(float(observed), float(shares @ shares))


def krippendorff_alpha(counts: IntArray) -> float:
    """Krippendorff's alpha of counts (N, K) for nominal data: 1 - D_o / D_e."""
    n = counts.sum(axis=1)
    totals = counts.sum(axis=0)
    pairs = totals.sum() ** 2 - (totals**2).sum()
    if not pairs:
        return float("nan")
    differing = ((n**2 - (counts**2).sum(axis=1)) / (n - 1)).sum()
    return float(1 - (totals.sum() - 1) * differing / pairs)


def class_alphas(ratings: IntArray, n_classes: int) -> FloatArray:
    """(K,) Krippendorff's alpha of each class against all others together."""
    several = ratings[(ratings != UNLABELED).sum(axis=1) >= 2]
    counts = class_counts(several, n_classes)
    n = counts.sum(axis=1)
    alphas = [krippendorff_alpha(np.stack([c, n - c], axis=1)) for c in counts.T]
    return np.array(alphas, dtype=np.float64)


def least_error(counts: IntArray) -> float:
    """The share of labels that must be wrong: of different labels of an image, one can be right."""
    total = counts.sum()
    return float((total - counts.max(axis=1).sum()) / total) if total else float("nan")


def weighted_consensus(ratings: IntArray, probabilities: FloatArray) -> tuple[IntArray, FloatArray]:
    """(N,) the most probable class of each image, and its probability.

    A model's ``probabilities`` (N, K) are what is believed before; rows of 1 / K say nothing. Each
    person is right with a probability of their own and otherwise gives any other class alike; it
    is estimated together with the classes (Dawid and Skene's method with one number per person).
    The model must not have been trained on these labels.
    """
    n_classes = probabilities.shape[1]
    given = ratings != UNLABELED
    votes = given[:, :, None] & (ratings[:, :, None] == np.arange(n_classes))
    accuracy = np.full(ratings.shape[1], _PRIOR[0] / sum(_PRIOR))
    before = np.log(np.clip(probabilities, 1e-6, None))
    for _ in range(_ROUNDS):
        right = np.log(accuracy)[None, :, None]
        wrong = np.log((1 - accuracy) / max(1, n_classes - 1))[None, :, None]
        evidence = np.where(votes, right, wrong) * given[:, :, None]
        logits = before + evidence.sum(axis=1)
        belief = np.exp(logits - logits.max(axis=1, keepdims=True))
        belief /= belief.sum(axis=1, keepdims=True)
        agreed = (votes * belief[:, None, :]).sum(axis=(0, 2))
        accuracy = (agreed + _PRIOR[0]) / (given.sum(axis=0) + sum(_PRIOR))
    return belief.argmax(axis=1).astype(np.int64), belief.max(axis=1)


def defined(value: float) -> float | None:
    """``value``, or None for NaN."""
    return None if np.isnan(value) else value


def _beyond_chance(observed: float, expected: float) -> float:
    return (observed - expected) / (1 - expected) if expected < 1 else float("nan")
