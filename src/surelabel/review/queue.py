"""The review queue: which images people are asked about, in which order, with what is known."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from surelabel.config.choices import Measure
from surelabel.dataset.array_store import PixelStore, cache_folder
from surelabel.dataset.pixels import open_pixels
from surelabel.export.columns import build_annotations
from surelabel.review.images import Pictures
from surelabel.review.similarity import chain, nearest, tiny_versions
from surelabel.runs.answers import Answer, AnswerKind, Purpose
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import HELD_OUT_TABLE, POOL_TABLE
from surelabel.selection.reasons import Reason
from surelabel.selftraining.metrics import RoundMetrics
from surelabel.selftraining.round import RUNNERS_UP
from surelabel.types import FloatArray, IntArray, LabelSource
from surelabel.workflows.certify import apply_certification, standing_certification
from surelabel.workflows.first_labels import draw_order, lacks_labels


class Order(StrEnum):
    """The orders a reviewer may choose from."""

    USEFUL = "useful"
    """The image on which the sampled nets disagree most comes first."""
    REASON = "reason"
    """By the reason why they were left, the most frequent first."""
    CLASS = "class"
    """By the run's guess."""
    ALIKE = "alike"
    """Each is followed by the one that looks most like it."""


def arrange(table: pd.DataFrame, order: Order, chain: Callable[[], IntArray]) -> list[str]:
    """The ids of ``table`` in ``order``; ``chain`` gives positions with similar images together.

    The order depends on nothing but the rows: ids break ties.
    """
    if order is Order.ALIKE:
        return list(table["id"].to_numpy()[chain()])
    use = -table[str(Measure.MUTUAL_INFORMATION)].fillna(-np.inf).to_numpy(dtype=float)
    ids = table["id"].to_numpy(dtype=np.str_)
    if order is Order.USEFUL:
        return list(ids[np.lexsort((ids, use))])
    key = table["reason"] if order is Order.REASON else table["guess"].astype(object).fillna("")
    names = key.to_numpy(dtype=np.str_)
    frequency = -key.map(key.value_counts()).to_numpy(dtype=np.int64)
    if order is Order.CLASS:
        frequency = np.zeros(len(names), dtype=np.int64)
    return list(ids[np.lexsort((ids, use, names, frequency))])


NOT_SEEN = "not seen yet"
"""The reason of an image that no round has looked at."""

_WORDS: dict[str, str] = {
    Reason.UNFAMILIAR: "The nets disagree: they have seen too little like it.",
    Reason.AMBIGUOUS: "The image itself leaves it open: unclear, cut off or between classes.",
    Reason.OUTLIER: "It looks like none of the classes.",
    Reason.SUSPICIOUS: "A net that had not seen its label contradicts it with confidence.",
    NOT_SEEN: "No round has looked at it yet.",
    "": "The run labeled it.",
}


@dataclass(frozen=True)
class Gauge:
    """One measure for a person: a name, what it says, and its rank among the images left."""

    name: str
    says: str
    rank: float
    """Between 0 and 1: the share of the images left that are less unsure by this measure."""


_GAUGES = {
    Measure.MUTUAL_INFORMATION: ("Disagreement", "how much the sampled nets contradict each other"),
    Measure.EXPECTED_ENTROPY: ("Ambiguity", "how open the image is in the eyes of each net"),
    Measure.PREDICTIVE_ENTROPY: ("Doubt", "both together"),
}


def reasons_of(table: pd.DataFrame) -> pd.Series:
    """A reason for each row of a run's result; empty for what the run labeled."""
    return table["reason"].where(table["guess"].notna(), NOT_SEEN)


def reason_words(reason: str) -> str:
    """A sentence for a reason."""
    return _WORDS[reason]


def ranks_of(table: pd.DataFrame) -> pd.DataFrame:
    """For each measure that people see, the share of the rows that are less unsure."""
    return pd.DataFrame({name: _rank(table[name]) for name in map(str, _GAUGES)})


def gauges(ranks: Mapping[Any, float]) -> list[Gauge]:
    """The measures of one image in words; none for an image that no round has looked at."""
    known = [(names, ranks.get(str(m), np.nan)) for m, names in _GAUGES.items()]
    known = [(names, rank) for names, rank in known if rank == rank]
    return [Gauge(name, f"{_degree(rank)}: {says}", rank) for (name, says), rank in known]


def _rank(values: pd.Series) -> pd.Series:
    n = max(1, int(values.notna().sum()) - 1)
    return (values.rank(method="min") - 1) / n


