"""The verb predict: label other images with the nets of a finished run."""

from __future__ import annotations

from typing import Any

import pandas as pd

from surelabel.config.choices import Mode
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import catalog_like
from surelabel.dataset.pixels import open_pixels
from surelabel.errors import InputError, RunError
from surelabel.export.columns import drift_of, prediction_table
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE, POOL_TABLE
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import OnProgress, no_progress
from surelabel.workflows.certify import certified_thresholds, standing_certification
from surelabel.workflows.label import as_recorded
from surelabel.workflows.model_inputs import name_of, open_inputs


def predict(
    folder: RunFolder,
    images: Any,
    on_progress: OnProgress = no_progress,
    *,
    probabilities: bool = False,
) -> pd.DataFrame:
    """Labels with uncertainty for images that the run has not seen.

    ``label`` is empty where the run's own rule would not have accepted the guess; with
    ``probabilities`` there is a column ``p_CLASS`` for each class too. Files that cannot be read
    are in the table's ``attrs["skipped"]``, as (path, reason); figures that drift from those of
    the run's own images in ``attrs["drift"]``, by name.
    """
    from surelabel.engines.device import prepare
    from surelabel.engines.local import LocalLearner

    last = folder.last_round()
    if last is None:
        raise RunError(
            f"{folder.path} has no finished round yet: call surelabel resume {folder.path}."
        )
    if not last.weights():
        raise RunError(
            f"{folder.path} was made by adaptation and has no nets of its own: adapt these images "
            "too, or, if its labels were accepted, train nets on them with "
            f"surelabel resume {folder.path} --max-rounds 2."
        )
    last.verify()
    config = folder.config
    prepare(as_recorded(folder))
    cache = cache_folder(config.cache)
    catalog = catalog_like(folder.catalog, images, cache=cache, on_progress=on_progress)
    if not len(catalog):
        raise InputError(f"{name_of(images)} has no image that can be read.")
    inputs = open_inputs(config, catalog, open_pixels(catalog, cache), on_progress)
    learner = LocalLearner(config, inputs)
    learner.load(last.weights(), last.number)
    metrics = RoundMetrics.from_json(last.metrics)
    prediction = learner.predict(catalog.ids, on_progress)
    thresholds = certified_thresholds(standing_certification(folder), metrics.classes)
    usual = last.read_table(HELD_OUT_TABLE)
    table = prediction_table(catalog, prediction, metrics, config, thresholds, usual)
    if probabilities:
        names = [f"p_{name}" for name in metrics.classes]
        table = table.join(pd.DataFrame(prediction.probabilities, table.index, names))
    table.attrs["skipped"] = [(item.path, item.reason) for item in catalog.skipped]
    # In keep mode the pool's scores are of the rounds in which images were accepted; those of
    # cross-fitted labels are of single nets, and nothing is there to compare with.
    known = usual.iloc[:0] if metrics.cross_fit else usual
    if config.mode is Mode.RELABEL:
        known = last.read_table(POOL_TABLE)
    table.attrs["drift"] = drift_of(known, table)
    return table
