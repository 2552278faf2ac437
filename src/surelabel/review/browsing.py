"""Looking at all images of a run: the gallery, the map of similar images, people's agreement."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from surelabel.errors import InputError
from surelabel.messages.annotators import agreement_rows, agreement_sentences
from surelabel.review.gallery import Filter, Gallery
from surelabel.review.queue import shown_answer
from surelabel.review.training import Status, TrainingProcess
from surelabel.runs.embedding import Embedding, has_current_embedding
from surelabel.runs.folder import RunFolder
from surelabel.types import JsonObject, LabelSource, derive_seed
from surelabel.workflows.annotators import agreement_of

if TYPE_CHECKING:
    from surelabel.review.session import ReviewSession

MAX_POINTS = 50_000
"""Points that the map shows; of more images, so many at random."""
_MAX_CORNERS = 400


class Browsing:
    """The gallery and the map of one session."""

    def __init__(self, session: ReviewSession) -> None:
        self._session = session
        self.mapper = TrainingProcess(session.folder.path, self._on_status, lambda: None)

    def page(self, wanted: Filter, offset: int, n: int, version: int | None) -> JsonObject:
        """``n`` images that fit, from place ``offset`` on, and how many there are in all.

        With ``version``, an earlier answer's, the list is the same as it was then.
        """
        gallery, queue = self._gallery(), self._session.queue
        listing = gallery.listing(wanted, version)
        ids = gallery.ids(listing, offset, n)
        answers = {i: shown_answer(a) for i, a in queue.standing_of(ids).items()}
        return {
            "total": len(listing.positions),
            "version": listing.version,
            "items": gallery.items(listing, offset, n, answers),
        }

    def counts(self) -> JsonObject:
        """What the gallery can be filtered by, with the number of images."""
        gallery, embedding = self._gallery(), self._session.queue.embedding()
        people = agreement_of(self._session.queue.folder)
        return {
            "total": len(gallery),
            **gallery.counts(),
            "can_compare": embedding is not None,
            "agreement": agreement_sentences(people),
            "agreement_by_class": agreement_rows(people),
        }

    def map_status(self) -> JsonObject:
        """Whether there is a map, and what it is made of."""
        folder = RunFolder.open(self._session.folder.path)
        embedding = self._session.queue.embedding()
        has_map = embedding is not None and embedding.xy is not None
        return {
            **self.mapper.status.to_json(),
            "has_map": has_map,
            "is_current": has_map and has_current_embedding(folder, embedding),
            "n_landmarks": embedding.n_landmarks if embedding else 0,
        }

    def start_map(self) -> JsonObject:
        """Draw the map in the background, unless it is drawn or being drawn."""
        self._gallery()
        if not self.map_status()["is_current"] and not self.mapper.running:
            self.mapper.embed()
        return self.map_status()

    def points(self) -> bytes:
        """The map: a JSON header, then places, labels, sources and ids of the points.

        The header's length comes first (uint32), and spaces fill it to a multiple of 4. Then for n
        points: n times x and y (float32), n labels and n sources (uint16), n ids (8 bytes each).
        """
        gallery, embedding = self._gallery(), self._session.queue.embedding()
        if embedding is None or embedding.xy is None:
            raise InputError("There is no map yet.")
        rng = np.random.default_rng(derive_seed(0, "points"))
        shown = np.sort(rng.permutation(len(embedding.ids))[:MAX_POINTS])
        return _pack(gallery, embedding, shown.tolist())

    def close(self) -> None:
        """Stop drawing."""
        self.mapper.close()

    def _gallery(self) -> Gallery:
        queue = self._session.queue
        if queue.task.blind:
            raise InputError("The gallery is closed during a check: it would show the run's label.")
        if not queue.n_rounds:
            raise InputError("The gallery opens after the first training.")
        return queue.gallery()

    def _on_status(self, status: Status) -> None:
        self._session.events.publish("map", **status.to_json())


def parse_corners(text: str) -> tuple[tuple[float, float], ...]:
    """The corners of a polygon, written as ``x,y,x,y`` and so on."""
    try:
        values = [float(part) for part in text.split(",")] if text else []
    except ValueError:
        values = [float("nan")]
    if len(values) % 2 or not np.isfinite(values).all() or len(values) > 2 * _MAX_CORNERS:
        raise InputError("A selection on the map is a list of pairs of numbers.")
    return tuple(zip(values[::2], values[1::2], strict=True))


def _pack(gallery: Gallery, embedding: Embedding, shown: Sequence[int]) -> bytes:
    rows = np.array(shown, dtype=np.int64)
    ids = embedding.ids[rows]
    names, label, source = gallery.colors(ids)
    assert embedding.xy is not None
    about = {
        "n": len(rows),
        "n_images": len(embedding.ids),
        "n_landmarks": embedding.n_landmarks,
        "labels": names,
        "sources": list(map(str, LabelSource)),
    }
    header = json.dumps(about).encode()
    header += b" " * (-len(header) % 4)
    parts = (
        embedding.xy[rows].astype("<f4").tobytes(),
        label.astype("<u2").tobytes(),
        source.astype("<u2").tobytes(),
        b"".join(bytes.fromhex(item_id) for item_id in ids.tolist()),
    )
    return struct.pack("<I", len(header)) + header + b"".join(parts)
