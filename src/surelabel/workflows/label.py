"""Start a run, train it, add to it, and build its result: the steps behind the public API."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from surelabel.config.choices import EngineName, Net, Tail
from surelabel.config.settings import Config
from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.build import build_catalog, checked_rows, labeled_source
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.duplicates import contradictions
from surelabel.dataset.extend import Added, extend_catalog
from surelabel.dataset.items import similar_names
from surelabel.dataset.pixels import relocate_files, restore_pixels
from surelabel.dataset.sampling import open_looks, record_draw
from surelabel.dataset.sources import find_images, refuse_unclear_folders
from surelabel.errors import InputError, LabelsError
from surelabel.export.columns import COLUMNS, unanswered_annotations, with_answers
from surelabel.guarantees.advice import certify_labels_advised
from surelabel.messages.guarantees import no_certify_labels_sentence, void_audit_sentence
from surelabel.messages.run import (
    contradiction_sentence,
    names_text,
    similar_names_sentence,
    single_label_sentence,
    unread_sentence,
)
from surelabel.runs.answers import Answer, AnswerKind
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE, POOL_TABLE, PartialRound, RoundFiles
from surelabel.selftraining.events import Advice, OnEvent, no_events
from surelabel.selftraining.loop import self_train
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.round import RoundOutcome
from surelabel.selftraining.round_inputs import Problem
from surelabel.types import (
    NONE_TEXT,
    LabelSource,
    OnProgress,
    Split,
    StopReason,
    no_progress,
)
from surelabel.workflows.audit import is_void
from surelabel.workflows.certify import (
    answers_of_new_classes,
    apply_certification,
    certify_run,
    standing_certification,
    subject_of,
)
from surelabel.workflows.first_labels import adopt_first_labels, people_answers
from surelabel.workflows.model_inputs import (
    check_round_to_start_from,
    choose_net,
    decoding_of,
    name_of,
    open_inputs,
    refuse_no_room_for_maps,
)
from surelabel.workflows.near_duplicates import write_near_duplicates
from surelabel.workflows.net_choice import choose_by_first_labels, choose_by_trial
from surelabel.workflows.problem import problem_of
from surelabel.workflows.summary import PREPARATION, TRIAL, wanted_error
from surelabel.workflows.time_estimate import estimate_time

if TYPE_CHECKING:
    from surelabel.dataset.items import Source
    from surelabel.dataset.labels import Labels
    from surelabel.dataset.sources import Images
    from surelabel.selftraining.learner import Learner
    from surelabel.workflows.net_trial import Trial


_UNANSWERED: dict[str, pd.DataFrame] = {}
"""Results without people's answers, by the digest of what they were made from, the newest last."""
_UNANSWERED_LOCK = threading.Lock()
_MOST_UNANSWERED = 2
_MOST_CLASSES = 2000
"""For the tail linear."""


@dataclass(frozen=True)
class Listeners:
    """Functions that are called with the progress of long steps and with events of rounds."""

    on_progress: OnProgress = no_progress
    on_event: OnEvent = no_events


UNREAD = "unread"
"""In ``run.json``: how many shards and remote images could not be read."""

SILENT = Listeners()
"""Ignores everything."""


class FolderStore:
    """The rounds of a run folder, behind the interface that ``self_train`` needs."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        self._partial: PartialRound | None = None

    def history(self) -> Sequence[RoundMetrics]:
        """The metrics of all finished rounds."""
        return [RoundMetrics.from_json(r.metrics) for r in self.folder.finished_rounds()]

    def last_pool(self) -> pd.DataFrame | None:
        """The pool table of the last round; None before the first."""
        last = self.folder.last_round()
        return last.read_table(POOL_TABLE) if last else None

    def last_folder(self) -> Path | None:
        """The folder of the last round; None before the first."""
        last = self.folder.last_round()
        return last.path if last else None

    def begin(self, number: int) -> Path:
        """Make the folder of the next round, or reopen it after a crash."""
        self._partial = self.folder.begin_round(number)
        return self._partial.path

    def commit(self, outcome: RoundOutcome) -> None:
        """Write the round's tables, finish the round, and update the result."""
        assert self._partial is not None, "begin has to come before commit"
        self._partial.write_table(POOL_TABLE, outcome.pool)
        self._partial.write_table(HELD_OUT_TABLE, outcome.held_out)
        self._partial.write_json("metrics.json", outcome.metrics.to_json())
        self.folder.commit_round(self._partial)
        write_result(self.folder)


