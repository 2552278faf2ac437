"""The review queue: which images people are asked about, in which order, and what the page shows.

A queue is built from the run's result when a page is served and again after each round. People
answer meanwhile, so it takes the result without their answers and reads those from the answer
store on each request.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NotRequired, TypedDict

import numpy as np
import pandas as pd

from surelabel.config.choices import Measure
from surelabel.dataset.array_store import PixelStore, cache_folder
from surelabel.dataset.items import string_array
from surelabel.dataset.pixels import open_pixels
from surelabel.files.large_tables import ids_of
from surelabel.review.attention import AttentionShades
from surelabel.review.gallery import Gallery
from surelabel.review.images import Pictures
from surelabel.review.path_search import PathSearch
from surelabel.review.similarity import most_similar, similarity_order, similarity_vectors
from surelabel.runs.answers import Answer, AnswerKind, Purpose
from surelabel.runs.embedding import Embedding, file_stamp, read_embedding
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import POOL_TABLE
from surelabel.selection.reasons import Reason
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.round import N_RUNNERS_UP
from surelabel.types import BoolArray, FloatArray, IntArray, LabelSource, Split
from surelabel.workflows.annotators import disputed_ids
from surelabel.workflows.certify import standing_certification
from surelabel.workflows.certify_labels import are_certify_labels
from surelabel.workflows.certify_plan import open_plan
from surelabel.workflows.first_labels import (
    draw_order,
    lacks_labels,
    people_answers,
    waiting_first_answers,
)
from surelabel.workflows.journey import planned
from surelabel.workflows.label import annotations_of
from surelabel.workflows.label_errors import label_errors_of

SEARCH_LIMIT = 60
MOST_ASKED = 10_000
"""Images left that a page asks about, the most useful ones: nobody answers more before the next
training, and a longer list would take long to send and to sort."""
NOT_SCORED = "not scored"
"""The reason given for an unlabeled image that no round has predicted."""

_FINAL = (AnswerKind.LABEL, AnswerKind.NONE)
_REASON_TEXT: dict[str, str] = {
    Reason.UNFAMILIAR: "The models disagree: they have seen too few images like it.",
    Reason.AMBIGUOUS: "The image is ambiguous: unclear, cut off or between classes.",
    Reason.BORDERLINE: "The guess is probably right, but not sure enough to be accepted.",
    Reason.OUTLIER: "It looks like none of the classes.",
    Reason.SUSPICIOUS: "A model that had not seen this label is sure of another class.",
    NOT_SCORED: "It was added after the last training.",
}
_USEFUL = str(Measure.MUTUAL_INFORMATION)
"""The measure by which an answer is the more useful, the higher it is."""
_MEASURES = {
    Measure.MUTUAL_INFORMATION: ("Disagreement", "How much the models disagree"),
    Measure.EXPECTED_ENTROPY: ("Ambiguity", "How unsure each model is"),
    Measure.PREDICTIVE_ENTROPY: ("Total uncertainty", "Both together"),
}


class Order(StrEnum):
    """The orders a reviewer may choose from."""

    USEFUL = "useful"
    """The image on which the sampled nets disagree most comes first."""
    REASON = "reason"
    """By the reason why the image was left unlabeled, the most frequent first."""
    CLASS = "class"
    """By the run's guess."""
    SIMILAR = "similar"
    """Each image is followed by the one most similar to it."""


@dataclass(frozen=True)
class Task:
    """What a page is for. ``ids``, in their order, are judged blind; None asks for what is left."""

    purpose: Purpose = Purpose.REVIEW
    ids: tuple[str, ...] | None = None
    n_first: int = 300
    """How many images to draw for first labels."""
    suspicious: bool = False
    """Ask about people's labels that look wrong, instead of what is left."""

    @property
    def blind(self) -> bool:
        """Whether the run's label is hidden until a person has answered."""
        return self.ids is not None

    @property
    def reveals(self) -> bool:
        """Whether the run's label is shown after the answer, which then stands.

        Never while certifying: people who see how accurate the run is could stop when it suits
        them, which would void the guarantee.
        """
        return self.blind and self.purpose is not Purpose.CERTIFY


class ShownAnswer(TypedDict):
    """An answer as the page gets it."""

    seq: int
    kind: str
    label: str | None
    reviewer: str
    at: str


class ShownGuess(TypedDict):
    """A class that the run thinks likely."""

    label: str
    probability: float


class ShownMeasure(TypedDict):
    """An uncertainty measure: ``rank`` is the share of images left that are less uncertain."""

    name: str
    text: str
    rank: float


