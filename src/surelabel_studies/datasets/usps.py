"""USPS zip-code digits: from a folder with its two files, or the public ones, by SHA-256."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from surelabel.dataset.array_store import Pixels, default_cache
from surelabel.errors import InputError
from surelabel.types import IntArray
from surelabel_studies.datasets.mnist import Digits
from surelabel_studies.datasets.public_files import PublicFiles

_FILES = PublicFiles("USPS", "--usps", "zip.train.gz and zip.test.gz")
MIRROR = "https://hastie.su.domains/ElemStatLearn/datasets/"
DIGESTS = {
    "zip.train": "abc9f5c75b997cabe66b5d01727d5a681c69298e1641a8d37b55433a52129dc0",
    "zip.test": "6bde17b4f1cd68e0630cd2751d6495b5795d9165ab2dc4a0be8b7002b732f4cc",
}
"""SHA-256 of the two files' content, unpacked."""
GZIP_DIGESTS = {
    "zip.train": "66ebf231ab51f2cf6ac1a892d0f98ccffee1079d7a5db638c1f11f366046ca16",
    "zip.test": "8dacc3c6e136af6c3488de9e5113a7daf140c8c2f1f0b61c54ee02f03f1a962f",
}
"""SHA-256 of the gzipped files."""
_SIDE = 16
SIDE = 28
"""Images are enlarged to MNIST's size."""


def load_usps(folder: Path | None = None) -> Digits:
    """USPS from ``folder``, gzipped or not; without one, from the cache or the public files."""
    return read_usps(folder if folder is not None else download_usps(default_cache() / "usps"))


def read_usps(folder: Path, digests: Mapping[str, str] = DIGESTS) -> Digits:
    """Read the two files in ``folder`` and check their content against ``digests``."""
    parts = [
        _parse(_FILES.checked(_FILES.find(folder, name), name, digest), name)
        for name, digest in digests.items()
    ]
    (images, labels), (test_images, test_labels) = parts
    return Digits(images, labels, test_images, test_labels)


def download_usps(folder: Path) -> Path:
    """Download the files that ``folder`` does not have yet; returns ``folder``."""
    return _FILES.fetch(folder, (MIRROR,), GZIP_DIGESTS)


def _parse(content: bytes, name: str) -> tuple[Pixels, IntArray]:
    """One line per image: the class, then 256 values from -1 (paper) to 1 (ink)."""
    try:
        values = np.array(content.split(), dtype=np.float32).reshape(-1, 1 + _SIDE**2)
    except ValueError:
        raise InputError(f"{name} does not have one class and 256 values per line.") from None
    small = np.round((values[:, 1:].clip(-1, 1) + 1) * 127.5).astype(np.uint8)
    return enlarge(small.reshape(-1, _SIDE, _SIDE), SIDE), values[:, 0].astype(np.int64)


def enlarge(images: Pixels, side: int) -> Pixels:
    """(N, H, W) -> (N, side, side), bilinear."""
    from PIL import Image

    size = (side, side)
    made = [Image.fromarray(image).resize(size, Image.Resampling.BILINEAR) for image in images]
    return np.stack([np.asarray(image) for image in made])
