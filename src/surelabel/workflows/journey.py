"""The way from a folder of images to a finished dataset, step by step.

Where a run stands follows from its folder alone: the labels, the rounds, the certification, and
``plan.json`` with what people decided. So a closed page or a killed server loses nothing, and no
second record of the state can contradict the first.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

import pandas as pd

from surelabel.dataset.items import normalize_key
from surelabel.dataset.splits import MIN_PER_CLASS, is_none_of_these
from surelabel.errors import InputError
from surelabel.guarantees.bounds import whole_share
from surelabel.guarantees.critical_counts import critical_count
from surelabel.runs.answers import AnswerKind, NewAnswer, Purpose
from surelabel.runs.folder import RunFolder, read_skipped
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.types import NONE_TEXT, JsonObject, LabelSource, Split
from surelabel.workflows.certify import n_settled, standing_certification
from surelabel.workflows.first_labels import (
    FIRST_DRAW,
    FOLDER_REVIEWER,
    lacks_labels,
    n_by_coverage,
    people_answers,
    waiting_first_answers,
)
from surelabel.workflows.label import annotations_of
from surelabel.workflows.problem import problem_of
from surelabel.workflows.summary import Summary, summarize

N_RANDOM = 60
"""Random labels to begin with. An error of 2 % cannot be estimated from fewer than 48."""
_WISHES = (0.01, 0.02, 0.05, 0.1)
_BY_HAND_SHARE = 2 / 3
"""Where a run needs more than this share of the images labeled, labeling all is better."""
_MOST_SHOWN = 100


class Step(StrEnum):
    """The steps, in order."""

    LOOK = "look"
    CLASSES = "classes"
    LABELS = "labels"
    TRAIN = "train"
    WISH = "wish"
    FINISH = "finish"
    DONE = "done"


@dataclass(frozen=True)
class StepState:
    """A step: whether it is done, and whether one may go there."""

    name: Step
    is_done: bool
    is_open: bool


class Journey:
    """What the folder of a run says about where it stands; computed as far as it is asked for."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder.reopen()
        self.plan = self.folder.read_plan()

    @cached_property
    def annotations(self) -> pd.DataFrame:
        """The result as it is now."""
        return annotations_of(self.folder)

    @cached_property
    def summary(self) -> Summary:
        """The state of the run in numbers."""
        rounds = [RoundMetrics.from_json(each.metrics) for each in self.folder.finished_rounds()]
        return summarize(self.folder, rounds, self.annotations)

    @cached_property
    def class_names(self) -> list[str]:
        """All classes: those that people planned first, so that each keeps its key."""
        answers = sorted(people_answers(self.folder).values(), key=lambda answer: answer.seq)
        named = [answer.label for answer in answers if answer.label]
        return list(dict.fromkeys([*planned(self.plan), *self.folder.catalog.classes, *named]))

    @cached_property
    def counts(self) -> Counter[str]:
        """Labels of people by class; none of these is one of the names."""
        human = self.annotations["source"].isin([str(LabelSource.GIVEN), str(LabelSource.REVIEWED)])
        return Counter(self.annotations.loc[human, "label"].tolist())

    @cached_property
    def _sizes(self) -> tuple[int, int]:
        """Images that the run labels, and labels of the finished dataset."""
        pool_ids = problem_of(self.folder).pool_ids
        return len(pool_ids), len(pool_ids) + n_settled(self.folder, pool_ids)

    @property
    def has_rounds(self) -> bool:
        """Whether a round is finished."""
        return bool(self.summary.rounds)

    @property
    def n_wanted(self) -> int:
        """First labels that are enough for this collection."""
        n = len(self.folder.catalog)
        return n if self.plan.get("by_hand") else min(n, n_by_coverage(n) + N_RANDOM)

    @property
    def can_train(self) -> bool:
        """Whether the labels are enough to train at all: see ``check_counts``."""
        labeled = {name: n for name, n in self.counts.items() if name != NONE_TEXT}
        return len(labeled) >= 2 and sum(labeled.values()) >= MIN_PER_CLASS * len(labeled)

    @property
    def n_new(self) -> int:
        """Answers that no round has learned from yet."""
        waiting = len(waiting_first_answers(self.folder))
        if not self.has_rounds:
            return waiting
        known = self.summary.rounds[-1].answers_upto
        return waiting + sum(a.seq > known for a in self.folder.answers.standing().values())

    @property
    def is_trained(self) -> bool:
        """Whether rounds are finished and no answer waits to be learned from."""
        return self.has_rounds and self.summary.is_finished and not self.n_new

    @property
    def is_certified(self) -> bool:
        """Whether certify labels have been read for the labels as they are."""
        return standing_certification(self.folder) is not None

    @property
    def wish(self) -> JsonObject | None:
        """``max_error`` and ``n``; without ``n`` no promise is wanted. None before it was asked."""
        wish: JsonObject | None = self.plan.get("wish")
        return wish

    @property
    def is_complete(self) -> bool:
        """Whether every image has a label or is none of the classes."""
        return self.summary.n_left == 0

    def current(self) -> Step:
        """The step to continue with."""
        if self.is_complete:
            return Step.DONE
        if not self.class_names:
            return Step.LOOK
        if len(self.class_names) < 2:
            return Step.CLASSES
        if not self.has_rounds:
            enough = self.can_train and self.summary.n_human >= self.n_wanted
            return Step.TRAIN if enough else Step.LABELS
        if self.wish is None:
            return Step.WISH if self.is_trained else Step.TRAIN
        return Step.FINISH if self.is_certified or "n" not in self.wish else Step.WISH

    def steps(self) -> list[StepState]:
        """Every step; those behind stay open, so that each can be corrected."""
        rounds, named = self.has_rounds, len(self.class_names)
        wished = self.is_certified or (self.wish is not None and "n" not in self.wish)
        states = {
            Step.LOOK: (named > 0, True),
            Step.CLASSES: (named >= 2, True),
            Step.LABELS: (self.summary.n_human >= self.n_wanted or rounds, named > 0),
            Step.TRAIN: (
                self.is_trained or (rounds and self.is_complete),
                rounds or self.can_train,
            ),
            Step.WISH: (rounds and wished, rounds),
            Step.FINISH: (self.is_complete, rounds),
            Step.DONE: (self.is_complete, rounds or self.is_complete),
        }
        return [StepState(step, *state) for step, state in states.items()]

    def look(self) -> JsonObject:
        """What was found."""
        catalog = self.folder.catalog
        skipped = read_skipped(self.folder.skipped_path)
        folders = list(catalog.folders.items())[:_MOST_SHOWN]
        return {
            "n_images": len(catalog),
            "images": self.folder.about.get("images", ""),
            "n_skipped": len(skipped),
            "skipped": [{"path": path, "reason": reason} for path, reason in skipped[:_MOST_SHOWN]],
            "n_copies": catalog.n_copies,
            "n_near_duplicates": self.summary.n_near_duplicates,
            "folders": [{"name": name, "n": n} for name, n in folders],
            "folders_are_classes": self.plan.get("folders_are_classes"),
            "preparation_seconds": self.summary.preparation_seconds,
        }

    def effort(self) -> JsonObject:
        """Labels that a person has to give, with the run and without it."""
        n = len(self.folder.catalog)
        n_first = min(n, n_by_coverage(n) + N_RANDOM)
        checks = checks_for(n - n_first, n, 0.02, 1 - self.folder.config.confidence)
        return {
            "n_first": n_first,
            "n_checks": checks,
            "n_by_hand": n,
            "by_hand_is_better": n_first + checks > _BY_HAND_SHARE * n,
        }

    def wishes(self) -> list[JsonObject]:
        """For some shares of wrong labels: how many that is, and the checks that would show it."""
        if not self.is_trained:
            return []
        return [self.describe_wish(max_error) for max_error in _WISHES]

    def describe_wish(self, max_error: float) -> JsonObject:
        """Wrong labels that ``max_error`` allows, and how many images have to be checked."""
        config, (n_pool, n_labels) = self.folder.config, self._sizes
        free = n_pool - len(self.folder.catalog.in_split(Split.CERTIFY))
        delta = (1 - config.confidence) * config.alpha_share
        n_checks = checks_for(n_pool, n_labels, max_error, delta)
        return {
            "max_error": max_error,
            "n_labels": n_labels,
            "n_wrong": whole_share(max_error, n_labels),
            "n_checks": min(n_checks, free),
        }


