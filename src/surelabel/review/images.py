"""Images as a browser can show them, by item id. No path ever comes from outside.

Files are decoded and encoded again, never passed on: what reaches the browser is pixels, whatever
the file claims to be.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from enum import IntEnum
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.decode import open_image
from surelabel.dataset.file_index import content_digest


class Size(IntEnum):
    """The sizes that pages ask for: the most pixels of a side."""

    SMALL = 256
    """A tile."""
    MEDIUM = 1024
    """A frame of usual size; it is decoded in half the time of a large one."""
    LARGE = 1600
    """A large or finely grained screen."""


_LOSSLESS_BELOW = 512
_CACHE_BYTES = 2**27


class Pictures:
    """Encodes the images of a catalog and remembers the last ones; safe for several threads."""

    def __init__(self, catalog: Catalog, store: PixelStore) -> None:
        self._catalog, self._store = catalog, store
        self._row = {item_id: row for row, item_id in enumerate(catalog.ids.tolist())}
        self._kept: OrderedDict[tuple[str, int], tuple[bytes, str]] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def tag(self, item_id: str, side: int) -> str:
        """What tells this picture from every other one."""
        row = self._row.get(item_id)
        return f'"{self._catalog.digests[row]}-{side}"' if row is not None else '""'

    def get(self, item_id: str, side: int) -> tuple[bytes, str] | None:
        """The image at most ``side`` pixels wide and high, and its media type; None if unknown."""
        row = self._row.get(item_id)
        if row is None:
            return None
        key = (item_id, side)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        image = self._from_file(row, side) or self._from_store(row)
        if image is None:
            return None
        made = _encode(image, side)
        with self._lock:
            if key not in self._kept:
                self._kept[key] = made
                self._size += len(made[0])
            while self._size > _CACHE_BYTES and len(self._kept) > 1:
                self._size -= len(self._kept.popitem(last=False)[1][0])
        return made

    def _from_file(self, row: int, side: int) -> Image.Image | None:
        """The image in its file, if that is there and still is what the catalog knows."""
        file = str(self._catalog.files[row])
        try:
            content = Path(file).read_bytes() if file else b""
            if content_digest(content) != self._catalog.digests[row]:
                return None
            image = open_image(io.BytesIO(content))
            if image.mode.startswith(("I", "F")):
                return None
            image.draft("RGB", (side, side))
            return ImageOps.exif_transpose(image)
        except Exception:
            # Pillow's decoders raise nearly anything; the stored pixels take the file's place.
            return None

    def _from_store(self, row: int) -> Image.Image | None:
        digest = self._catalog.digests[row : row + 1]
        with self._lock:
            if len(self._store.missing(digest)):
                return None
            pixels = self._store.gather(digest)[0]
        return Image.fromarray(np.asarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels))


def _encode(image: Image.Image, side: int) -> tuple[bytes, str]:
    if image.mode in {"LA", "PA", "RGBA", "P"}:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    if image.mode != "L":
        image = image.convert("RGB")
    if max(image.size) > side:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    made = io.BytesIO()
    if max(image.size) < _LOSSLESS_BELOW:
        image.save(made, "PNG")
        return made.getvalue(), "image/png"
    image.save(made, "JPEG", quality=88)
    return made.getvalue(), "image/jpeg"
