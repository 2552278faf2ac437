"""A run that begins without labels: people give the first ones to images that are drawn.

First labels are a random sample, so some of them may be held out to set thresholds; later review
answers may not. So they become labels of the catalog, as if they had come in a table. Those of
images that were drawn by coverage are marked like the rows of such a table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from surelabel.config.choices import Strategy
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import add_given_labels, unlabeled_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.items import FOLDER_NAME
from surelabel.dataset.pixels import restore_pixels
from surelabel.dataset.sources import find_images
from surelabel.errors import RunError
from surelabel.runs.answers import Answer, AnswerKind, Purpose
from surelabel.runs.folder import RunFolder
from surelabel.selftraining.events import OnEvent, no_events
from surelabel.types import (
    Ids,
    JsonObject,
    LabelSource,
    OnProgress,
    Split,
    derive_seed,
    no_progress,
)
from surelabel.workflows.drawing import coverage_of
from surelabel.workflows.model_inputs import choose_net, decoding_of, open_inputs
from surelabel.workflows.near_duplicates import write_near_duplicates

if TYPE_CHECKING:
    import os

FIRST_DRAW = "first_draw"
"""Key in ``run.json``: how the first images were drawn, if not at random."""
ASKED = "asked"
"""Key in ``run.json``: the user's settings as TOML, before ``auto`` was replaced."""
FOLDER_REVIEWER = "folder name"
"""The reviewer of first labels that are names of sub-folders."""
_LEAST_BY_COVERAGE, _MOST_BY_COVERAGE = 20, 100
_FINAL = (AnswerKind.LABEL, AnswerKind.NONE)


def begin_unlabeled(
    images: str | os.PathLike[str],
    out: Path,
    config: Config,
    on_progress: OnProgress = no_progress,
    on_event: OnEvent = no_events,
    *,
    n_by_coverage: int = 0,
) -> RunFolder:
    """Open the run at ``out`` on ``images``; make it, without labels, if it does not exist.

    With ``n_by_coverage`` so many images are drawn by coverage, otherwise at random.
    """
    name = str(Path(images).resolve())
    if (out / "run.json").is_file():
        folder = RunFolder.open(out)
        if folder.about.get("images") != name:
            raise RunError(
                f"{out} holds a run on {folder.about.get('images')}: give another --out."
            )
        return folder
    RunFolder.check_free(out)
    asked = config.to_toml()
    config, source = choose_net(
        config, find_images(images, cache_folder(config.cache)), on_progress, on_event
    )
    catalog = unlabeled_catalog(
        source,
        decoding=decoding_of(config),
        cache=cache_folder(config.cache),
        on_progress=on_progress,
    )
    about: JsonObject = {"images": name, "labels": "", "seed": config.seed, ASKED: asked}
    if n_by_coverage:
        store = restore_pixels(catalog, cache=cache_folder(config.cache), images=images)
        drawn = coverage_of(catalog, store, config, n_by_coverage, on_progress=on_progress)
        about[FIRST_DRAW] = {"strategy": str(Strategy.COVERAGE), "ids": drawn.tolist()}
    return RunFolder.create(out, config=config, catalog=catalog, about=about)


def lacks_labels(folder: RunFolder) -> bool:
    """Whether the run has no human label yet."""
    return not folder.catalog.classes


def draw_order(folder: RunFolder) -> Ids:
    """All ids: those drawn by coverage in their order, then the others in random order.

    So the first few of the random ones are a random sample of the others, too.
    """
    ids = np.sort(folder.catalog.ids)
    seed = derive_seed(folder.config.seed, "draw")
    shuffled = ids[np.random.default_rng(seed).permutation(len(ids))]
    drawn = np.array(folder.about.get(FIRST_DRAW, {}).get("ids", []), dtype=np.str_)
    order: Ids = np.concatenate([drawn, shuffled[~np.isin(shuffled, drawn)]])
    return order


