"""The verbs: label, resume, add. Each puts the rooms together and decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.duplicates import contradictions
from surelabel.dataset.extend import Added, extend_catalog
from surelabel.dataset.pixels import moved_to, restore_pixels
from surelabel.dataset.sampling import note_draw
from surelabel.errors import InputError, LabelsError
from surelabel.export.columns import build_annotations
from surelabel.messages.run import contradiction_sentence
from surelabel.runs.answers import AnswerKind
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE, POOL_TABLE, PartialRound, RoundFiles
from surelabel.selftraining.events import Advice, OnEvent, no_events
from surelabel.selftraining.learner import Problem
from surelabel.selftraining.loop import self_train
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.round import RoundOutcome
from surelabel.types import NONE_TEXT, OnProgress, Split, StopReason, no_progress
from surelabel.workflows.certify import (
    answers_of_new_classes,
    apply_certification,
    certify_run,
    standing_certification,
)
from surelabel.workflows.first_labels import adopt_first_labels
from surelabel.workflows.model_inputs import decoding_of, name_of, open_inputs, settle_net
from surelabel.workflows.near_duplicates import list_near_copies
from surelabel.workflows.problem import build_problem, said_otherwise


@dataclass(frozen=True)
class Listeners:
    """Who hears of reading images and of rounds."""

    on_progress: OnProgress = no_progress
    on_event: OnEvent = no_events


SILENT = Listeners()


class FolderStore:
    """Finished rounds in a run folder, as the runner wants them."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._partial: PartialRound | None = None

    def history(self) -> Sequence[RoundMetrics]:
        """Metrics of all finished rounds."""
        return [RoundMetrics.from_json(r.metrics) for r in self.folder.finished_rounds()]

    def last_pool(self) -> pd.DataFrame | None:
        """The pool table of the last round."""
        last = self.folder.last_round()
        return last.read_table(POOL_TABLE) if last else None

    def last_folder(self) -> Path | None:
        """Where the last round is."""
        last = self.folder.last_round()
        return last.path if last else None

    def begin(self, number: int) -> Path:
        """The folder of the round under way."""
        self._partial = self.folder.begin_round(number)
        return self._partial.path

    def commit(self, outcome: RoundOutcome) -> None:
        """Write the tables and let the round appear; then renew the result."""
        assert self._partial is not None, "a round is committed after it was begun"
        self._partial.write_table(POOL_TABLE, outcome.pool)
        self._partial.write_table(HELD_OUT_TABLE, outcome.held_out)
        self._partial.write_json("metrics.json", outcome.metrics.to_json())
        self.folder.commit_round(self._partial)
        write_result(self.folder)


def start(
    images: Any, labels: Any, out: Path, config: Config, listeners: Listeners = SILENT
) -> RunFolder:
    """Read the images, make the run folder and train to the end."""
    from surelabel.engines.device import prepare
    from surelabel.guarantees.targets import families, parse_targets
    from surelabel.selection.thresholds import parse_rule

    parse_rule(config.accept)
    targets = parse_targets(config.max_error)
    RunFolder.check_free(out)
    machine = prepare(config)
    config = settle_net(config, images, listeners.on_progress, listeners.on_event)
    catalog = build_catalog(
        images,
        labels,
        seed=config.seed,
        tune_share=config.tune_share,
        certify_share=config.certify_share if config.labels_are_random else 0.0,
        **decoding_of(config),
        cache=cache_folder(config.cache),
        on_progress=listeners.on_progress,
    )
    _refuse_nothing_to_label(catalog)
    torn = contradictions(catalog)
    if torn:
        listeners.on_event(Advice(contradiction_sentence(catalog, torn)))
    families(targets, catalog.classes)
    source = {"images": name_of(images), "labels": name_of(labels)}
    folder = RunFolder.create(
        out, config=config, catalog=catalog, about={**machine, **source, "seed": config.seed}
    )
    train(folder, listeners)
    return folder


