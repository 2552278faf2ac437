"""The gallery: every image of a run with its label, filtered and sorted, a page at a time.

The columns are read once from the result of the last round. People's answers that came since are
added when somebody looks, one by one. A filter is applied once; further pages of the same list
cost as much as they show. The list does not change while somebody goes through it, although an
answer may mean that an image no longer fits the filter.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd

from surelabel.runs.answers import Answer, AnswerKind
from surelabel.runs.embedding import Embedding
from surelabel.selection.reasons import Reason
from surelabel.types import NONE_TEXT, BoolArray, FloatArray, Ids, IntArray, LabelSource

if TYPE_CHECKING:
    from surelabel.review.queue import ShownAnswer, ShownGuess

DISPUTED = "disputed"
"""A reason besides those of the result: people gave the image different labels."""
MAX_PAGE = 200
_MAX_LISTS = 16
_SOURCES = tuple(map(str, LabelSource))
_Codes = npt.NDArray[np.int32]


class Sorting(StrEnum):
    """The orders of the gallery."""

    ERRORS = "errors"
    """Likely wrong labels first: those of people that look wrong, then the run's least certain."""
    UNSURE = "unsure"
    """The lowest probability first."""
    SURE = "sure"
    """The highest probability first."""
    PATH = "path"


@dataclass(frozen=True)
class Filter:
    """Which images to show, and in which order. None and empty stand for all."""

    label: str | None = None
    """The label; empty for images without one."""
    source: str | None = None
    """A ``LabelSource``."""
    reason: str = ""
    round: int | None = None
    """The round that accepted the label."""
    least: float = 0.0
    """The lowest probability of the guess."""
    most: float = 1.0
    text: str = ""
    """A part of the path."""
    within: tuple[tuple[float, float], ...] = ()
    """Corners of a polygon on the map."""
    like: str = ""
    """The id of an image: the most similar ones come first, whatever ``sorting`` says."""
    sorting: Sorting = Sorting.ERRORS


class GalleryItem(TypedDict):
    """An image as the gallery shows it. Of an image kept for a check, only what people said."""

    id: str
    path: str
    label: str
    source: str
    round: int
    guesses: list[ShownGuess]
    reason: str
    is_kept: bool
    """Whether the image is kept for a check of the run, so that its label cannot be changed."""
    answer: ShownAnswer | None


@dataclass(frozen=True)
class Listing:
    """The images that fit a filter, as of one moment."""

    version: int
    """The number of the last answer that it takes into account."""
    positions: IntArray