class ShownItem(TypedDict):
    """An image as the page gets it. What the run thinks of it is missing while that is hidden."""

    id: str
    path: str
    answer: ShownAnswer | None
    label: NotRequired[str]
    source: NotRequired[str]
    guesses: NotRequired[list[ShownGuess]]
    reason: NotRequired[str]
    measures: NotRequired[list[ShownMeasure]]


class ClassCounts(TypedDict):
    """How many labels of a class people gave, and how many the run did."""

    people: int
    run: int


class ReviewQueue:
    """The images of one run and one task."""

    def __init__(self, folder: RunFolder, task: Task) -> None:
        self.folder = RunFolder.open(folder.path)
        self.catalog = self.folder.catalog
        self.answers = self.folder.answers
        self.answer_lock = threading.Lock()
        """Held while an answer is checked and stored, so that no other gets in between."""
        first = not task.blind and lacks_labels(self.folder)
        self.task = Task(Purpose.FIRST, n_first=task.n_first) if first else task
        self.pictures = Pictures(self.catalog, self._pixels())
        self.shades = AttentionShades(self.folder, self.pictures)
        last = self.folder.last_round()
        self.n_rounds = last.number if last else 0
        self._round_classes = (
            RoundMetrics.from_json(last.metrics).classes if last else self.catalog.classes
        )
        self._pool = last.read_table(POOL_TABLE) if last else None
        self._pool_rows = np.full(len(self.catalog), -1, dtype=np.int64)
        """(N,) the row of each image in the pool table, -1 for none."""
        if self._pool is not None:
            ids = ids_of(self._pool["id"])
            self._pool_rows[self.catalog.rows(ids)] = np.arange(len(ids))
        self._table = annotations_of(self.folder, answers={})
        not_scored = (self._table["source"] == str(LabelSource.NONE)) & self._table["guess"].isna()
        self._table["reason"] = self._table["reason"].mask(not_scored, NOT_SCORED)
        self.ids = self._choose_ids()
        self.is_settled = task.purpose is Purpose.CERTIFY and are_certify_labels(
            self.catalog, self.ids
        )
        """Whether the answers of this task have been used, so that they cannot change any more."""
        self._members = frozenset(self.ids)
        self._ranks = self._rank_asked()
        self._paths = PathSearch(self.catalog.paths)
        self._orders: dict[Order, list[str]] = {}
        self._vectors_lock = threading.Lock()
        self._gallery_lock = threading.Lock()
        self._gallery: Gallery | None = None
        self._embedding: tuple[tuple[int, int], Embedding | None] | None = None

    def __contains__(self, item_id: str) -> bool:
        """Whether this task asks about the image."""
        return item_id in self._members

    @property
    def can_browse(self) -> bool:
        """Whether people may look at all images: not before a round, nor during a check."""
        return bool(self.n_rounds) and not self.task.blind

    def ordered(self, order: Order) -> list[str]:
        """The ids in ``order``; a fixed list and a random draw stay as they are."""
        if self.task.purpose is not Purpose.REVIEW or self.task.blind or self.task.suspicious:
            return self.ids
        if order is Order.SIMILAR:
            return [self.ids[position] for position in similarity_order(self._comparable())]
        if order not in self._orders:
            self._orders[order] = sorted_ids(self._asked_rows(), order)
        return self._orders[order]

    def similar(self, item_id: str, n: int) -> list[str]:
        """``item_id``, then up to ``n - 1`` images without an answer, the most similar first."""
        if item_id not in self or self.task.blind:
            return [] if self.catalog.row_of(item_id) is None else [item_id]
        answered = self.answered()
        open_positions = [k for k, other in enumerate(self.ids) if other not in answered]
        position = self.ids.index(item_id)
        among = np.array(open_positions, dtype=np.int64)
        chosen = most_similar(self._comparable(), position, among, n)
        return [self.ids[k] for k in chosen]

    @cached_property
    def kept(self) -> frozenset[str]:
        """Images of a check, whose label nobody may change in review: it is evidence.

        These are the certify images, and those drawn for a check that is under way.
        """
        certify = self.catalog.ids[self.catalog.splits == Split.CERTIFY].tolist()
        return frozenset([*certify, *self._drawn_to_check])

    @cached_property
    def _drawn_to_check(self) -> tuple[str, ...]:
        """The sample of a check that is under way; labels for other images would end it."""
        plan = open_plan(self.folder) if standing_certification(self.folder) is None else None
        return plan.draw.drawn if plan is not None else ()

    def n_checked(self) -> int:
        """Answers to a check that was asked for on this page and is not finished."""
        if self.task.purpose is not Purpose.REVIEW or not self._drawn_to_check:
            return 0
        if "n" not in (self.folder.read_plan().get("wish") or {}):
            return 0
        return len(self.answers.standing_of(self._drawn_to_check, Purpose.CERTIFY))

    def embedding(self) -> Embedding | None:
        """Where the images lie in the features of the nets; None until that was computed."""
        stamp = file_stamp(self.folder)
        if self._embedding is None or self._embedding[0] != stamp:
            self._embedding = (stamp, read_embedding(self.folder))
        return self._embedding[1]

    def gallery(self) -> Gallery:
        """All images with their labels, people's latest answers among them."""
        gallery = self._unanswered_gallery
        newest = self.answers.last_seq()
        if newest > gallery.version:
            items = self.answers.items_after(gallery.version)
            gallery.take_in(newest, items, self.standing_of(items))
        return gallery

    @property
    def _unanswered_gallery(self) -> Gallery:
        with self._gallery_lock:
            if self._gallery is None:
                self._gallery = self._make_gallery()
            return self._gallery

    def _make_gallery(self) -> Gallery:
        errors = label_errors_of(self.folder)
        odds = (errors["label_probability"] / errors["probability"]).tolist()
        kept = np.zeros(len(self.catalog), dtype=bool)
        kept[self.catalog.rows(string_array(list(self.kept)))] = True
        return Gallery(
            self.catalog,
            self._table,
            kept=kept,
            suspicion=dict(zip(errors["id"].tolist(), odds, strict=True)),
            disputed=disputed_ids(self.folder),
            embedding=self.embedding,
        )

    def answered(self) -> dict[str, Answer]:
        """The standing answers to images of this queue."""
        return {i: a for i, a in self.standing().items() if i in self}

    def standing(self) -> dict[str, Answer]:
        """The standing answers of this task; in review also first answers that are not adopted."""
        if self.task.purpose is Purpose.REVIEW:
            return people_answers(self.folder)
        return self.answers.standing(purpose=self.task.purpose)

    def standing_of(self, item_ids: Sequence[str]) -> dict[str, Answer]:
        """The same for a few images."""
        found = [pair for purpose in self._purposes() for pair in self._of(item_ids, purpose)]
        return dict(sorted(found, key=lambda pair: pair[1].seq))

    def purpose_of(self, item_id: str) -> Purpose:
        """The purpose that an answer to the image is stored with.

        A first answer that is changed before it became a label stays a first answer.
        """
        waits = self.task.purpose is Purpose.REVIEW and any(self._of([item_id], Purpose.FIRST))
        return Purpose.FIRST if waits else self.task.purpose

    def _purposes(self) -> list[Purpose]:
        review = self.task.purpose is Purpose.REVIEW
        return [Purpose.REVIEW, Purpose.FIRST] if review else [self.task.purpose]

    def _of(self, item_ids: Sequence[str], purpose: Purpose) -> Iterable[tuple[str, Answer]]:
        """Standing answers of one purpose; in review, of first answers those not adopted."""
        adopted = self.catalog.first_upto if self.task.purpose is Purpose.REVIEW else 0
        found = self.answers.standing_of(item_ids, purpose).items()
        return [(i, a) for i, a in found if purpose is not Purpose.FIRST or a.seq > adopted]

    @property
    def classes(self) -> list[str]:
        """All classes: planned ones, the catalog's, then those that reviewers added, oldest first.

        This way a class keeps its key when another one is added.
        """
        standing = self.standing().values()
        named = [a.label for a in sorted(standing, key=lambda a: a.seq) if a.label]
        plan = planned(self.folder.read_plan())
        return list(dict.fromkeys([*plan, *self.catalog.classes, *named, *self._round_classes]))

    def counts(self) -> dict[str, ClassCounts]:
        """The number of labels of each class."""
        answers = self.standing()
        if self.task.blind:
            people, run = Counter(a.label for a in answers.values() if a.label), Counter[str]()
        else:
            people, run = (Counter(each) for each in self._unanswered_counts)
            names, labels, by_run = self._labels_before
            for item_id, answer in answers.items():
                row = self.catalog.row_of(item_id)
                if answer.kind in _FINAL and row is not None:
                    (run if by_run[row] else people)[names[labels[row]]] -= 1
                    people[answer.label or ""] += 1
        return {
            name: {"people": int(people.get(name, 0)), "run": int(run.get(name, 0))}
            for name in self.classes
        }

    @cached_property
    def _labels_before(self) -> tuple[list[str], IntArray, BoolArray]:
        """Names of labels; and per row its label's number before answers, and if it is the run's.

        No label is a name too.
        """
        numbers, names = pd.factorize(self._table["label"])
        by_run = (self._table["source"] == str(LabelSource.PSEUDO)).to_numpy(dtype=np.bool_)
        return [str(name) for name in names], numbers, by_run

    @cached_property
    def _unanswered_counts(self) -> tuple[Counter[str], Counter[str]]:
        """Labels of people and of the run by class, before people's answers."""
        names, labels, by_run = self._labels_before
        people, run = (
            np.bincount(labels[rows], minlength=len(names)).tolist() for rows in (~by_run, by_run)
        )
        return Counter(dict(zip(names, people, strict=True))), Counter(
            dict(zip(names, run, strict=True))
        )

    def describe(self, item_ids: Iterable[str]) -> list[ShownItem]:
        """What the page shows of each image; unknown ids are left out."""
        found = [(i, row) for i in item_ids if (row := self.catalog.row_of(i)) is not None]
        answers = self.standing_of([i for i, _ in found])
        final = self.final_among(answers)
        return [self._describe(i, row, answers.get(i), final) for i, row in found]

    def final_among(self, answers: Mapping[str, Answer]) -> set[str]:
        """The ids whose answer in a blind check is final: its reviewer has answered another since.

        Until then the answer may be undone, and the run's label is not shown.
        """
        if not self.task.reveals:
            return set()
        last = self.answers.last_by(self.task.purpose)
        return {i for i, answer in answers.items() if answer.seq < last.get(answer.reviewer, 0)}

    def search(self, text: str) -> list[ShownItem]:
        """Images of the run whose path contains ``text``; those of this task come first."""
        wanted = text.strip()
        asked = np.sort(self._asked_at)[self._asked_paths.find(wanted, SEARCH_LIMIT)]
        others = self._paths.find(wanted, SEARCH_LIMIT)
        hits = np.concatenate([asked, others[~np.isin(others, asked)]])[:SEARCH_LIMIT]
        return self.describe(self.catalog.ids[hits].tolist())

    def _choose_ids(self) -> list[str]:
        """The images of the task. What people answered before the last round is not asked again."""
        if self.task.ids is not None:
            return list(self.task.ids)
        if self.task.purpose is Purpose.FIRST:
            drawn, n = [str(i) for i in draw_order(self.folder)], self.task.n_first
            known = self.answers.standing(purpose=Purpose.FIRST)
            return drawn[:n] + [i for i in drawn[n:] if i in known]
        if self.task.suspicious:
            return [str(item_id) for item_id in label_errors_of(self.folder)["id"]]
        unlabeled = self._table.loc[self._table["source"] == str(LabelSource.NONE), "id"]
        waiting = waiting_first_answers(self.folder)
        unlabeled = unlabeled[~unlabeled.isin(list(waiting))]
        if self._pool is None:
            return list(unlabeled)
        answered = {i for i, a in self.answers.standing().items() if a.kind in _FINAL}
        asked = (self._pool_rows[unlabeled.index] >= 0) | ~unlabeled.isin(list(answered))
        unlabeled = unlabeled[asked]
        if len(unlabeled) > MOST_ASKED:
            useful = most_useful(self._table.loc[unlabeled.index, ["id", _USEFUL]], MOST_ASKED)
            unlabeled = unlabeled[unlabeled.isin(useful)]
        return list(unlabeled)

    def _rank_asked(self) -> dict[str, list[float]]:
        """By id: the share of the images left that are less uncertain, by measure."""
        rows = self._asked_rows()
        if len(self.ids) == MOST_ASKED:  # more are left than are asked about
            left = self._table["source"] == str(LabelSource.NONE)
            compared = self._table.loc[left, [str(name) for name in _MEASURES]]
            ranks = pd.DataFrame(measure_ranks(compared), index=compared.index)
            return dict(zip(self.ids, ranks.loc[rows.index].to_numpy().tolist(), strict=True))
        return dict(zip(self.ids, measure_ranks(rows).tolist(), strict=True))

    @cached_property
    def _asked_paths(self) -> PathSearch:
        return PathSearch(self.catalog.paths[np.sort(self._asked_at)])

    def _asked_rows(self) -> pd.DataFrame:
        return self._table.iloc[self._asked_at]

    @cached_property
    def _asked_at(self) -> IntArray:
        """Where the images asked about are in the catalog."""
        return self.catalog.rows(string_array(self.ids))

    def _pixels(self) -> PixelStore:
        return open_pixels(self.catalog, cache_folder(self.folder.config.cache))

    def _comparable(self) -> FloatArray:
        """(N, D) unit vectors of the images asked about: by the nets, or tiny versions."""
        embedding = self.embedding()
        if embedding is None:
            return self._vectors
        vectors = embedding.vectors_of(np.array(self.ids, dtype=np.str_))
        return vectors if vectors.any(axis=1).all() else self._vectors

    @cached_property
    def _vectors(self) -> FloatArray:
        """(N, D) tiny versions of the images asked about, in the order of ``ids``."""
        with self._vectors_lock:
            digests = self.catalog.digests[self.catalog.rows(np.array(self.ids, dtype=np.str_))]
            return similarity_vectors(self._pixels(), digests)

    def _describe(
        self, item_id: str, place: int, answer: Answer | None, final: set[str]
    ) -> ShownItem:
        row = self._table.iloc[place]
        item = ShownItem(id=item_id, path=row["path"], answer=shown_answer(answer))
        if self.task.purpose is Purpose.FIRST or (self.task.blind and item_id not in final):
            return item
        item["label"] = row["label"]
        item["source"] = row["source"]
        item["guesses"] = self._guesses(place, row)
        item["reason"] = reason_text(row["reason"])
        item["measures"] = shown_measures(self._ranks.get(item_id, ()))
        return item

    def _guesses(self, place: int, row: pd.Series) -> list[ShownGuess]:
        """The classes that the run thinks likely, the likeliest first."""
        if pd.isna(row["guess"]):
            return []
        guesses = [ShownGuess(label=row["guess"], probability=float(row["probability"]))]
        in_pool = int(self._pool_rows[place])
        if self._pool is None or in_pool < 0:
            return guesses
        scores = dict(self._pool.iloc[in_pool])
        for rank in range(2, N_RUNNERS_UP + 2):
            number = float(scores.get(f"guess_{rank}", -1))
            if number >= 0:
                probability = float(scores[f"probability_{rank}"])
                name = self._round_classes[int(number)]
                guesses.append(ShownGuess(label=name, probability=probability))
        return guesses