def start(
    images: Images,
    labels: Labels | None,
    out: Path,
    config: Config,
    listeners: Listeners = SILENT,
) -> RunFolder:
    """Read images and labels, make the run folder and train until a stop rule applies.

    Wrong options and a folder in use are refused before any image is read.
    """
    folder = _begin(images, labels, out, config, listeners)
    train(folder, listeners)
    return folder


def _begin(
    images: Images, labels: Labels | None, out: Path, config: Config, listeners: Listeners
) -> RunFolder:
    """The run folder before any training. What was read on the way need not stay in memory."""
    from surelabel.engines.device import prepare
    from surelabel.engines.engine import running_engine
    from surelabel.guarantees.targets import parse_targets
    from surelabel.selection.thresholds import parse_rule

    parse_rule(config.accept)
    parse_targets(config.max_error)
    RunFolder.check_free(out)
    machine = prepare(config)
    with running_engine(config):
        return _start(images, labels, out, config, listeners, machine)


def _start(
    images: Images,
    labels: Labels | None,
    out: Path,
    config: Config,
    listeners: Listeners,
    machine: Mapping[str, object],
) -> RunFolder:
    from surelabel.guarantees.targets import list_targets, parse_targets

    started = time.monotonic()
    targets = parse_targets(config.max_error)
    cache = cache_folder(config.cache)
    asked, source = config, find_images(images, cache, listeners.on_progress)
    if labels is None and not source.label_rows and not config.class_folders:
        refuse_unclear_folders(source)
    config, source = choose_net(config, source, listeners.on_progress, listeners.on_event)
    certify_share = config.certify_share if config.labels_are_random else 0.0
    trial: Trial | None = None
    labeled, rows = labeled_source(source, labels, seed=config.seed, certify_share=certify_share)
    checked_rows(rows, merge_spellings=config.merge_spellings)
    if asked.net == Net.AUTO:
        config, trial = choose_by_trial(
            asked, config, labeled, rows, listeners.on_progress, listeners.on_event
        )
    refuse_no_room_for_maps(config, len(source.keys))
    source = estimate_time(config, source, listeners.on_progress, listeners.on_event)
    catalog = build_catalog(
        source,
        labels,
        seed=config.seed,
        tune_share=config.tune_share,
        certify_share=certify_share,
        merge_spellings=config.merge_spellings,
        decoding=decoding_of(config),
        cache=cache,
        on_progress=listeners.on_progress,
    )
    _refuse_nothing_to_label(catalog)
    unread = [item for item in catalog.skipped if item.unread]
    if unread:
        first = unread[0]
        text = unread_sentence(len(unread), first.path, first.reason, str(out))
        listeners.on_event(Advice(text))
    _advise_on_labels(catalog, listeners.on_event)
    list_targets(targets, catalog.classes)
    if targets and not len(catalog.in_split(Split.CERTIFY)):
        listeners.on_event(Advice(_no_certify_labels(config, catalog, out)))
    _refuse_many_classes(config, catalog)
    origin = {"images": name_of(images), "labels": name_of(labels)}
    about = {**machine, **origin, "seed": config.seed, PREPARATION: time.monotonic() - started}
    if unread:
        about[UNREAD] = len(unread)
    if trial is not None:
        about[TRIAL] = trial.to_json()
    return RunFolder.create(out, config=config, catalog=catalog, about=about)


def _advise_on_labels(catalog: Catalog, on_event: OnEvent) -> None:
    contradicting = contradictions(catalog)
    if contradicting:
        on_event(Advice(contradiction_sentence(catalog, contradicting)))
    single = single_labels(catalog)
    if single:
        on_event(Advice(single_label_sentence(single)))
    alike = similar_names(catalog.classes)
    if alike:
        on_event(Advice(similar_names_sentence(alike)))


def _no_certify_labels(config: Config, catalog: Catalog, out: Path) -> str:
    """What to do about a target without certify labels, with numbers for this collection."""
    wanted, delta = wanted_error(config), (1 - config.confidence) * config.alpha_share
    n_pool = int((catalog.splits == Split.POOL).sum())
    n = certify_labels_advised(n_pool, len(catalog), wanted, delta)
    return no_certify_labels_sentence(config.max_error, n, n_pool, str(out))