class Gallery:
    """The images of one run after its last round."""

    def __init__(
        self,
        table: pd.DataFrame,
        *,
        kept: BoolArray,
        suspicion: Mapping[str, float],
        disputed: Sequence[str] = (),
        embedding: Embedding | None = None,
    ) -> None:
        """``table`` is the result without the answers that come later.

        ``kept`` (N,) are images of a check, of which the run's part is hidden. ``suspicion`` of
        people's labels is by id; the lowest is the most suspicious.
        """
        self._ids = table["id"].to_numpy(dtype=object)
        self._rows = {item_id: row for row, item_id in enumerate(self._ids.tolist())}
        self._paths = table["path"].to_numpy(dtype=object)
        self._folded: npt.NDArray[np.str_] | None = None
        self._kept = kept
        self._embedding = embedding
        run = kept & (table["source"] == str(LabelSource.PSEUDO)).to_numpy()
        source = table["source"].mask(run, str(LabelSource.NONE))
        label = table["label"].mask(run, "")
        self._names: dict[str, int] = {"": 0}
        self._label = self._encode(label)
        self._source = np.array([_SOURCES.index(s) for s in source.tolist()], dtype=np.int32)
        self._round = table["round"].mask(run, 0).to_numpy(dtype=np.int32)
        self._guess = table["guess"].astype(object).fillna("").mask(kept, "").to_numpy(dtype=object)
        probability = table["probability"].to_numpy(dtype=np.float64)
        self._probability: FloatArray = np.where(kept, np.nan, probability)
        self._reason = table["reason"].mask(kept, "").to_numpy(dtype=object)
        rows = [self._rows[item_id] for item_id in disputed if item_id in self._rows]
        self._disputed = np.zeros(len(self._ids), dtype=bool)
        self._disputed[rows] = True
        self._before = (self._label.copy(), self._source.copy(), self._round.copy())
        self._reviewed = np.zeros(len(self._ids), dtype=bool)
        self._orders = self._make_orders(table, suspicion)
        self._lists: OrderedDict[tuple[Filter, int], Listing] = OrderedDict()
        self._version = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def version(self) -> int:
        """The number of the last answer that was taken in."""
        return self._version

    def take_in(self, version: int, items: Sequence[str], answers: Mapping[str, Answer]) -> None:
        """``items`` were answered up to number ``version``; ``answers`` of them stand now."""
        with self._lock:
            for item_id in items:
                row = self._rows.get(item_id)
                if row is not None:
                    self._set(row, answers.get(item_id))
            self._version = max(version, self._version)

    def listing(self, wanted: Filter, version: int | None = None) -> Listing:
        """The images that fit; with ``version`` the list as it was then, if it is still known."""
        with self._lock:
            found = self._lists.get((wanted, self._version if version is None else version))
            if found is None:
                found = Listing(self._version, self._select(wanted))
                self._lists[wanted, self._version] = found
                while len(self._lists) > _MAX_LISTS:
                    self._lists.popitem(last=False)
            return found

    def items(
        self, listing: Listing, offset: int, n: int, answers: Mapping[str, ShownAnswer | None]
    ) -> list[GalleryItem]:
        """``n`` images of a list from place ``offset`` on, as they are now."""
        names = list(self._names)
        return [self._item(row, names, answers) for row in self._part(listing, offset, n)]

    def ids(self, listing: Listing, offset: int, n: int) -> list[str]:
        """Their ids."""
        return [str(self._ids[row]) for row in self._part(listing, offset, n)]

    def counts(self) -> dict[str, list[tuple[str | int, int]]]:
        """How many images have each label, source, reason and round, as they are now."""
        with self._lock:
            labels = np.bincount(self._label, minlength=len(self._names)).tolist()
            sources = np.bincount(self._source, minlength=len(_SOURCES)).tolist()
            rounds = np.bincount(self._round).tolist()
            left = ~self._reviewed
            reasons = pd.Series(self._reason[left]).value_counts().to_dict()
            reasons[DISPUTED] = int((self._disputed & left).sum())
            return {
                "label": [(n, c) for n, c in zip(self._names, labels, strict=True) if c],
                "source": [(n, c) for n, c in zip(_SOURCES, sources, strict=True) if c],
                "reason": [(str(n), int(c)) for n, c in reasons.items() if n and c],
                "round": [(n, c) for n, c in enumerate(rounds) if n and c],
            }

    def colors(self, ids: Ids) -> tuple[list[str], IntArray, IntArray]:
        """Names of labels, and the label and source of each of ``ids`` as numbers, for the map.

        Images without a label have the number 0, whose name is empty; so do unknown ones.
        """
        rows = np.array([self._rows.get(item_id, -1) for item_id in ids.tolist()], dtype=np.int64)
        known = rows >= 0
        none = _SOURCES.index(LabelSource.NONE)
        with self._lock:
            label = np.where(known, self._label[rows], 0).astype(np.int64)
            source = np.where(known, self._source[rows], none).astype(np.int64)
            return list(self._names), label, source

    def _part(self, listing: Listing, offset: int, n: int) -> list[int]:
        return [int(row) for row in listing.positions[offset : offset + min(n, MAX_PAGE)]]

    def _item(
        self, row: int, names: Sequence[str], answers: Mapping[str, ShownAnswer | None]
    ) -> GalleryItem:
        item_id, guess = str(self._ids[row]), str(self._guess[row])
        guesses: list[ShownGuess] = []
        if guess:
            guesses = [{"label": guess, "probability": float(self._probability[row])}]
        reviewed = bool(self._reviewed[row])
        disputed = bool(self._disputed[row]) and not reviewed
        return GalleryItem(
            id=item_id,
            path=str(self._paths[row]),
            label=names[int(self._label[row])],
            source=_SOURCES[int(self._source[row])],
            round=int(self._round[row]),
            guesses=guesses,
            reason="" if reviewed else DISPUTED if disputed else str(self._reason[row]),
            is_kept=bool(self._kept[row]),
            answer=answers.get(item_id),
        )

    def _encode(self, labels: pd.Series) -> _Codes:
        """Numbers for names; new names are added."""
        codes, uniques = pd.factorize(labels)
        numbers = [self._names.setdefault(str(name), len(self._names)) for name in uniques]
        return np.array([*numbers, 0], dtype=np.int32)[codes]

    def _set(self, row: int, answer: Answer | None) -> None:
        """The label of one image, by a person; None for the one that it had before."""
        final = answer is not None and answer.kind in (AnswerKind.LABEL, AnswerKind.NONE)
        self._reviewed[row] = final
        if answer is not None and final:
            name = answer.label or NONE_TEXT
            self._label[row] = self._names.setdefault(name, len(self._names))
            self._source[row] = _SOURCES.index(LabelSource.REVIEWED)
            self._round[row] = 0
        else:
            label, source, accepted = self._before
            self._label[row], self._source[row] = label[row], source[row]
            self._round[row] = accepted[row]

    def _make_orders(
        self, table: pd.DataFrame, suspicion: Mapping[str, float]
    ) -> dict[Sorting, IntArray]:
        """Each order as positions; equal ones by path, those without a probability last."""
        by_path = np.argsort(np.argsort(self._paths.astype(np.str_), kind="stable"))
        low = np.nan_to_num(self._probability, nan=np.inf)
        high = np.nan_to_num(-self._probability, nan=np.inf)
        sure = table["calibrated"].to_numpy(dtype=np.float64)
        sure = np.where(self._kept | np.isnan(sure), np.inf, sure)
        pseudo = self._source == _SOURCES.index(LabelSource.PSEUDO)
        slip = self._reason == str(Reason.SUSPICIOUS)
        doubt = np.array([suspicion.get(i, np.inf) for i in self._ids.tolist()])
        rank = np.select([slip, pseudo], [0, 1], 2)
        within = np.where(slip, doubt, sure)
        return {
            Sorting.ERRORS: np.lexsort((by_path, within, rank)).astype(np.int64),
            Sorting.UNSURE: np.lexsort((by_path, low)).astype(np.int64),
            Sorting.SURE: np.lexsort((by_path, high)).astype(np.int64),
            Sorting.PATH: np.argsort(by_path).astype(np.int64),
        }

    def _select(self, wanted: Filter) -> IntArray:
        fits = self._fits(wanted)
        order = self._by_similarity(wanted.like) if wanted.like else self._orders[wanted.sorting]
        chosen = order[fits[order]]
        if wanted.sorting is Sorting.ERRORS and not wanted.like:
            done = self._reviewed[chosen]  # a person has looked at them
            chosen = np.concatenate([chosen[~done], chosen[done]])
        return chosen

    def _fits(self, wanted: Filter) -> BoolArray:
        fits = np.ones(len(self._ids), dtype=bool)
        if wanted.label is not None:
            fits &= self._label == self._names.get(wanted.label, -1)
        if wanted.source is not None:
            fits &= self._source == _SOURCES.index(wanted.source)
        if wanted.reason == DISPUTED:
            fits &= self._disputed & ~self._reviewed
        elif wanted.reason:
            fits &= (self._reason == wanted.reason) & ~self._reviewed
        if wanted.round is not None:
            fits &= self._round == wanted.round
        if wanted.least > 0 or wanted.most < 1:
            known = np.nan_to_num(self._probability, nan=-1.0)
            fits &= (known >= wanted.least) & (known <= wanted.most)
        if wanted.text:
            if self._folded is None:
                self._folded = np.char.lower(self._paths.astype(np.str_))
            fits &= np.char.find(self._folded, wanted.text.lower()) >= 0
        if wanted.within:
            fits &= self._inside(wanted.within)
        return fits

    def _inside(self, corners: Sequence[tuple[float, float]]) -> BoolArray:
        """(N,) which images lie inside a polygon on the map; none without a map."""
        if self._embedding is None or self._embedding.xy is None:
            return np.zeros(len(self._ids), dtype=bool)
        rows = self._embedding.rows(self._ids)
        inside = inside_polygon(self._embedding.xy, corners)
        return np.where(rows >= 0, inside[rows], False)

    def _by_similarity(self, item_id: str) -> IntArray:
        """All positions, the most similar to the image first, itself among them."""
        if self._embedding is None or item_id not in self._rows:
            return self._orders[Sorting.ERRORS]
        similarity = self._embedding.similarity(item_id, self._ids)
        return np.argsort(-similarity, kind="stable").astype(np.int64)


def inside_polygon(xy: FloatArray, corners: Sequence[tuple[float, float]]) -> BoolArray:
    """(N,) which points (N, 2) lie inside a polygon, by the even-odd rule."""
    shape = np.array(corners, dtype=np.float64)
    low, high = shape.min(axis=0), shape.max(axis=0)
    near = np.flatnonzero(((xy >= low) & (xy <= high)).all(axis=1))
    x, y = xy[near].T.astype(np.float64)
    odd = np.zeros(len(near), dtype=bool)
    for (x0, y0), (x1, y1) in zip(shape, np.roll(shape, -1, axis=0), strict=True):
        if y0 == y1:
            continue
        crosses = (y0 > y) != (y1 > y)
        odd ^= crosses & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
    inside = np.zeros(len(xy), dtype=bool)
    inside[near] = odd
    return inside
