"""Images for the browser, by item id: no path ever comes from outside.

Files are decoded and encoded again, never passed on, so only pixels reach the browser, whatever
the file claims to be.
"""

from __future__ import annotations

import io
import threading
from collections import OrderedDict
from enum import IntEnum

from PIL import Image, ImageOps

from surelabel.dataset.array_store import Pixels, PixelStore
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.decode import open_image
from surelabel.dataset.file_index import content_digest
from surelabel.dataset.locations import read_content
from surelabel.dataset.thumbnails import encode_thumbnail

_LOSSLESS_SIDE = 511
"""Images up to this side are sent as PNG, larger ones as JPEG, also when they are shrunk: a tile of
a photograph takes 18 ms to encode as PNG, and 2 ms as JPEG."""
_JPEG_QUALITY = 88
_CACHE_BYTES = 2**27


class Size(IntEnum):
    """The sizes that pages request: the longer side in pixels, at most."""

    SMALL = 256
    """A tile of the grid."""
    MEDIUM = 1024
    """A single image on a usual screen; decoded in half the time of a large one."""
    LARGE = 1600
    """A single image on a large or high-resolution screen."""


class Pictures:
    """Encodes the images of a catalog and caches the latest ones; safe for several threads."""

    def __init__(self, catalog: Catalog, store: PixelStore) -> None:
        self._catalog, self._store = catalog, store
        self._cached: OrderedDict[tuple[str, int], tuple[bytes, str]] = OrderedDict()
        self._cached_bytes = 0
        self._lock = threading.Lock()

    def tag(self, item_id: str, side: int) -> str:
        """The ETag: it differs for every image content and size."""
        row = self._catalog.row_of(item_id)
        return f'"{self._catalog.digests[row]}-{side}"' if row is not None else '""'

    def get(self, item_id: str, side: int) -> tuple[bytes, str] | None:
        """The image at most ``side`` pixels wide and high, and its media type; None if unknown."""
        row = self._catalog.row_of(item_id)
        if row is None:
            return None
        key = (item_id, side)
        with self._lock:
            if key in self._cached:
                self._cached.move_to_end(key)
                return self._cached[key]
        from_file = self._from_file(row, side)
        image, is_large = (self._from_store(row), False) if from_file is None else from_file
        if image is None:
            return None
        lossless = 0 if is_large else _LOSSLESS_SIDE
        encoded = encode_thumbnail(image, side, lossless_side=lossless, jpeg_quality=_JPEG_QUALITY)
        with self._lock:
            if key not in self._cached:
                self._cached[key] = encoded
                self._cached_bytes += len(encoded[0])
            while self._cached_bytes > _CACHE_BYTES and len(self._cached) > 1:
                self._cached_bytes -= len(self._cached.popitem(last=False)[1][0])
        return encoded

    def _from_file(self, row: int, side: int) -> tuple[Image.Image, bool] | None:
        """The image in its file, if that still has the content that the catalog knows.

        The second value is whether it is too large to be sent without loss.
        """
        file = str(self._catalog.files[row])
        try:
            content = read_content(file) if file else b""
            if content_digest(content) != self._catalog.digests[row]:
                return None
            image = open_image(io.BytesIO(content))
            if image.mode.startswith(("I", "F")):
                return None
            is_large = max(image.size) > _LOSSLESS_SIDE
            image.draft("RGB", (side, side))
            return ImageOps.exif_transpose(image), is_large
        except Exception:
            # Pillow's decoders raise nearly anything; then the stored pixels are shown.
            return None

    def _from_store(self, row: int) -> Pixels | None:
        digest = self._catalog.digests[row : row + 1]
        with self._lock:
            if len(self._store.missing(digest)):
                return None
            pixels: Pixels = self._store.gather(digest)[0]
            return pixels
