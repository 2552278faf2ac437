"""The gallery: every image of a run with its label, filtered and sorted, a page at a time.

The columns are read once from the result of the last round, as numbers: names and reasons are kept
once, and ids and paths are those of the catalog. People's answers that came since are added when
somebody looks, one by one. An order is computed when somebody asks for it, and a filter is applied
once; further pages of the same list cost as much as they show. The list does not change while
somebody goes through it, although an answer may mean that an image no longer fits the filter.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, TypedDict

import numpy as np
import numpy.typing as npt
import pandas as pd

from surelabel.dataset.catalog import Catalog
from surelabel.dataset.items import string_array
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


class _Names:
    """Texts that many images share, as numbers. The first is empty, unless others are given."""

    def __init__(self, names: Sequence[str] = ("",)) -> None:
        self.names = list(names)
        self.numbers = {name: number for number, name in enumerate(self.names)}

    def number(self, name: str) -> int:
        """The number of a name; a new name gets the next."""
        number = self.numbers.setdefault(str(name), len(self.names))
        if number == len(self.names):
            self.names.append(str(name))
        return number

    def encode(self, column: pd.Series) -> _Codes:
        """(N,) the numbers of a column; the first for what is missing."""
        codes, uniques = pd.factorize(column)
        return np.array([*map(self.number, uniques), 0], dtype=np.int32)[codes]


class Gallery:
    """The images of one run after its last round."""

    def __init__(
        self,
        catalog: Catalog,
        table: pd.DataFrame,
        *,
        kept: BoolArray,
        suspicion: Mapping[str, float],
        disputed: Sequence[str] = (),
        embedding: Callable[[], Embedding | None] = lambda: None,
    ) -> None:
        """``table`` has a row per image of ``catalog``, without the answers that come later.

        ``kept`` (N,) are images of a check, of which the run's part is hidden. ``suspicion`` of
        people's labels is by id; the lowest is the most suspicious. ``embedding`` says where the
        images lie, once that is known.
        """
        self._catalog, self._kept = catalog, kept
        run = kept & (table["source"] == str(LabelSource.PSEUDO)).to_numpy()
        self._names = _Names()
        self._label = np.where(run, 0, self._names.encode(table["label"]))
        self._guess = np.where(kept, 0, self._names.encode(table["guess"]))
        sources = _Names(_SOURCES).encode(table["source"])
        self._source = np.where(run, _SOURCES.index(LabelSource.NONE), sources)
        self._round = np.where(run, 0, table["round"].to_numpy(dtype=np.int32))
        self._reasons = _Names()
        self._reason = np.where(kept, 0, self._reasons.encode(table["reason"]))
        self._probability = _hide(table["probability"], kept)
        self._calibrated = _hide(table["calibrated"], kept)
        self._doubt = np.full(len(table), np.inf)
        """(N,) how credible people's labels are that look wrong."""
        self._doubt[catalog.rows(string_array(suspicion))] = list(suspicion.values())
        self._disputed = np.zeros(len(table), dtype=bool)
        self._disputed[self._rows(disputed)] = True
        self._before = (self._label.copy(), self._source.copy(), self._round.copy())
        self._reviewed = np.zeros(len(table), dtype=bool)
        self._find_embedding = embedding
        self._embedding: Embedding | None = None
        self._orders: dict[Sorting, IntArray] = {}
        self._lists: OrderedDict[tuple[Filter, int], Listing] = OrderedDict()
        self._version = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._label)

    @property
    def version(self) -> int:
        """The number of the last answer that was taken in."""
        return self._version

    def take_in(self, version: int, items: Sequence[str], answers: Mapping[str, Answer]) -> None:
        """``items`` were answered up to number ``version``; ``answers`` of them stand now."""
        with self._lock:
            known = string_array(items)
            known = known[self._catalog.has(known)]
            for item_id, row in zip(known.tolist(), self._catalog.rows(known), strict=True):
                self._set(int(row), answers.get(item_id))
            self._version = max(version, self._version)

    def listing(self, wanted: Filter, version: int | None = None) -> Listing:
        """The images that fit; with ``version`` the list as it was then, if it is still known."""
        with self._lock:
            embedding = self._find_embedding()
            if embedding is not self._embedding:
                self._embedding = embedding
                self._lists.clear()
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
        return [self._item(row, answers) for row in self._part(listing, offset, n)]

    def ids(self, listing: Listing, offset: int, n: int) -> list[str]:
        """Their ids."""
        return [str(self._catalog.ids[row]) for row in self._part(listing, offset, n)]

    def counts(self) -> dict[str, list[tuple[str | int, int]]]:
        """How many images have each label, source, reason and round, as they are now."""
        with self._lock:
            left = ~self._reviewed
            rounds = np.bincount(self._round).tolist()
            reasons = _count(self._reasons.names, self._reason[left])
            disputed = int((self._disputed & left).sum())
            return {
                "label": _count(self._names.names, self._label),
                "source": _count(_SOURCES, self._source),
                "reason": [
                    *((name, n) for name, n in reasons if name),
                    *([(DISPUTED, disputed)] if disputed else []),
                ],
                "round": [(n, c) for n, c in enumerate(rounds) if n and c],
            }

    def colors(self, ids: Ids) -> tuple[list[str], IntArray, IntArray]:
        """Names of labels, and the label and source of each of ``ids`` as numbers, for the map.

        Images without a label have the number 0, whose name is empty; so do unknown ones.
        """
        known = self._catalog.has(ids)
        rows = np.zeros(len(ids), dtype=np.int64)
        rows[known] = self._catalog.rows(ids[known])
        none = _SOURCES.index(LabelSource.NONE)
        with self._lock:
            label = np.where(known, self._label[rows], 0).astype(np.int64)
            source = np.where(known, self._source[rows], none).astype(np.int64)
            return list(self._names.names), label, source

    def _part(self, listing: Listing, offset: int, n: int) -> list[int]:
        return [int(row) for row in listing.positions[offset : offset + min(n, MAX_PAGE)]]

    def _rows(self, item_ids: Sequence[str]) -> IntArray:
        known = string_array(item_ids)
        return self._catalog.rows(known[self._catalog.has(known)])

    def _item(self, row: int, answers: Mapping[str, ShownAnswer | None]) -> GalleryItem:
        names = self._names.names
        item_id, guess = str(self._catalog.ids[row]), names[int(self._guess[row])]
        guesses: list[ShownGuess] = []
        if guess:
            guesses = [{"label": guess, "probability": float(self._probability[row])}]
        reviewed = bool(self._reviewed[row])
        disputed = bool(self._disputed[row]) and not reviewed
        reason = self._reasons.names[int(self._reason[row])]
        return GalleryItem(
            id=item_id,
            path=str(self._catalog.paths[row]),
            label=names[int(self._label[row])],
            source=_SOURCES[int(self._source[row])],
            round=int(self._round[row]),
            guesses=guesses,
            reason="" if reviewed else DISPUTED if disputed else reason,
            is_kept=bool(self._kept[row]),
            answer=answers.get(item_id),
        )

    def _set(self, row: int, answer: Answer | None) -> None:
        """The label of one image, by a person; None for the one that it had before."""
        final = answer is not None and answer.kind in (AnswerKind.LABEL, AnswerKind.NONE)
        self._reviewed[row] = final
        if answer is not None and final:
            name = answer.label or NONE_TEXT
            self._label[row] = self._names.number(name)
            self._source[row] = _SOURCES.index(LabelSource.REVIEWED)
            self._round[row] = 0
        else:
            label, source, accepted = self._before
            self._label[row], self._source[row] = label[row], source[row]
            self._round[row] = accepted[row]

    def _order(self, sorting: Sorting) -> IntArray:
        """All positions in an order."""
        if sorting not in self._orders:
            self._orders[sorting] = self._sort(sorting)
        return self._orders[sorting]

    def _sort(self, sorting: Sorting) -> IntArray:
        """Equal ones by path, those without a probability last."""
        if sorting is Sorting.PATH:
            return np.argsort(self._catalog.paths, kind="stable").astype(np.int64)
        keys = self._sort_keys(sorting)
        by_path = self._order(Sorting.PATH)
        found: IntArray = by_path[np.lexsort([key[by_path] for key in keys])]
        return found

    def _sort_keys(self, sorting: Sorting) -> list[npt.NDArray[np.generic]]:
        """What images are sorted by, the last key first."""
        if sorting is Sorting.UNSURE:
            return [np.nan_to_num(self._probability, nan=np.inf)]
        if sorting is Sorting.SURE:
            return [np.nan_to_num(-self._probability, nan=np.inf)]
        pseudo = self._before[1] == _SOURCES.index(LabelSource.PSEUDO)
        slip = self._reason == self._reasons.number(Reason.SUSPICIOUS)
        sure = np.nan_to_num(self._calibrated, nan=np.inf)
        return [np.where(slip, self._doubt, sure), np.select([slip, pseudo], [0, 1], 2)]

    def _select(self, wanted: Filter) -> IntArray:
        fits = self._fits(wanted)
        order = self._by_similarity(wanted.like) if wanted.like else self._order(wanted.sorting)
        chosen = order[fits[order]]
        if wanted.sorting is Sorting.ERRORS and not wanted.like:
            done = self._reviewed[chosen]  # a person has looked at them
            chosen = np.concatenate([chosen[~done], chosen[done]])
        return chosen

    def _fits(self, wanted: Filter) -> BoolArray:
        fits = np.ones(len(self), dtype=bool)
        if wanted.label is not None:
            fits &= self._label == self._names.numbers.get(wanted.label, -1)
        if wanted.source is not None:
            fits &= self._source == _SOURCES.index(wanted.source)
        if wanted.reason == DISPUTED:
            fits &= self._disputed & ~self._reviewed
        elif wanted.reason:
            fits &= self._reason == self._reasons.numbers.get(wanted.reason, -1)
            fits &= ~self._reviewed
        if wanted.round is not None:
            fits &= self._round == wanted.round
        if wanted.least > 0 or wanted.most < 1:
            known = np.nan_to_num(self._probability, nan=-1.0)
            fits &= (known >= wanted.least) & (known <= wanted.most)
        if wanted.text:
            fits &= np.char.find(self._folded_paths, wanted.text.lower()) >= 0
        if wanted.within:
            fits &= self._inside(wanted.within)
        return fits

    @cached_property
    def _folded_paths(self) -> npt.NDArray[np.str_]:
        return np.char.lower(self._catalog.paths)

    def _inside(self, corners: Sequence[tuple[float, float]]) -> BoolArray:
        """(N,) which images lie inside a polygon on the map; none without a map."""
        if self._embedding is None or self._embedding.xy is None:
            return np.zeros(len(self), dtype=bool)
        rows = self._embedding.rows(self._catalog.ids)
        inside = inside_polygon(self._embedding.xy, corners)
        return np.where(rows >= 0, inside[rows], False)

    def _by_similarity(self, item_id: str) -> IntArray:
        """All positions, the most similar to the image first, itself among them."""
        if self._embedding is None or self._catalog.row_of(item_id) is None:
            return self._order(Sorting.ERRORS)
        similarity = self._embedding.similarity(item_id, self._catalog.ids)
        return np.argsort(-similarity, kind="stable").astype(np.int64)


def _hide(column: pd.Series, kept: BoolArray) -> FloatArray:
    return np.where(kept, np.nan, column.to_numpy(dtype=np.float64))


def _count(names: Sequence[str], codes: _Codes) -> list[tuple[str | int, int]]:
    """How often each name occurs; those that do not are left out."""
    counts = np.bincount(codes, minlength=len(names)).tolist()
    return [(name, n) for name, n in zip(names, counts, strict=True) if n]


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
