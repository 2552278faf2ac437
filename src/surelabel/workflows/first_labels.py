"""A run that begins without any label: people give the first ones to images drawn at random.

Being a random sample, these labels may be held out to set thresholds by, which answers to what a
run left may not. So they become labels of the catalog, as if they had come in a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import given_labels, unlabeled_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.errors import RunError
from surelabel.runs.answers import Answer, AnswerKind, Purpose
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.events import OnEvent, no_events
from surelabel.types import Ids, LabelSource, OnProgress, derive_seed, no_progress
from surelabel.workflows.model_inputs import decoding_of, settle_net

_KEPT = (AnswerKind.LABEL, AnswerKind.NONE)


def begin_unlabeled(
    images: Any,
    out: Path,
    config: Config,
    on_progress: OnProgress = no_progress,
    on_event: OnEvent = no_events,
) -> RunFolder:
    """The run at ``out`` on ``images``, made without labels if it is not there yet."""
    name = str(Path(images).resolve())
    if (out / "run.json").is_file():
        folder = RunFolder.open(out)
        if folder.about.get("images") != name:
            raise RunError(
                f"{out} holds a run on {folder.about.get('images')}: give another --out."
            )
        return folder
    RunFolder.check_free(out)
    config = settle_net(config, images, on_progress, on_event)
    catalog = unlabeled_catalog(
        images,
        **decoding_of(config),
        cache=cache_folder(config.cache),
        on_progress=on_progress,
    )
    about = {"images": name, "labels": "", "seed": config.seed}
    return RunFolder.create(out, config=config, catalog=catalog, about=about)


def lacks_labels(folder: RunFolder) -> bool:
    """Whether nobody's label has been adopted into the run yet."""
    return not folder.catalog.classes


def draw_order(catalog: Catalog, seed: int) -> Ids:
    """Every id in random order: who labels only the first has a random sample still."""
    ids = np.sort(catalog.ids)
    return ids[np.random.default_rng(derive_seed(seed, "draw")).permutation(len(ids))]


def adopt_first_labels(folder: RunFolder, *, but_keep: bool = False) -> int:
    """Make the first answers labels of the catalog; returns how many answers found their place.

    The caller holds the run's lock. Images that are none of the classes stay answers, and so do
    labels and corrections that came when the run had its own labels already; with ``but_keep``
    those labels are newer, and stay. ``TooFewLabelsError`` says what is missing.
    """
    config, catalog = folder.config, folder.catalog
    newest = folder.answers.last_seq()
    first = folder.answers.standing(newest, purpose=Purpose.FIRST)
    first = {i: a for i, a in first.items() if a.seq > catalog.first_upto and a.kind in _KEPT}
    labels: dict[str, str] = {}
    if lacks_labels(folder):
        known = set(catalog.ids.tolist())
        labels = {i: a.label for i, a in first.items() if a.label and i in known}
        catalog = given_labels(catalog, labels, seed=config.seed, tune_share=config.tune_share)
    late = _late(first, folder.answers.standing(), _given_names(catalog), but_keep=but_keep)
    for item_id, answer in late:
        folder.answers.add(item_id, answer.kind, answer.label, reviewer=answer.reviewer)
    if first:
        folder.replace_catalog(replace(catalog, first_upto=newest))
    return len(labels) + len(late)


def _given_names(catalog: Catalog) -> dict[str, str]:
    """The class of each image with a given label, by id; empty for none of the classes."""
    given = catalog.sources == LabelSource.GIVEN
    names = [catalog.classes[k] if k >= 0 else "" for k in catalog.labels[given].tolist()]
    return dict(zip(catalog.ids[given].tolist(), names, strict=True))


def _late(
    first: Mapping[str, Answer],
    reviewed: Mapping[str, Answer],
    given: Mapping[str, str],
    *,
    but_keep: bool,
) -> list[tuple[str, Answer]]:
    """The first answers that have to count as answers to what a run left.

    Never over a newer answer; over an older one always; over a given label unless it says the
    same, or is to be kept.
    """

    def is_late(item_id: str, answer: Answer) -> bool:
        if item_id in reviewed:
            return reviewed[item_id].seq < answer.seq
        return item_id not in given or not (but_keep or given[item_id] == answer.label)

    return [(item_id, answer) for item_id, answer in first.items() if is_late(item_id, answer)]
