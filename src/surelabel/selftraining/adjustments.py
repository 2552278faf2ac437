"""What happens to a round's predictions before they are judged: outliers, neighbors, scaling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from surelabel.config.settings import Config
from surelabel.files.mapped_arrays import slices
from surelabel.inference.predictions import from_parts
from surelabel.selection.neighbor_vote import NO_ADJUSTMENT, Adjustment, adjust, fit_adjustment
from surelabel.selection.out_of_distribution import (
    NO_THRESHOLD,
    OutlierThreshold,
    is_outlier,
    outlier_threshold,
)
from surelabel.selftraining.learner import Ensemble, Learner, NeighborIndex
from surelabel.selftraining.round_inputs import RoundInputs
from surelabel.types import Ids, IntArray, OnProgress, Prediction, Progress, derive_seed

_OUTLIER_PASSES = 3
"""How often the outliers known so far help to detect others. The third pass adds few."""
_MAX_OUTLIERS = 2000
"""Outliers that are kept: the cost of a distance grows with their number."""
_AT_ONCE = 100_000
"""Images that are adjusted at a time."""
MAX_INDEXED = 60_000
"""Pool images in the neighbor index, so that time is linear in the size of the pool."""


@dataclass(frozen=True)
class Predictions:
    """A round's predictions of held-out and of pool images, and what was done to them."""

    held_out: Prediction
    truth: IntArray
    """(N,) the held-out labels, in the order of the predictions."""
    pool: Prediction
    outliers: OutlierThreshold = NO_THRESHOLD
    adjustment: Adjustment = NO_ADJUSTMENT


def detect_outliers(
    predictions: Predictions,
    round_inputs: RoundInputs,
    ensemble: Ensemble,
    work_folder: Path,
    on_progress: OnProgress,
) -> Predictions:
    """Find images that look like none of the classes, then others that look more like those."""
    held_out, pool = predictions.held_out, predictions.pool
    if held_out.distance is None or pool.distance is None:
        return predictions
    near, far = held_out.distance, pool.distance
    problem = round_inputs.problem
    n_pool = len(problem.pool_ids)
    threshold = first = outlier_threshold(near, far, n_pool)
    for _ in range(_OUTLIER_PASSES):
        if not threshold.pool_has_outliers:
            break
        outliers = _evenly_spread(pool.ids[is_outlier(far, threshold.at)])
        distances = ensemble.distances_from(outliers, problem, pool.ids, work_folder, on_progress)
        if distances is None:
            break
        near, far = distances.held_out, distances.pool
        threshold = outlier_threshold(near, far, n_pool)
    return replace(
        predictions,
        held_out=replace(held_out, distance=near),
        pool=replace(pool, distance=far),
        outliers=OutlierThreshold(threshold.at, pool_has_outliers=first.pool_has_outliers),
    )


def adjust_by_neighbors(
    predictions: Predictions,
    round_inputs: RoundInputs,
    learner: Learner,
    config: Config,
    work_folder: Path,
    on_progress: OnProgress,
) -> Predictions:
    """Let similar images vote, and scale by held-out labels, as far as these labels speak for it.

    The index holds the pool with its predictions and the human labels. Cross-fitting has no
    vote: nets trained on a held-out image would vote through its neighbors.
    """
    held_out, pool, problem = predictions.held_out, predictions.pool, round_inputs.problem
    if not config.neighbor_vote or problem.cross_fit or not len(pool) or not len(held_out):
        return predictions
    drawn = np.random.default_rng(derive_seed(config.seed, "neighbor vote")).permutation(len(pool))
    indexed = np.sort(drawn[:MAX_INDEXED])
    index = learner.neighbor_index(
        np.concatenate([pool.ids[indexed], problem.human_ids]),
        np.concatenate(
            [pool.probabilities[indexed], np.eye(len(problem.classes))[problem.human_labels]]
        ),
    )
    if index is None:
        return predictions
    votes, units = index.votes(held_out.ids, on_progress), index.units(held_out.ids)
    counts = np.bincount(pool.guess, minlength=len(problem.classes))
    pool_shares = counts / len(pool) if config.matrix_scaling else None
    held_out, adjustment = fit_adjustment(held_out, votes, predictions.truth, units, pool_shares)
    if not adjustment.is_identity:
        parts = _adjusted_parts(pool, index, adjustment, on_progress)
        pool = from_parts(parts, len(pool), pool.ids)
        index.save(work_folder, adjustment)
    return replace(predictions, held_out=held_out, pool=pool, adjustment=adjustment)


def _adjusted_parts(
    pool: Prediction, index: NeighborIndex, adjustment: Adjustment, on_progress: OnProgress
) -> Iterator[Prediction]:
    """The pool's predictions, adjusted, in parts: several copies of all would fill the memory."""
    for rows in slices(len(pool), _AT_ONCE):

        def of_all(progress: Progress, before: int = rows.start) -> None:
            on_progress(Progress(progress.what, before + progress.done, len(pool)))

        part = pool.part(rows)
        yield adjust(part, index.votes(part.ids, of_all), adjustment)


def _evenly_spread(ids: Ids) -> Ids:
    """All, or ``_MAX_OUTLIERS`` of them."""
    places = np.linspace(0, len(ids) - 1, min(len(ids), _MAX_OUTLIERS)).astype(int)
    spread: Ids = ids[places]
    return spread
