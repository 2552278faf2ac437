"""Decoded images on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from surelabel.catalog.store import ArrayStore

Pixels: TypeAlias = npt.NDArray[np.uint8]


class PixelStore(ArrayStore[np.uint8]):
    """Images of one size, (S, S, C), by the digest of their files.

    ``resize`` says how they came to that size (see ``decode``).
    """

    name = "pixels"
    what = "decoded images"

    def __init__(self, cache: Path, size: int, channels: int, resize: str = "") -> None:
        self.size, self.channels, self.resize = size, channels, resize
        named = f"pixels-{size}x{size}x{channels}" + (f"-{resize}" if resize else "")
        super().__init__(Path(cache) / named, (size, size, channels), np.uint8, "u8")