def checks_for(n_pool: int, n_labels: int, max_error: float, delta: float) -> int:
    """The fewest checks that show the wish even if one of them finds a mistake."""
    allowed = whole_share(max_error, n_labels)
    low, high = 0, n_pool
    while low < high:
        middle = (low + high) // 2
        if critical_count(n_pool, middle, allowed, delta) >= 1:
            high = middle
        else:
            low = middle + 1
    return low


def planned(plan: Mapping[str, object]) -> list[str]:
    """The names of classes that people typed before there were labels."""
    names = plan.get("classes", [])
    assert isinstance(names, list)
    return [str(name) for name in names]


def plan_classes(folder: RunFolder, names: Sequence[str]) -> list[str]:
    """Set the names of the classes; those that labels have already stay. Returns the new list."""
    cleaned = [normalize_key(" ".join(name.split())) for name in names]
    for name in cleaned:
        if not name or not name.isprintable() or len(name) > 200:
            raise InputError("A class needs a name of at most 200 characters.")
        if is_none_of_these(name):
            raise InputError(f"'{NONE_TEXT}' needs no class: the key x says it of an image.")
    same = {name.casefold() for name in cleaned}
    if len(same) < len(set(cleaned)):
        twice = Counter(name.casefold() for name in set(cleaned)).most_common(1)[0][0]
        raise InputError(f"'{twice}' is there twice, in capital and small letters: keep one.")
    folder.write_plan({**folder.read_plan(), "classes": list(dict.fromkeys(cleaned))})
    return Journey(folder).class_names