def n_by_coverage(n_images: int) -> int:
    """How many first images to draw by coverage: a tenth, 20 to 100, at most a quarter."""
    wanted = min(_MOST_BY_COVERAGE, max(_LEAST_BY_COVERAGE, n_images // 10))
    return min(wanted, n_images // 4)


def draw_first_images(folder: RunFolder, on_progress: OnProgress = no_progress) -> None:
    """Draw some images by coverage, to be asked first, unless that was done.

    The draw does not depend on answers, so images that were answered before it are a random sample
    of the rest all the same. Near duplicates are listed, and the features of all images are left
    in the cache for the training.
    """
    catalog, config = folder.catalog, folder.config
    if FIRST_DRAW in folder.about or not lacks_labels(folder):
        return
    cache = cache_folder(config.cache)
    store = restore_pixels(catalog, cache=cache, images=None, on_progress=on_progress)
    write_near_duplicates(folder, store, on_progress)
    open_inputs(config, catalog, store, on_progress)
    drawn = coverage_of(catalog, store, config, n_by_coverage(len(catalog)))
    folder.note({FIRST_DRAW: {"strategy": str(Strategy.COVERAGE), "ids": drawn.tolist()}})


def people_answers(folder: RunFolder) -> dict[str, Answer]:
    """The standing answers that are labels: review answers, and first answers not adopted yet.

    First answers may come while a round is trained, and wait for the next training. Until then
    they count like review answers; of both about one image, the newer one does.
    """
    answers = folder.answers.standing()
    for item_id, answer in waiting_first_answers(folder).items():
        if item_id not in answers or answers[item_id].seq < answer.seq:
            answers[item_id] = answer
    return answers


def waiting_first_answers(folder: RunFolder, upto: int | None = None) -> dict[str, Answer]:
    """First answers, by id, that are not labels of the catalog yet."""
    first, adopted = folder.answers.standing(upto, Purpose.FIRST), folder.catalog.first_upto
    return {i: a for i, a in first.items() if a.seq > adopted and a.kind in _FINAL}


def adopt_first_labels(folder: RunFolder, *, keep_given: bool = False) -> int:
    """Turn first answers into labels of the catalog; returns how many answers were used.

    The caller holds the run's lock. Answers to images without a label were given to a random draw,
    whenever they came, so they may be held out. "None of these" becomes a review answer, and so
    does a correction of a given label. With ``keep_given``, given labels win over those.
    ``TooFewLabelsError`` says what is missing.
    """
    catalog = folder.catalog
    newest = folder.answers.last_seq()
    first = waiting_first_answers(folder, newest)
    reviewed = folder.answers.standing()
    labels = _new_labels(catalog, first, reviewed)
    if labels or lacks_labels(folder):
        catalog = _with_first_labels(folder, labels, first)
    late = _late(first, reviewed, _given_names(catalog), keep_given=keep_given)
    for item_id, answer in late:
        folder.answers.add(item_id, answer.kind, answer.label, reviewer=answer.reviewer)
    if first:
        if catalog.digest != folder.catalog.digest:
            folder.discard_partial()
        folder.replace_catalog(replace(catalog, first_upto=newest))
    return len(labels) + len(late)


def settle_first_answers(folder: RunFolder) -> None:
    """Adopt first answers that wait for the next training, before images are drawn to certify."""
    if not lacks_labels(folder) and waiting_first_answers(folder):
        with folder.lock():
            adopt_first_labels(folder)


def _new_labels(
    catalog: Catalog, first: Mapping[str, Answer], reviewed: Mapping[str, Answer]
) -> dict[str, str]:
    """The class of each image in ``first`` that has no label of a person yet, by id."""
    free = (catalog.sources != LabelSource.GIVEN) & (catalog.splits != Split.CERTIFY)
    known = set(catalog.ids[free].tolist()) - set(reviewed)
    return {i: a.label for i, a in first.items() if a.label and i in known}


def _with_first_labels(
    folder: RunFolder, labels: Mapping[str, str], answers: Mapping[str, Answer]
) -> Catalog:
    """The catalog with ``labels``; those of images that were not drawn at random are marked."""
    config, draw = folder.config, folder.about.get(FIRST_DRAW)
    drawn = dict.fromkeys(draw["ids"], draw["strategy"]) if draw else {}
    sorted_before = [i for i in labels if answers[i].reviewer == FOLDER_REVIEWER]
    drawn.update(dict.fromkeys(sorted_before, FOLDER_NAME))
    return add_given_labels(
        folder.catalog, labels, seed=config.seed, tune_share=config.tune_share, drawn=drawn
    )


def _given_names(catalog: Catalog) -> dict[str, str]:
    """The class name of each image with a given label, by id; empty for none of the classes."""
    given = catalog.sources == LabelSource.GIVEN
    names = [catalog.classes[k] if k >= 0 else "" for k in catalog.labels[given].tolist()]
    return dict(zip(catalog.ids[given].tolist(), names, strict=True))


def _late(
    first: Mapping[str, Answer],
    reviewed: Mapping[str, Answer],
    given: Mapping[str, str],
    *,
    keep_given: bool,
) -> list[tuple[str, Answer]]:
    """The first answers that have to become review answers, with their ids.

    A first answer replaces an older review answer, never a newer one. It replaces a given label,
    unless that is the same or ``keep_given`` is set.
    """

    def is_late(item_id: str, answer: Answer) -> bool:
        if item_id in reviewed:
            return reviewed[item_id].seq < answer.seq
        return item_id not in given or not (keep_given or given[item_id] == answer.label)

    return [(item_id, answer) for item_id, answer in first.items() if is_late(item_id, answer)]
