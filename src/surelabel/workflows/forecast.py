"""Forecast the coverage that more certify labels would give, from a run's held-out predictions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from surelabel.errors import OptionError, RunError
from surelabel.guarantees.advice import DEFAULT_ERROR
from surelabel.guarantees.forecast import Outlook, accepted_test, dataset_test, forecast
from surelabel.guarantees.targets import parse_targets
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE
from surelabel.types import derive_seed
from surelabel.workflows.certify import n_settled
from surelabel.workflows.problem import problem_of

SIZES = (100, 200, 400, 800, 1600, 3200, 6400)
AUTO = "auto"
_DEFAULT_SIZE = 300
_MOST_REFUSED = 0.5


def sample_size(folder: RunFolder, wanted: str) -> int:
    """The number of images to draw: as ``wanted`` says, or for ``auto`` the best one.

    The best has the fewest answers in all by the forecast: to certify, and to label what is left.
    """
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    if wanted != AUTO:
        raise OptionError(f"--certify is '{wanted}': it is a number of images, or {AUTO}.")
    try:
        _, outlooks = forecast_of(folder)
    except RunError:
        return _DEFAULT_SIZE
    return best_outlook(outlooks).n_certify


def best_outlook(outlooks: Sequence[Outlook]) -> Outlook:
    """The size with the fewest answers in all: to certify, and to label what is left."""
    passing = [outlook for outlook in outlooks if outlook.refused < _MOST_REFUSED]
    return min(passing or outlooks[-1:], key=lambda outlook: outlook.n_surest + outlook.n_left)


def forecast_of(folder: RunFolder, max_error: float | None = None) -> tuple[float, list[Outlook]]:
    """The largest error of the forecast, and an outlook for each number of certify labels.

    The error is that of the finished dataset, unless the run has a target for accepted labels
    only. Without ``max_error`` it is the run's own target, or 2 %. The forecast uses held-out
    labels only and reads no certify label.
    """
    last = folder.last_round()
    if last is None:
        raise RunError(
            f"{folder.path} has no finished round yet: call surelabel resume {folder.path}."
        )
    config = folder.config
    targets = parse_targets(config.max_error)
    for_accepted = targets.dataset is None and (targets.accepted or targets.each)
    error = max_error or targets.dataset or for_accepted or DEFAULT_ERROR
    if not 0 < error < 1:
        raise OptionError(f"max_error is {error:g}; it has to be between 0 and 1.")
    delta = (1 - config.confidence) * config.alpha_share
    pool_ids = problem_of(folder).pool_ids
    settled = n_settled(folder, pool_ids) / max(1, len(pool_ids))
    held_out = last.read_table(HELD_OUT_TABLE)
    scores = held_out["score"].to_numpy(dtype=float)
    outlooks = forecast(
        np.where(held_out["outlier"].to_numpy(dtype=bool), np.inf, scores),
        held_out["correct"].to_numpy(dtype=bool),
        n_pool=int(last.metrics["n_pool"]),
        sizes=SIZES,
        certify=accepted_test(error, delta)
        if for_accepted
        else dataset_test(error, delta, settled),
        rng=np.random.default_rng(derive_seed(config.seed, "forecast")),
    )
    if not outlooks:
        raise RunError(
            f"{folder.path} has {len(held_out)} held-out labels, too few for a forecast, or a pool "
            f"of fewer than {SIZES[0]} images."
        )
    return error, outlooks
