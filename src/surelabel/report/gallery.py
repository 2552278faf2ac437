"""Galleries of the report: certain and uncertain labels, images left, suspicious labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import pandas as pd

from surelabel.dataset.array_store import Pixels, PixelStore, cache_folder
from surelabel.dataset.pixels import open_pixels
from surelabel.dataset.thumbnails import encode_thumbnail
from surelabel.report.facts import Facts
from surelabel.report.plots import data_uri
from surelabel.selection.reasons import Reason
from surelabel.types import FloatArray, LabelSource
from surelabel.workflows.attention import CELL

MAX_IMAGES = 20
"""Images in a gallery."""
MAX_SIDE = 96
"""Longer side of a thumbnail in pixels."""
_PIXELATED_SIDE = 48
"""Images up to this side are shown pixel by pixel, without loss."""
_JPEG_QUALITY = 82
_SHADE = 0.3
_REASONS_LEFT = (Reason.UNFAMILIAR, Reason.AMBIGUOUS, Reason.BORDERLINE, Reason.OUTLIER)
"""Brightness where nets with the tail detail did not look at all."""


@dataclass(frozen=True)
class Thumbnail:
    """An image of a gallery."""

    path: str
    uri: str
    """Empty where the pixels are no longer in the cache."""
    caption: str
    pixelated: bool


@dataclass(frozen=True)
class Gallery:
    """Some images under a title."""

    name: str
    title: str
    caption: str
    images: tuple[Thumbnail, ...]


@dataclass(frozen=True)
class _Selection:
    """The rows of the annotations that a gallery shows, with a caption for each."""

    name: str
    title: str
    caption: str
    rows: pd.DataFrame
    captions: list[str]


def galleries(facts: Facts) -> list[Gallery]:
    """All galleries that have an image to show."""
    table = facts.annotations
    pseudo = table[table["source"] == str(LabelSource.PSEUDO)].sort_values("score", kind="stable")
    left = table[(table["source"] == str(LabelSource.NONE)) & table["guess"].notna()]
    left = left.sort_values("score", ascending=False, kind="stable")
    suspicious = table[table["reason"] == str(Reason.SUSPICIOUS)]
    selections = [
        _most_certain(pseudo),
        _barely_accepted(pseudo),
        *(_left(left, reason) for reason in _REASONS_LEFT),
        _suspicious(suspicious.sort_values("probability", ascending=False, kind="stable")),
    ]
    store = open_pixels(facts.catalog, cache_folder(facts.config.cache))
    bright = " Bright where the nets looked." if facts.attention is not None else ""
    return [
        Gallery(
            each.name,
            each.title,
            each.caption + bright,
            _thumbnails(facts, store, each.rows, each.captions),
        )
        for each in selections
        if len(each.rows)
    ]


def no_suspicious(facts: Facts) -> str:
    """The sentence that no given label is suspicious; empty if one is, or none was checked."""
    if facts.last is None or (facts.annotations["reason"] == str(Reason.SUSPICIOUS)).any():
        return ""
    n = len(facts.last)
    return f"No suspicious labels: none of {n:,} held-out labels by people looks like a mistake."


def _most_certain(pseudo: pd.DataFrame) -> _Selection:
    by_class = [rows.index.tolist() for _, rows in pseudo.groupby("label", sort=True)]
    turns = [i for turn in zip_longest(*by_class) for i in turn if i is not None][:MAX_IMAGES]
    rows = pseudo.loc[turns].sort_values(["label", "score"], kind="stable")
    caption = f"The lowest scores of each class: {len(rows)} of {len(pseudo):,} pseudo-labels."
    return _Selection("surest", "Most certain", caption, rows, _predictions(rows))


def _barely_accepted(pseudo: pd.DataFrame) -> _Selection:
    rows = pseudo.iloc[::-1][:MAX_IMAGES]
    caption = (
        f"The {len(rows)} pseudo-labels closest to the threshold: look for wrong ones here first."
    )
    return _Selection("barely", "Barely accepted", caption, rows, _predictions(rows))


def _left(left: pd.DataFrame, reason: Reason) -> _Selection:
    why = {
        Reason.UNFAMILIAR: "the models disagree; labeling these helps most",
        Reason.AMBIGUOUS: "the models agree that they cannot tell",
        Reason.BORDERLINE: "the guess is clear but not sure enough",
        Reason.OUTLIER: "they look like none of the classes",
    }[reason]
    rows = left[left["reason"] == str(reason)]
    shown = rows[:MAX_IMAGES]
    caption = (
        f"The {len(shown)} most uncertain of {len(rows):,} images left unlabeled because {why}."
    )
    return _Selection(
        f"left-{reason}", f"Left unlabeled: {reason}", caption, shown, _predictions(shown)
    )


def _suspicious(suspicious: pd.DataFrame) -> _Selection:
    rows = suspicious[:MAX_IMAGES]
    caption = (
        f"{len(suspicious):,} labels by people that a net which was not trained on them "
        "contradicts with confidence. They stay as given; are they mistakes?"
    )
    columns = zip(rows["label"], rows["guess"], rows["probability"], strict=True)
    captions = [f"given {label}; guess {guess}, {100 * p:.0f} %" for label, guess, p in columns]
    return _Selection("suspicious", "Suspicious labels", caption, rows, captions)


def _predictions(rows: pd.DataFrame) -> list[str]:
    return [
        f"{g}, {100 * p:.0f} %" for g, p in zip(rows["guess"], rows["probability"], strict=True)
    ]


def _thumbnails(
    facts: Facts, store: PixelStore, rows: pd.DataFrame, captions: Sequence[str]
) -> tuple[Thumbnail, ...]:
    """One for each row, in order, from the cache of decoded images; files are not read again."""
    ids = np.array(rows["id"].tolist(), dtype=np.str_)
    digests = facts.catalog.digests[facts.catalog.rows(ids)]
    there = ~np.isin(digests, store.missing(digests))
    shown = dict(zip(ids[there].tolist(), store.gather(digests[there]), strict=True))
    if facts.attention is not None and len(shown):
        maps = facts.attention(ids[there])
        shown = {i: _lit(shown[i], each) for i, each in zip(shown, maps, strict=True)}
    pixelated = facts.catalog.size <= _PIXELATED_SIDE
    return tuple(
        Thumbnail(str(path), _thumbnail_uri(shown[i]) if i in shown else "", caption, pixelated)
        for i, path, caption in zip(ids.tolist(), rows["path"], captions, strict=True)
    )


def _lit(pixels: Pixels, attention: FloatArray) -> Pixels:
    """(S, S, C) ``pixels``, darker where the nets did not look."""
    light = _SHADE + (1 - _SHADE) * np.sqrt(attention / attention.max())
    light = np.kron(light, np.ones((CELL, CELL)))[: len(pixels), : pixels.shape[1], None]
    return np.rint(pixels * light).astype(np.uint8)


def _thumbnail_uri(pixels: Pixels) -> str:
    content, media_type = encode_thumbnail(
        pixels, MAX_SIDE, lossless_side=_PIXELATED_SIDE, jpeg_quality=_JPEG_QUALITY
    )
    return data_uri(content, media_type)