def plan_folders(folder: RunFolder, are_classes: bool) -> None:
    """Say whether sub-folders are classes. Their names are labels from the first training on."""
    if not lacks_labels(folder):
        raise InputError("The run has labels already: change them one by one, or start anew.")
    catalog, plan = folder.catalog, folder.read_plan()
    names = list(catalog.folders)
    typed = [name for name in planned(plan) if name not in names]
    classes = [*names, *typed] if are_classes else typed
    folder.write_plan({**plan, "folders_are_classes": are_classes, "classes": classes})
    before = folder.answers.standing(purpose=Purpose.FIRST)
    if are_classes:
        tops = {i: path.partition("/") for i, path in zip(catalog.ids, catalog.paths, strict=True)}
        kind = AnswerKind.LABEL
        changes = {str(i): top for i, (top, sub, _) in tops.items() if sub and i not in before}
    else:
        kind = AnswerKind.UNDO
        changes = {i: "" for i, a in before.items() if a.reviewer == FOLDER_REVIEWER}
    folder.answers.add_all(
        [
            NewAnswer(item_id, kind, label or None, FOLDER_REVIEWER, purpose=Purpose.FIRST)
            for item_id, label in changes.items()
        ]
    )


def plan_by_hand(folder: RunFolder, by_hand: bool) -> None:
    """Say whether people want to label everything themselves."""
    folder.write_plan({**folder.read_plan(), "by_hand": by_hand})


def plan_wish(folder: RunFolder, max_error: float | None, n: int | None = None) -> None:
    """Set the share of wrong labels that people can live with, and how many images they check.

    None wants no promise.
    """
    plan = folder.read_plan()
    if max_error is None:
        folder.write_plan({**plan, "wish": {}})
        return
    if not 0 < max_error < 1:
        raise InputError(f"{max_error:g} is no share of wrong labels: between 0 and 100 %.")
    if n is not None and not 1 <= n <= len(folder.catalog):
        raise InputError(f"{len(folder.catalog):,} images can be checked at most, and at least 1.")
    checks = n or int(Journey(folder).describe_wish(max_error)["n_checks"])
    with folder.lock():
        folder.replace_config(folder.config.replace(max_error=f"{max_error:g}"))
        folder.write_plan({**plan, "wish": {"max_error": max_error, "n": checks}})


def journey_json(journey: Journey) -> JsonObject:
    """Everything that the page shows about the way, in plain values."""
    summary = journey.summary
    return {
        "current": str(journey.current()),
        "steps": [dataclasses.asdict(step) for step in journey.steps()],
        "look": journey.look(),
        "effort": journey.effort(),
        "classes": [{"name": name, "n": journey.counts[name]} for name in journey.class_names],
        "n_none": journey.counts[NONE_TEXT],
        "n_images": summary.n_images,
        "n_human": summary.n_human,
        "n_copied": summary.n_copied,
        "n_labeled": summary.n_labeled,
        "n_left": summary.n_left,
        "n_wanted": journey.n_wanted,
        "n_new": journey.n_new,
        "by_hand": bool(journey.plan.get("by_hand")),
        "can_train": journey.can_train,
        "is_trained": journey.is_trained,
        "rounds": len(summary.rounds),
        "seconds": summary.seconds,
        "wish": journey.wish,
        "wishes": journey.wishes(),
        "is_certified": journey.is_certified,
        "promise_holds": bool(summary.certification and summary.certification.holds),
        "confidence": journey.folder.config.confidence,
        "has_draw": FIRST_DRAW in journey.folder.about,
        "counts": summary.counts,
        "path": str(journey.folder.path),
    }
