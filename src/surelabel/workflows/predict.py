"""Label other images with the nets of a finished run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from surelabel.config.choices import Mode
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import catalog_like
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import open_pixels
from surelabel.errors import InputError, RunError
from surelabel.export.columns import drift_of, prediction_table
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE, POOL_TABLE, RoundFiles
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import BoolArray, OnProgress, no_progress
from surelabel.workflows.certify import certified_thresholds, standing_certification
from surelabel.workflows.label import as_recorded
from surelabel.workflows.model_inputs import name_of, open_inputs
from surelabel.workflows.problem import problem_of

if TYPE_CHECKING:
    from surelabel.dataset.sources import Images


def predict(
    folder: RunFolder,
    images: Images,
    on_progress: OnProgress = no_progress,
    *,
    probabilities: bool = False,
) -> pd.DataFrame:
    """Labels with uncertainties for images that are not part of the run.

    ``label`` is empty where the run's own rule would not accept the guess. With ``probabilities``
    there is also a column ``p_CLASS`` for each class. The table's ``attrs["skipped"]`` lists
    unreadable files as (path, reason); ``attrs["seen"]`` counts images that the run has labels by
    people of; ``attrs["drift"]`` holds the columns whose values clearly
    differ from those of the run's own pool. Images that the run learned from are not compared.
    """
    from surelabel.engines.device import prepare
    from surelabel.engines.engine import running_engine
    from surelabel.engines.ensemble import predict_as_round

    last = folder.last_round()
    if last is None:
        raise RunError(
            f"{folder.path} has no finished round yet: call surelabel resume {folder.path}."
        )
    if not last.weights():
        raise RunError(
            f"{folder.path} was made by adaptation and has no nets of its own. Adapt these images "
            "too; or, if its labels were accepted, train nets on them with "
            f"surelabel resume {folder.path} --max-rounds 2."
        )
    last.verify()
    config = folder.config
    prepare(as_recorded(folder))
    cache = cache_folder(config.cache)
    metrics = RoundMetrics.from_json(last.metrics)
    weights, number = last.weights(), last.number
    with running_engine(config) as engine:
        catalog = catalog_like(folder.catalog, images, cache=cache, on_progress=on_progress)
        if not len(catalog):
            raise InputError(f"{name_of(images)} has no image that can be read.")
        inputs = open_inputs(config, catalog, open_pixels(catalog, cache), on_progress)
        prediction = predict_as_round(
            weights, number, config, inputs, catalog.ids, on_progress, scorer=engine.scorer
        )
    thresholds = certified_thresholds(standing_certification(folder), metrics.classes)
    held_out = last.read_table(HELD_OUT_TABLE)
    table = prediction_table(catalog, prediction, metrics, config, thresholds, held_out)
    if probabilities:
        names = [f"p_{name}" for name in metrics.classes]
        table = table.join(pd.DataFrame(prediction.probabilities, table.index, names))
    table.attrs["skipped"] = [(item.path, item.reason) for item in catalog.skipped]
    seen = _was_labeled(folder, catalog)
    table.attrs["seen"] = int(seen.sum())
    table.attrs["drift"] = drift_of(_comparable(last, config, metrics), table[~seen])
    return table


def _was_labeled(folder: RunFolder, catalog: Catalog) -> BoolArray:
    """(N,) which images of ``catalog`` have labels in the run: nets are surer of those."""
    known, problem = folder.catalog, problem_of(folder)
    labeled = known.rows(np.concatenate([problem.human_ids, problem.tune_ids]))
    return np.isin(catalog.digests, known.digests[labeled])


def _comparable(last: RoundFiles, config: Config, metrics: RoundMetrics) -> pd.DataFrame:
    """The run's own images whose scores can be compared with new ones: same nets, same round.

    Not the pool in keep mode: its scores are from the rounds in which images were accepted. Not
    cross-fitted labels: their scores are from single nets.
    """
    if config.mode is Mode.RELABEL:
        return last.read_table(POOL_TABLE)
    held_out = last.read_table(HELD_OUT_TABLE)
    return held_out.iloc[:0] if metrics.cross_fit else held_out