def train(
    folder: RunFolder,
    listeners: Listeners = SILENT,
    *,
    images: Images | None = None,
    max_rounds: int | None = None,
    upto: int | None = None,
) -> StopReason:
    """Continue a run until a stop rule applies.

    ``images`` is where the images are now, if they were moved; ``max_rounds`` is a new limit for
    the run. Answers after number ``upto`` wait for the next call, so that training ends even if
    people go on answering.
    """
    with folder.lock(), _engine_of(folder):
        if max_rounds is not None:
            folder.replace_config(folder.config.replace(max_rounds=max_rounds))
        last = folder.last_round()
        if last is not None:
            last.verify()
        check_round_to_start_from(folder.config)
        choose_by_first_labels(folder, images, listeners.on_progress, listeners.on_event)
        if adopt_first_labels(folder) and upto is not None:
            upto = folder.answers.last_seq()  # adopting may add answers
        started, had_audit = time.monotonic(), not is_void(folder)
        learner = _prepare_learner(folder, images, listeners)
        before = float(folder.about.get(PREPARATION, 0.0))
        folder.note({PREPARATION: round(before + time.monotonic() - started, 2)})

        def problem(known: int | None) -> Problem:
            return problem_of(folder, upto if known is None else known)

        store = FolderStore(folder)
        reason = self_train(problem, learner, store, folder.config, listeners.on_event)
        certify_run(folder, problem_of(folder).pool_ids)
        write_result(folder)
        if had_audit and is_void(folder):
            listeners.on_event(Advice(void_audit_sentence(str(folder.path))))
        return reason


def _engine_of(folder: RunFolder) -> contextlib.AbstractContextManager[object]:
    """The engine of the run; the local one needs no preparation."""
    if folder.config.engine is EngineName.LOCAL:
        return contextlib.nullcontext()
    from surelabel.engines.device import prepare
    from surelabel.engines.engine import running_engine

    prepare(as_recorded(folder))  # workers have as many threads as this process
    return running_engine(folder.config)


def _prepare_learner(folder: RunFolder, images: Images | None, listeners: Listeners) -> Learner:
    """Find the images again, decode what the cache lacks, and set up the nets' inputs."""
    from surelabel.engines.device import prepare
    from surelabel.engines.engine import current_engine

    config, cache = folder.config, cache_folder(folder.config.cache)
    on_progress = listeners.on_progress
    if images is not None:
        folder.replace_catalog(relocate_files(folder.catalog, images, cache, on_progress))
    machine = prepare(as_recorded(folder))
    if "threads" not in folder.about:
        folder.note(machine)
    pixels = restore_pixels(
        folder.catalog,
        cache=cache,
        images=images if images is not None else _source_of_arrays(folder),
        on_progress=on_progress,
    )
    write_near_duplicates(folder, pixels, on_progress)
    inputs = open_inputs(
        config,
        folder.catalog,
        pixels,
        on_progress,
        problem=problem_of(folder),
        on_event=listeners.on_event,
    )
    return current_engine().learner(config, inputs)


def as_recorded(folder: RunFolder) -> Config:
    """The run's settings with the thread count it began with: results depend on it."""
    threads = folder.config.threads or int(folder.about.get("threads", 0))
    return folder.config.replace(threads=threads)


def write_result(folder: RunFolder) -> None:
    """Build the result and write ``annotations.parquet``; the caller holds the run's lock."""
    made_from = folder.result_inputs()  # first: an answer that comes meanwhile makes it outdated
    folder.write_annotations(_build_result(folder, people_answers(folder)), made_from)


def annotations_of(folder: RunFolder, answers: Mapping[str, Answer] | None = None) -> pd.DataFrame:
    """The result of a run as it is now: one row per image, with the columns ``COLUMNS``.

    It is read from ``annotations.parquet`` where that is up to date, and built otherwise: people
    may have answered since it was written. With ``answers``, by item id, these count instead of
    the standing review answers.
    """
    if answers is not None:
        return _build_result(folder, answers)
    stored = folder.read_annotations(folder.result_inputs())
    if stored is not None and tuple(stored.columns) == COLUMNS:
        return stored
    return _build_result(folder, people_answers(folder))


def _build_result(folder: RunFolder, reviewed: Mapping[str, Answer]) -> pd.DataFrame:
    """Join the catalog, people's answers and the predictions of the last finished round.

    All but the answers is joined once and kept: a page asks again after every answer.
    """
    inputs = folder.result_inputs(with_answers=False)
    with _UNANSWERED_LOCK:
        if inputs not in _UNANSWERED:
            _UNANSWERED[inputs] = _build_unanswered(folder)
            while len(_UNANSWERED) > _MOST_UNANSWERED:
                _UNANSWERED.pop(next(iter(_UNANSWERED)))
        table = _UNANSWERED[inputs]
    answers = {**answers_of_new_classes(folder), **reviewed}
    return with_answers(table, answers, folder.catalog)


def _build_unanswered(folder: RunFolder) -> pd.DataFrame:
    last: RoundFiles | None = folder.last_round()
    classes = RoundMetrics.from_json(last.metrics).classes if last else folder.catalog.classes
    pool = last.read_table(POOL_TABLE) if last else None
    if pool is not None:
        pool = apply_certification(pool, standing_certification(folder), classes)
    held_out = last.read_table(HELD_OUT_TABLE) if last else None
    return unanswered_annotations(folder.catalog, classes, pool, held_out)