def train(
    folder: RunFolder,
    listeners: Listeners = SILENT,
    *,
    images: Any = None,
    max_rounds: int | None = None,
    upto: int | None = None,
) -> StopReason:
    """Go on from where the run stands until a stop rule holds.

    ``images`` says where the images are now, should they have moved; ``max_rounds`` is a new
    limit for the run. Answers after number ``upto`` wait for the next call: people who go on
    answering do not keep the training from ending.
    """
    from surelabel.engines.device import prepare
    from surelabel.engines.local import LocalLearner

    with folder.lock():
        if max_rounds is not None:
            folder.replace_config(folder.config.replace(max_rounds=max_rounds))
        last = folder.last_round()
        if last is not None:
            last.verify()
        if adopt_first_labels(folder) and upto is not None:
            upto = folder.answers.last_seq()  # some of them are answers now
        config, cache = folder.config, cache_folder(folder.config.cache)
        if images is not None:
            on_progress = listeners.on_progress
            folder.replace_catalog(moved_to(folder.catalog, images, cache, on_progress))
        catalog = folder.catalog
        machine = prepare(as_recorded(folder))
        if "threads" not in folder.about:
            folder.note(machine)
        store = restore_pixels(
            catalog,
            cache=cache,
            images=images if images is not None else _source_of_arrays(folder),
            on_progress=listeners.on_progress,
        )
        list_near_copies(folder, store, listeners.on_progress)
        inputs = open_inputs(config, catalog, store, listeners.on_progress)
        learner = LocalLearner(config, inputs)

        def problem(known: int | None) -> Problem:
            return problem_of(folder, upto if known is None else known)

        reason = self_train(problem, learner, FolderStore(folder), config, listeners.on_event)
        certify_run(folder, problem_of(folder).pool_ids)
        write_result(folder)
        return reason


def as_recorded(folder: RunFolder) -> Config:
    """The settings with the thread count that the run began with: results depend on it."""
    threads = folder.config.threads or int(folder.about.get("threads", 0))
    return folder.config.replace(threads=threads)


def problem_of(
    folder: RunFolder, upto: int | None = None, *, catalog: Catalog | None = None
) -> Problem:
    """Catalog and answers as they stand, or as they stood after answer ``upto``.

    ``catalog`` is one that will take the place of the run's.
    """
    answers = folder.answers
    newest = answers.last_seq() if upto is None else upto
    return build_problem(
        catalog if catalog is not None else folder.catalog, answers.standing(newest), newest
    )


def write_result(folder: RunFolder) -> None:
    """Renew ``annotations.parquet`` from catalog, answers and the last round."""
    folder.write_annotations(annotations_of(folder))


def annotations_of(folder: RunFolder) -> pd.DataFrame:
    """The result as it follows from catalog, answers and the last finished round."""
    last: RoundFiles | None = folder.last_round()
    classes = RoundMetrics.from_json(last.metrics).classes if last else folder.catalog.classes
    pool = last.read_table(POOL_TABLE) if last else None
    if pool is not None:
        pool = apply_certification(pool, standing_certification(folder), classes)
    held_out = last.read_table(HELD_OUT_TABLE) if last else None
    answers = {**answers_of_new_classes(folder), **folder.answers.standing()}
    return build_annotations(folder.catalog, answers, classes, pool, held_out)


def add(
    folder: RunFolder,
    images: Any = None,
    labels: Any = None,
    *,
    overwrite: bool = False,
    on_progress: OnProgress = no_progress,
) -> Added:
    """Bring new images, labels or classes into a run; training starts with ``train``.

    Once a round is finished, people label what was left for them, which is no random sample:
    such labels are trained on, and held out only where a ``split`` column says so.
    """
    with folder.lock():
        config = folder.config
        catalog, added = extend_catalog(
            folder.catalog,
            images,
            labels,
            seed=config.seed,
            tune_share=config.tune_share,
            cache=cache_folder(config.cache),
            overwrite=overwrite,
            chosen=folder.last_round() is not None,
            on_progress=on_progress,
        )
        newer = said_otherwise(folder.catalog, catalog, folder.answers.standing())
        if newer and not overwrite:
            _, path, name = newer[0]
            raise LabelsError(
                f"'{path}' has the label '{name or NONE_TEXT}' here, and people said something "
                "else in review. Correct the one, or overwrite the other."
            )
        for item_id, _, name in newer:
            folder.answers.add(item_id, AnswerKind.LABEL if name else AnswerKind.NONE, name)
        if catalog.digest != folder.catalog.digest:
            folder.discard_partial()
        pool_ids = problem_of(folder, catalog=catalog).pool_ids
        folder.replace_catalog(note_draw(catalog, pool_ids))
        if catalog.classes:
            adopt_first_labels(folder, but_keep=True)
        write_result(folder)
        return added


def _refuse_nothing_to_label(catalog: Catalog) -> None:
    if not len(catalog.in_split(Split.POOL)) and not len(catalog.in_split(Split.CERTIFY)):
        named = ", ".join(catalog.classes[:5])
        more = f" and {len(catalog.classes) - 5} more" if len(catalog.classes) > 5 else ""
        raise InputError(
            f"Every image has a label already ({named}{more}), so there is nothing to label. "
            "If these are folder names and not classes, give your labels with --labels."
        )


def _source_of_arrays(folder: RunFolder) -> Path | None:
    """The file that held images as an array, if there was one and it is where it was."""
    path = Path(str(folder.about.get("images", "")))
    return path if (folder.catalog.files == "").any() and path.is_file() else None
