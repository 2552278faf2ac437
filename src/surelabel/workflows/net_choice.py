"""How ``auto`` becomes a net: by the size of the images, then by a trial on the labels.

A run that begins with labels is decided before its images are decoded. One that begins without any
is decided when people have given the first labels, before these are trained on.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from surelabel.config.choices import Net
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.items import LabelRow, Source
from surelabel.dataset.pixels import median_side, with_headers
from surelabel.dataset.sources import find_images
from surelabel.errors import SurelabelError
from surelabel.messages.run import trial_sentence
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.events import Advice, OnEvent, no_events
from surelabel.types import OnProgress, no_progress
from surelabel.workflows.first_labels import ASKED, lacks_labels, waiting_first_answers
from surelabel.workflows.model_inputs import decoding_of
from surelabel.workflows.net_trial import Trial, try_ways, ways_for
from surelabel.workflows.summary import TRIAL

if TYPE_CHECKING:
    from surelabel.dataset.sources import Images


def choose_by_trial(
    asked: Config,
    settled: Config,
    source: Source,
    rows: Mapping[str, LabelRow],
    on_progress: OnProgress = no_progress,
    on_event: OnEvent = no_events,
) -> tuple[Config, Trial | None]:
    """The settings of the way that predicts unseen labels best, where a trial may decide.

    ``asked`` are the user's settings, ``settled`` what follows from the size of the images; the
    headers of ``source`` were read.
    """
    ways = ways_for(asked, settled, median_side(source))
    trial = try_ways(ways, source, rows, on_progress, on_event) if ways else None
    if trial is None:
        return settled, None
    on_event(Advice(trial_sentence(trial)))
    return ways[trial.chosen], trial


def choose_by_first_labels(
    folder: RunFolder,
    images: Images | None,
    on_progress: OnProgress = no_progress,
    on_event: OnEvent = no_events,
) -> None:
    """Decide for a run whose first labels are about to be adopted; others stay as they are.

    The caller holds the run's lock. Where the images cannot be found, nothing is tried.
    """
    if ASKED not in folder.about or TRIAL in folder.about or not lacks_labels(folder):
        return
    asked = Config.from_mapping(tomllib.loads(folder.about[ASKED]))
    if asked.net != Net.AUTO:
        return
    catalog, cache = folder.catalog, cache_folder(asked.cache)
    path = dict(zip(catalog.ids.tolist(), catalog.paths.tolist(), strict=True))
    answers = waiting_first_answers(folder)
    rows = {
        path[i]: LabelRow(path[i], "the review page", answer.label)
        for i, answer in answers.items()
        if answer.label and i in path
    }
    try:
        found = find_images(images if images is not None else folder.about["images"], cache)
        source = with_headers(found, cache, on_progress)
    except SurelabelError:
        return
    config, trial = choose_by_trial(asked, folder.config, source, rows, on_progress, on_event)
    if trial is None:
        return
    if trial.chosen is not trial.usual:
        seen = decoding_of(config)
        folder.replace_config(config)
        folder.replace_catalog(
            replace(catalog, size=seen.size, channels=seen.channels, resize=seen.resize)
        )
    folder.note({TRIAL: trial.to_json()})