def add(
    folder: RunFolder,
    images: Images | Source | None = None,
    labels: Labels | None = None,
    *,
    overwrite: bool = False,
    on_progress: OnProgress = no_progress,
) -> Added:
    """Add images, labels or classes to a run; ``train`` then continues it.

    Labels that are added after the first round are probably not a random sample: people label
    what the run left unlabeled. They are trained on, and held out only where a ``split`` column
    says so. ``overwrite`` lets new labels replace given ones and review answers.
    """
    with folder.lock():
        config, had_audit = folder.config, not is_void(folder)
        catalog, added = extend_catalog(
            folder.catalog,
            images,
            labels,
            seed=config.seed,
            tune_share=config.tune_share,
            cache=cache_folder(config.cache),
            overwrite=overwrite,
            random_sample=folder.last_round() is None,
            on_progress=on_progress,
        )
        conflicts = _conflicts_with_review(folder.catalog, catalog, folder.answers.standing())
        if conflicts and not overwrite:
            first = conflicts[0]
            raise LabelsError(
                f"'{first.path}' has the label '{first.label or NONE_TEXT}' here, but a different "
                "answer from review. Correct one of them, or add with --overwrite."
            )
        for each in conflicts:
            kind = AnswerKind.LABEL if each.label else AnswerKind.NONE
            folder.answers.add(each.item_id, kind, each.label)
        if catalog.digest != folder.catalog.digest:
            folder.discard_partial()
        pool_ids = problem_of(folder, catalog=catalog).pool_ids
        last = folder.last_round()
        looks = open_looks(catalog, pool_ids, subject_of(last, config)) if last else None
        folder.replace_catalog(record_draw(catalog, pool_ids, looks=looks))
        if catalog.classes:
            adopt_first_labels(folder, keep_given=True)
        write_result(folder)
        return replace(added, voids_audit=had_audit and is_void(folder))


@dataclass(frozen=True)
class _Conflict:
    """A label in an added table that differs from a review answer."""

    item_id: str
    path: str
    label: str
    """Empty for none of the classes."""


def _conflicts_with_review(
    before: Catalog, after: Catalog, answers: Mapping[str, Answer]
) -> list[_Conflict]:
    """Given labels that are new in ``after`` and differ from the review answer of their image."""
    conflicts = []
    there = set(before.ids.tolist())
    for item_id, answer in answers.items():
        if item_id not in there:
            continue
        (was,), (row,) = (catalog.rows(np.array([item_id])) for catalog in (before, after))
        label, given = int(after.labels[row]), after.sources[row] == LabelSource.GIVEN
        new = label != before.labels[was] or before.sources[was] != LabelSource.GIVEN
        name = after.classes[label] if label >= 0 else ""
        hidden = after.splits[row] == Split.CERTIFY
        if given and new and not hidden and name != (answer.label or ""):
            conflicts.append(_Conflict(item_id, str(after.paths[row]), name))
    return conflicts


def single_labels(catalog: Catalog) -> list[str]:
    """The classes of which one label is trained on."""
    used = (catalog.labels >= 0) & (catalog.sources == LabelSource.GIVEN)
    used &= catalog.splits != Split.CERTIFY
    counts = np.bincount(catalog.labels[used], minlength=len(catalog.classes))
    return [f"'{catalog.classes[k]}'" for k in np.flatnonzero(counts == 1)]


def _refuse_many_classes(config: Config, catalog: Catalog) -> None:
    """A linear head keeps a matrix of classes by classes: refused before features are computed."""
    from surelabel.models.backbones import is_pretrained

    n = len(catalog.classes)
    if is_pretrained(config.net) and config.tail is Tail.LINEAR and n > _MOST_CLASSES:
        raise InputError(
            f"There are {n:,} classes, and the tail linear is made for {_MOST_CLASSES:,} at most: "
            "use --tail small. If the labels are not classes, such as file names, correct them."
        )


def _refuse_nothing_to_label(catalog: Catalog) -> None:
    if not len(catalog.in_split(Split.POOL)) and not len(catalog.in_split(Split.CERTIFY)):
        raise InputError(
            f"Every image already has a label ({names_text(catalog.classes)}): nothing to do. "
            "If these are folder names and not classes, give your labels with --labels."
        )


def _source_of_arrays(folder: RunFolder) -> Path | None:
    """The IDX or NumPy file of the images, if they came from one that is still there."""
    path = Path(str(folder.about.get("images", "")))
    return path if (folder.catalog.files == "").any() and path.is_file() else None