def sorted_ids(table: pd.DataFrame, order: Order) -> list[str]:
    """The ids of ``table`` in ``order``, which depends on nothing but the rows: ids break ties."""
    uncertain_first = -table[_USEFUL].fillna(-np.inf).to_numpy(dtype=float)
    ids = table["id"].to_numpy(dtype=np.str_)
    if order is Order.USEFUL:
        return list(ids[np.lexsort((ids, uncertain_first))])
    key = table["reason"] if order is Order.REASON else table["guess"].astype(object).fillna("")
    names = key.to_numpy(dtype=np.str_)
    if order is Order.CLASS:
        return list(ids[np.lexsort((ids, uncertain_first, names))])
    frequent_first = -key.map(key.value_counts()).to_numpy(dtype=np.int64)
    return list(ids[np.lexsort((ids, uncertain_first, names, frequent_first))])


def most_useful(table: pd.DataFrame, n: int) -> list[str]:
    """The first ``n`` of ``sorted_ids``; ids are compared only where they may be among them."""
    uncertainty = table[_USEFUL].fillna(-np.inf).to_numpy(dtype=float)
    least = np.partition(uncertainty, len(table) - n)[len(table) - n]
    return sorted_ids(table[uncertainty >= least], Order.USEFUL)[:n]


def reason_text(reason: str) -> str:
    """A sentence for a reason; empty for an image that needs none."""
    return _REASON_TEXT.get(reason, "")


