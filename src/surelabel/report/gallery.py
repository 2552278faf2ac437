"""Galleries: the surest images, those barely accepted, the least sure by reason, odd labels."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pandas as pd
from PIL import Image

from surelabel.dataset.array_store import cache_folder
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import open_pixels
from surelabel.report.facts import Facts
from surelabel.report.plots import data_uri
from surelabel.selection.reasons import Reason
from surelabel.types import LabelSource

MOST = 20
"""Images in a gallery."""
SIDE = 96
"""Largest side of a thumbnail, in pixels."""
_SMALL = 48
"""Up to this side images are kept pixel by pixel."""


@dataclass(frozen=True)
class Thumbnail:
    """An image of a gallery, small, with what is said of it."""

    path: str
    uri: str
    """Empty where the pixels are not at hand any more."""
    says: str
    pixelated: bool


@dataclass(frozen=True)
class Gallery:
    """Some images under a heading."""

    name: str
    title: str
    says: str
    images: tuple[Thumbnail, ...]


def galleries(facts: Facts) -> list[Gallery]:
    """Those that have an image to show."""
    table = facts.annotations
    pseudo = table[table["source"] == str(LabelSource.PSEUDO)].sort_values("score", kind="stable")
    left = table[(table["source"] == str(LabelSource.NONE)) & table["guess"].notna()]
    left = left.sort_values("score", ascending=False, kind="stable")
    odd = table[table["reason"] == str(Reason.SUSPICIOUS)]
    chosen = [
        _surest(pseudo),
        _barely(pseudo),
        *(_left(left, reason) for reason in (Reason.UNFAMILIAR, Reason.AMBIGUOUS, Reason.OUTLIER)),
        _suspicious(odd.sort_values("probability", ascending=False, kind="stable")),
    ]
    show = Thumbnails(facts.catalog, cache_folder(facts.config.cache))
    return [
        Gallery(name, title, says, show.of(rows, words))
        for name, title, says, rows, words in chosen
        if len(rows)
    ]


def no_suspicious(facts: Facts) -> str:
    """That no label by people looks like a slip, where that was looked for and none does."""
    if facts.last is None or (facts.annotations["reason"] == str(Reason.SUSPICIOUS)).any():
        return ""
    n = len(facts.last)
    return f"No suspicious labels: of {n:,} held-out labels by people none looks like a slip."


_Choice = tuple[str, str, str, pd.DataFrame, list[str]]


def _surest(pseudo: pd.DataFrame) -> _Choice:
    by_class = [rows.index.tolist() for _, rows in pseudo.groupby("label", sort=True)]
    turns = [i for turn in zip_longest(*by_class) for i in turn if i is not None][:MOST]
    rows = pseudo.loc[turns].sort_values(["label", "score"], kind="stable")
    says = f"The lowest scores of each class, {len(rows)} of {len(pseudo):,} labels by the run."
    return "surest", "The surest", says, rows, _guesses(rows)


def _barely(pseudo: pd.DataFrame) -> _Choice:
    rows = pseudo.iloc[::-1][:MOST]
    says = f"The {len(rows)} labels by the run closest to its threshold: look here for wrong ones."
    return "barely", "Barely accepted", says, rows, _guesses(rows)


def _left(left: pd.DataFrame, reason: Reason) -> _Choice:
    why = {
        Reason.UNFAMILIAR: "the nets disagree; labels of these teach most",
        Reason.AMBIGUOUS: "the nets agree that they cannot tell",
        Reason.OUTLIER: "they look like none of the classes",
    }[reason]
    rows = left[left["reason"] == str(reason)]
    says = f"The {min(MOST, len(rows))} least sure of {len(rows):,} images left because {why}."
    return f"left-{reason}", f"Left: {reason}", says, rows[:MOST], _guesses(rows[:MOST])


def _suspicious(odd: pd.DataFrame) -> _Choice:
    rows = odd[:MOST]
    says = (
        f"{len(odd):,} labels by people that a net which had not seen them contradicts with "
        "confidence. They stand as given; are they slips?"
    )
    pairs = zip(rows["label"], rows["guess"], rows["probability"], strict=True)
    words = [f"given {label}; guess {guess}, {100 * p:.0f} %" for label, guess, p in pairs]
    return "suspicious", "Suspicious labels", says, rows, words


def _guesses(rows: pd.DataFrame) -> list[str]:
    return [
        f"{g}, {100 * p:.0f} %" for g, p in zip(rows["guess"], rows["probability"], strict=True)
    ]


class Thumbnails:
    """Small pictures from the cache of decoded images; files are not read again."""

    def __init__(self, catalog: Catalog, cache: Path) -> None:
        self._catalog = catalog
        self._store = open_pixels(catalog, cache)

    def of(self, rows: pd.DataFrame, words: Sequence[str]) -> tuple[Thumbnail, ...]:
        """One for each row, in order."""
        ids = np.array(rows["id"].tolist(), dtype=np.str_)
        digests = self._catalog.digests[self._catalog.rows(ids)]
        missing = set(self._store.missing(digests).tolist())
        small = self._catalog.size <= _SMALL
        made = []
        for path, digest, says in zip(rows["path"], digests, words, strict=True):
            uri = "" if str(digest) in missing else self._encode(digest)
            made.append(Thumbnail(str(path), uri, says, small))
        return tuple(made)

    def _encode(self, digest: np.str_) -> str:
        pixels = self._store.gather(np.array([digest]))[0]
        image = Image.fromarray(np.asarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels))
        buffer = io.BytesIO()
        if max(image.size) <= _SMALL:
            image.save(buffer, "PNG", optimize=True)
            return data_uri(buffer.getvalue(), "image/png")
        image.thumbnail((SIDE, SIDE), Image.Resampling.LANCZOS)
        image.save(buffer, "JPEG", quality=82)
        return data_uri(buffer.getvalue(), "image/jpeg")
