"""Where did the nets look? A shade over an image, dark where they did not.

The nets are loaded when somebody asks for the first time: a page must open at once.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from surelabel.review.images import Pictures, Size
from surelabel.runs.folder import RunFolder
from surelabel.types import FloatArray
from surelabel.workflows.attention import CELL, has_attention

if TYPE_CHECKING:
    from surelabel.workflows.attention import Attention

_DARKEST = 0.65
"""Opacity of the shade where the nets did not look at all."""
_MAX_CACHED = 500


def looks_somewhere(folder: RunFolder) -> bool:
    """Whether there are nets in the run's last round that decide where to look."""
    last = folder.last_round()
    return has_attention(folder.config) and last is not None and bool(last.weights())


class AttentionShades:
    """Makes the shades of a run's images and caches the latest ones; safe for several threads."""

    def __init__(self, folder: RunFolder, pictures: Pictures) -> None:
        self._folder, self._pictures = folder, pictures
        self._cached: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, item_id: str) -> bytes | None:
        """A PNG in the proportions of the image; None where there is no such image or no net."""
        picture = self._pictures.get(item_id, Size.SMALL)
        if picture is None or not looks_somewhere(self._folder):
            return None
        with self._lock:
            if item_id not in self._cached:
                (weights,) = self._attention.maps(np.array([item_id]))
                with Image.open(io.BytesIO(picture[0])) as image:
                    shown = image.size
                catalog = self._folder.catalog
                padded = catalog.resize.endswith("pad")
                self._cached[item_id] = shade(weights, catalog.size, shown, padded=padded)
            self._cached.move_to_end(item_id)
            while len(self._cached) > _MAX_CACHED:
                self._cached.popitem(last=False)
            return self._cached[item_id]

    @cached_property
    def _attention(self) -> Attention:
        from surelabel.workflows.attention import Attention

        return Attention(self._folder)


def shade(weights: FloatArray, side: int, shown: tuple[int, int], *, padded: bool) -> bytes:
    """A black PNG of size ``shown`` (width, height), the more opaque the less a place counted.

    ``weights`` (H, W) are those of cells of the decoded image, which is ``side`` pixels wide and
    high: the last cells may reach beyond it, and where it was ``padded`` to a square, parts of it
    are not of the photograph.
    """
    light = np.sqrt(weights / weights.max()).astype(np.float32)
    longer = max(shown) if padded else 1
    margins = [(1 - each / longer) / 2 if padded else 0.0 for each in shown]
    left, top = (side * margin / CELL for margin in margins)
    end = side / CELL
    box = (left, top, end - left, end - top)
    bright = Image.fromarray(light).resize(shown, Image.Resampling.BILINEAR, box=box)
    opacity = 255 * _DARKEST * (1 - np.asarray(bright).clip(0, 1))
    black = np.zeros((shown[1], shown[0], 4), dtype=np.uint8)
    black[..., 3] = np.rint(opacity)
    file = io.BytesIO()
    Image.fromarray(black).save(file, format="PNG")
    return file.getvalue()
