"""What one net is trained on, out of what a round learns from."""

from __future__ import annotations

import numpy as np
import torch

from surelabel.config import Config
from surelabel.engines.features import Features
from surelabel.engines.images import Images
from surelabel.learn import TrainingSet
from surelabel.selftrain import Lesson
from surelabel.types import UNLABELLED, BoolArray, IntArray


def training_set(
    config: Config,
    images: Images | Features,
    lesson: Lesson,
    taught: BoolArray,
    machine_labels: IntArray,
) -> TrainingSet:
    """The human labels that are ``taught``, (N,), and the ``machine_labels`` that are some, (M,).

    With cross-fitting the other human labels are held out. With consistency the rest of the pool
    is looked at without labels.
    """
    problem, rows = lesson.problem, images.rows
    human_ids, human_labels = problem.human_ids[taught], problem.human_labels[taught]
    tune_ids, tune_labels = problem.tune_ids, problem.tune_labels
    if problem.cross_fit:
        tune_ids, tune_labels = problem.human_ids[~taught], problem.human_labels[~taught]
    there = machine_labels != UNLABELLED
    ids, labels = lesson.machine_ids[there], machine_labels[there]
    weights = lesson.machine_weights[there]
    if config.consistency:
        known = np.concatenate([ids, lesson.strangers])
        rest = problem.pool_ids[~np.isin(problem.pool_ids, known)]
        ids = np.concatenate([ids, rest])
        labels = np.concatenate([labels, np.full(len(rest), UNLABELLED)])
        weights = np.concatenate([weights, np.zeros(len(rest))])
    return TrainingSet(
        pixels=images.pixels,
        human_rows=rows(human_ids),
        human_labels=torch.from_numpy(human_labels),
        machine_rows=rows(ids),
        machine_labels=torch.from_numpy(labels),
        machine_weights=torch.from_numpy(weights).float(),
        tune_rows=rows(tune_ids),
        tune_labels=torch.from_numpy(tune_labels),
        views=images.views if isinstance(images, Features) else None,
    )
