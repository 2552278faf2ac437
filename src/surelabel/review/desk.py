"""What is asked of people: which images, in which order, and all that is known of each.

A desk is a snapshot of a run after its last round. Answers are not part of it: they are read from
the store whenever they are needed, because others give some too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from surelabel.annotations import build_annotations
from surelabel.catalog import PixelStore, cache_folder, open_pixels
from surelabel.first_labels import draw_order, lacks_labels
from surelabel.promise import apply_promise, standing_promise
from surelabel.review.alike import chain, nearest, tiny_versions
from surelabel.review.order import Order, arrange
from surelabel.review.pictures import Pictures
from surelabel.review.reasons import gauges, ranks_of, reason_words, reasons_of
from surelabel.runs import (
    HELD_OUT_TABLE,
    POOL_TABLE,
    Answer,
    AnswerKind,
    Purpose,
    RunFolder,
)
from surelabel.selftrain import RUNNERS_UP, RoundMetrics
from surelabel.types import FloatArray, LabelSource

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


class Desk:
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
            pool = apply_promise(pool, standing_promise(self.folder), self._names)
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

    def look_alikes(self, item_id: str, n: int) -> list[str]:
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
        """The standing answers to images of this desk."""
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