def measure_ranks(table: pd.DataFrame) -> FloatArray:
    """(N, 3) the share of rows that are less uncertain, per measure shown; nan if not scored."""
    values = table[[str(name) for name in _MEASURES]]
    n_others = (values.notna().sum() - 1).clip(lower=1)
    ranks: FloatArray = ((values.rank(method="min") - 1) / n_others).to_numpy(dtype=float)
    return ranks


def shown_measures(ranks: Sequence[float]) -> list[ShownMeasure]:
    """The measures of one image, given their ranks; empty if it was not scored."""
    if not len(ranks):
        return []
    return [
        ShownMeasure(name=name, text=f"{meaning}: {_rank_text(rank)}", rank=rank)
        for (name, meaning), rank in zip(_MEASURES.values(), ranks, strict=True)
        if not np.isnan(rank)
    ]


def shown_answer(answer: Answer | None) -> ShownAnswer | None:
    """The answer in plain values."""
    if answer is None:
        return None
    return ShownAnswer(
        seq=answer.seq,
        kind=str(answer.kind),
        label=answer.label,
        reviewer=answer.reviewer,
        at=answer.at,
    )


def _rank_text(rank: float) -> str:
    if rank in (0, 1):
        return f"the {'highest' if rank else 'lowest'} of all images left"
    return f"higher than for {round(100 * rank)}% of the images left"