def _degree(rank: float) -> str:
    share = f"more than in {round(100 * rank)} % of the images left"
    if rank in (0, 1):
        share = f"the {'highest' if rank else 'lowest'} of all images left"
    return f"{'low' if rank < 1 / 3 else 'middling' if rank < 2 / 3 else 'high'}, {share}"


_FINAL = (AnswerKind.LABEL, AnswerKind.NONE)
SEARCH_LIMIT = 60


@dataclass(frozen=True)
class Task:
    """What a page is for. ``ids`` in fixed order are judged blind; None asks for what is left."""

    purpose: Purpose = Purpose.REVIEW
    ids: tuple[str, ...] | None = None
    n_first: int = 300
    """How many images are drawn for first labels."""

    @property
    def blind(self) -> bool:
        """Whether the run's label is hidden until a person has answered."""
        return self.ids is not None

    @property
    def reveals(self) -> bool:
        """Whether the run's label is shown after the answer, which then stands.

        Not while certifying: who saw how right the run is could stop when it suits.
        """
        return self.blind and self.purpose is not Purpose.CERTIFY


class ReviewQueue:
    """The images of one run and one task."""

    def __init__(self, folder: RunFolder, task: Task) -> None:
        self.folder = RunFolder.open(folder.path)
        self.catalog = self.folder.catalog
        self.store = self.folder.answers
        first = not task.blind and lacks_labels(self.folder)
        self.task = Task(Purpose.FIRST, n_first=task.n_first) if first else task
        self.pictures = Pictures(self.catalog, self._pixels())
        last = self.folder.last_round()
        self.n_rounds = last.number if last else 0
        metrics = RoundMetrics.from_json(last.metrics) if last else None
        self._names = metrics.classes if metrics else self.catalog.classes
        self._pool = last.read_table(POOL_TABLE).set_index("id") if last else None
        held_out = last.read_table(HELD_OUT_TABLE) if last else None
        pool = None if self._pool is None else self._pool.reset_index()
        if pool is not None:
            pool = apply_certification(pool, standing_certification(self.folder), self._names)
        self._table = build_annotations(self.catalog, {}, self._names, pool, held_out)
        self._table["reason"] = reasons_of(self._table)
        self._rows = {item_id: row for row, item_id in enumerate(self._table["id"])}
        self._lock = threading.Lock()
        self.answering = threading.Lock()
        """Held while an answer is checked and stored, so that none slips in between."""
        self.ids = self._choose()
        self._members = frozenset(self.ids)
        asked = self._table.iloc[[self._rows[i] for i in self.ids]]
        ranks = ranks_of(asked).to_dict("records")
        self._ranks = dict(zip(self.ids, ranks, strict=True))

    def _pixels(self) -> PixelStore:
        return open_pixels(self.catalog, cache_folder(self.folder.config.cache))

    def _choose(self) -> list[str]:
        """The images of the task; what people settled before the last round is not asked again."""
        if self.task.ids is not None:
            return list(self.task.ids)
        if self.task.purpose is Purpose.FIRST:
            drawn = draw_order(self.catalog, self.folder.config.seed)
            return [str(item_id) for item_id in drawn[: self.task.n_first]]
        open_ids = self._table.loc[self._table["source"] == str(LabelSource.NONE), "id"]
        if self._pool is None:
            return list(open_ids)
        settled = {i for i, a in self.store.standing().items() if a.kind in _FINAL}
        pool = set(self._pool.index)
        return [i for i in open_ids if i in pool or i not in settled]

    def ordered(self, order: Order) -> list[str]:
        """The ids in ``order``; a fixed list and a random draw stay as they are."""
        if self.task.purpose is not Purpose.REVIEW or self.task.blind:
            return self.ids
        rows = [self._rows[i] for i in self.ids]
        table = self._table.iloc[rows]
        return arrange(table, order, lambda: chain(self._vectors))

    @cached_property
    def _vectors(self) -> FloatArray:
        """(N, D) tiny versions of the images asked for, in the order of ``ids``."""
        with self._lock:
            digests = self.catalog.digests[self.catalog.rows(np.array(self.ids, dtype=np.str_))]
            return tiny_versions(self._pixels(), digests)

    def similar(self, item_id: str, n: int) -> list[str]:
        """Up to ``n`` images without an answer that look like ``item_id``, which comes first."""
        if item_id not in self._members or self.task.blind:
            return [item_id] if item_id in self._rows else []
        done = self.answered()
        among = [k for k, other in enumerate(self.ids) if other not in done]
        position = self.ids.index(item_id)
        found = nearest(self._vectors, position, np.array(among, dtype=np.int64), n)
        return [self.ids[k] for k in found]

    def asks_for(self, item_id: str) -> bool:
        """Whether the image is one of those that the page was opened for."""
        return item_id in self._members

    def answered(self) -> dict[str, Answer]:
        """The standing answers to images of this queue."""
        standing = self.store.standing(purpose=self.task.purpose)
        return {i: a for i, a in standing.items() if i in self._members}

    @property
    def classes(self) -> list[str]:
        """All classes; those that people brought at the end, in the order in which they came.

        So the key of a class stays when another one is added.
        """
        standing = self.store.standing(purpose=self.task.purpose).values()
        named = [a.label for a in sorted(standing, key=lambda a: a.seq) if a.label]
        return list(dict.fromkeys([*self.catalog.classes, *named, *self._names]))

    def counts(self) -> dict[str, dict[str, int]]:
        """For each class the labels by ``people`` and by the ``run``."""
        answers = self.store.standing(purpose=self.task.purpose)
        if self.task.blind:
            labels = pd.Series([a.label for a in answers.values() if a.label], dtype=object)
            people, run = labels.value_counts(), pd.Series(dtype=int)
        else:
            settled = {i: a.label or "" for i, a in answers.items() if a.kind in _FINAL}
            pairs = zip(self._table["id"], self._table["label"], strict=True)
            label = pd.Series([settled.get(i, label) for i, label in pairs], dtype=object)
            pseudo = self._table["source"] == str(LabelSource.PSEUDO)
            by_run = pseudo & ~self._table["id"].isin(list(settled))
            people, run = label[~by_run].value_counts(), label[by_run].value_counts()
        return {
            name: {"people": int(people.get(name, 0)), "run": int(run.get(name, 0))}
            for name in self.classes
        }

    def describe(self, item_ids: Iterable[str]) -> list[dict[str, Any]]:
        """All that a page shows of each image; unknown ids are left out."""
        known = [i for i in item_ids if i in self._rows]
        answers = self.store.standing_of(known, self.task.purpose)
        final = self.final_among(answers)
        return [self._describe(item_id, answers.get(item_id), final) for item_id in known]

    def final_among(self, answers: Mapping[str, Answer]) -> set[str]:
        """The ids whose answer in a blind check stands: its reviewer has answered another since.

        Only then the run's label is shown; until then it may be taken back.
        """
        if not self.task.reveals:
            return set()
        last = self.store.last_by(self.task.purpose)
        return {i for i, answer in answers.items() if answer.seq < last.get(answer.reviewer, 0)}

    def _describe(self, item_id: str, answer: Answer | None, final: set[str]) -> dict[str, Any]:
        row = self._table.iloc[self._rows[item_id]]
        facts: dict[str, Any] = {
            "id": item_id,
            "path": row["path"],
            "answer": None if answer is None else answer_facts(answer),
        }
        if self.task.purpose is Purpose.FIRST or (self.task.blind and item_id not in final):
            return facts
        return {
            **facts,
            "label": row["label"],
            "source": row["source"],
            "guesses": self._guesses(item_id, row),
            "reason": reason_words(row["reason"]) if not row["source"] else "",
            "gauges": [asdict(gauge) for gauge in gauges(self._ranks.get(item_id, {}))],
        }

    def _guesses(self, item_id: str, row: pd.Series) -> list[dict[str, Any]]:
        """The classes that the run holds likely, the likeliest first."""
        if row["guess"] != row["guess"] or row["guess"] is None:
            return []
        found = [{"label": row["guess"], "probability": float(row["probability"])}]
        if self._pool is None or item_id not in self._pool.index:
            return found
        scores = dict(self._pool.loc[item_id])
        for place in range(2, RUNNERS_UP + 2):
            number = float(scores.get(f"guess_{place}", -1))
            if number >= 0:
                probability = float(scores[f"probability_{place}"])
                found.append({"label": self._names[int(number)], "probability": probability})
        return found

    def search(self, text: str) -> Sequence[dict[str, Any]]:
        """Images of the run whose path contains ``text``; those asked for come first."""
        wanted = text.casefold().strip()
        if not wanted:
            return []
        hits = self._table["path"].str.casefold().str.contains(wanted, regex=False)
        ids = sorted(self._table.loc[hits, "id"], key=lambda i: i not in self._members)
        return self.describe(ids[:SEARCH_LIMIT])


def answer_facts(answer: Answer) -> dict[str, Any]:
    """An answer in plain values."""
    return {
        "seq": answer.seq,
        "kind": str(answer.kind),
        "label": answer.label,
        "reviewer": answer.reviewer,
        "at": answer.at,
    }
