"""A run that begins without any label: people give the first ones to images drawn at random.

Being a random sample, these labels may be held out to set thresholds by, which answers to what a
run left may not. So they become labels of the catalog, as if they had come in a table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from surelabel.catalog import Catalog, cache_folder, given_labels, unlabelled_catalog
from surelabel.config import Config
from surelabel.errors import RunError
from surelabel.inputs import decoding_of, settle_net
from surelabel.runs import AnswerKind, Purpose, RunFolder
from surelabel.types import Ids, OnProgress, derive_seed, no_progress


def begin_unlabelled(
    images: Any, out: Path, config: Config, on_progress: OnProgress = no_progress
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
    config = settle_net(config, images, on_progress)
    catalog = unlabelled_catalog(
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


def adopt_first_labels(folder: RunFolder) -> int:
    """Make the first answers labels of the catalog; returns how many.

    The caller holds the run's lock. Nothing happens in a run that has labels. Images that are
    none of the classes stay answers. ``TooFewLabelsError`` says what is missing.
    """
    if not lacks_labels(folder):
        return 0
    config, catalog = folder.config, folder.catalog
    first = folder.answers.standing(purpose=Purpose.FIRST)
    known = set(catalog.ids.tolist())
    labels = {i: a.label or "" for i, a in first.items() if a.kind is AnswerKind.LABEL}
    labels = {i: label for i, label in labels.items() if i in known}
    labelled = given_labels(catalog, labels, seed=config.seed, tune_share=config.tune_share)
    reviewed = folder.answers.standing()
    for item_id, answer in first.items():
        if answer.kind is AnswerKind.NONE and item_id not in reviewed:
            folder.answers.add(item_id, AnswerKind.NONE, reviewer=answer.reviewer)
    folder.replace_catalog(labelled)
    return len(labels)
