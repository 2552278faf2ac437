"""Self-training with a tiny model that overfits its own guesses: does the bound still hold?

Ridge regression on more features than there are images, trained for three rounds on a few labels
and on its own guesses for the whole pool. It becomes certain of wrong guesses: at equal scores,
pool images are wrong more often than images that it was not trained on. Certify images are in the
pool like any other, so the bound holds. Tune images are not, and certifying with them fails.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from surelabel.guarantees.certification import CertifySample, certified_threshold
from surelabel.types import BoolArray, FloatArray, IntArray

_DIMENSIONS, _WAVES = 40, 600
_N, _N_TRAIN, _N_CHECKED = 700, 60, 200


def make_images(rng: np.random.Generator, *, unbalanced: bool) -> tuple[FloatArray, IntArray]:
    """Features (700, D) and labels of two overlapping classes, 10:1 when ``unbalanced``."""
    labels = (rng.random(_N) < (1 / 11 if unbalanced else 0.5)).astype(np.int64)
    points = rng.normal(0, 1, (_N, _DIMENSIONS))
    points[:, 0] += 2.0 * (2 * labels - 1)
    waves = np.cos(points @ rng.normal(0, 1, (_DIMENSIONS, _WAVES)) + rng.uniform(0, 7, _WAVES))
    return np.concatenate([points, np.ones((_N, 1)), waves / 10], axis=1), labels


def self_train(
    x: FloatArray, labels: IntArray, train: IntArray, pool: IntArray
) -> tuple[IntArray, FloatArray]:
    """Guess and score of every image after three rounds on ``train`` and guesses for ``pool``."""
    given = labels[train] * 2.0 - 1
    rows, target = train, given
    output = np.zeros(len(x))
    for _ in range(3):
        kernel = x[rows] @ x[rows].T + 0.3 * np.eye(len(rows))
        output = x @ (x[rows].T @ np.linalg.solve(kernel, target))
        rows, target = np.concatenate([train, pool]), np.append(given, np.sign(output[pool]))
    return (output > 0).astype(np.int64), -np.abs(output)


def threshold_for(
    scores: FloatArray, wrong: BoolArray, checked: BoolArray, max_error: float
) -> float:
    """The threshold that is certified with the checked images of a pool."""
    sample = CertifySample(scores, np.arange(len(scores)), checked, wrong)
    return certified_threshold(sample, max_error, 0.05).threshold


def one_run(
    rng: np.random.Generator, *, unbalanced: bool, with_tune: bool = False
) -> tuple[bool, bool]:
    """Whether a threshold was certified in a run, and whether its target was violated.

    ``with_tune`` certifies with images that were held out from the pool: against the rules.
    """
    max_error = 0.03 if unbalanced else 0.06
    x, labels = make_images(rng, unbalanced=unbalanced)
    order = rng.permutation(_N)
    train, drawn = order[:_N_TRAIN], order[_N_TRAIN : _N_TRAIN + _N_CHECKED]
    others = order[_N_TRAIN:]
    pool = others[_N_CHECKED:] if with_tune else others
    guess, scores = self_train(x, labels, train, pool)
    wrong = guess != labels
    checked = np.isin(others, drawn)
    threshold = threshold_for(scores[others], wrong[others], checked, max_error)
    accepted = scores[pool] <= threshold
    violated = wrong[pool][accepted].sum() > max_error * accepted.sum() + 1e-9
    return bool(accepted.any()), bool(violated)


def try_overfitting(
    n_runs: int, *, unbalanced: bool, seed: int, with_tune: bool = False
) -> dict[str, Any]:
    """Certified and violated targets in ``n_runs`` whole runs."""
    rng = np.random.default_rng(seed)
    runs = [one_run(rng, unbalanced=unbalanced, with_tune=with_tune) for _ in range(n_runs)]
    certified, violated = (sum(column) for column in zip(*runs, strict=True))
    shape = {"classes": "10:1" if unbalanced else "1:1", "certified_with_tune": with_tune}
    return {**shape, "runs": n_runs, "certified": certified, "violated": violated}


def try_balanced_labels(n_runs: int, *, seed: int, uniform: bool = False) -> int:
    """Violated targets when certify labels are balanced by class in a pool of 10:1.

    Guesses for the rare class are right, and those for the common class are wrong in 8 %, mostly
    uncertain ones; the target is 4 %. A balanced draw sees half of the error that there is.
    ``uniform`` draws as the rules say.
    """
    rng = np.random.default_rng(seed)
    violated = 0
    for _ in range(n_runs):
        rare = np.arange(4400) < 400
        scores = rng.random(4400)
        wrong = rng.random(4400) < np.where(rare, 0.0, 0.32 * scores**3)
        chosen = [rng.permutation(400)[:350], 400 + rng.permutation(4000)[:350]]
        rows = rng.permutation(4400)[:700] if uniform else np.concatenate(chosen)
        threshold = threshold_for(scores, wrong, np.isin(np.arange(4400), rows), 0.04)
        accepted = scores <= threshold
        violated += bool(wrong[accepted].sum() > 0.04 * accepted.sum() + 1e-9)
    return violated
