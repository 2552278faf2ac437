"""MNIST: from a folder with its four files, or from a public mirror; checked by SHA-256."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from surelabel.dataset.array_store import Pixels, default_cache
from surelabel.dataset.arrays import read_idx
from surelabel.types import IntArray
from surelabel_studies.datasets.public_files import PublicFiles

_FILES = PublicFiles("MNIST", "--data", "its four files")
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)

DIGESTS = {
    "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}
"""SHA-256 of the four files' content, unpacked: it does not depend on how they were gzipped."""

GZIP_DIGESTS = {
    "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}
"""SHA-256 of the gzipped files as the mirrors serve them."""


@dataclass(frozen=True)
class Digits:
    """uint8 images (N, H, W) with their classes (N,), to train and to test on."""

    train_images: Pixels
    train_labels: IntArray
    test_images: Pixels
    test_labels: IntArray


def load_mnist(folder: Path | None = None) -> Digits:
    """MNIST from ``folder``, gzipped or not; without one, from the cache or a public mirror."""
    if folder is None:
        return read_mnist(download_mnist(default_cache() / "mnist"))
    return read_mnist(folder)


def read_mnist(folder: Path, digests: Mapping[str, str] = DIGESTS) -> Digits:
    """Read the four files in ``folder`` and check their content against ``digests``."""
    files = {name: _FILES.find(folder, name) for name in digests}
    for name, path in files.items():
        _FILES.checked(path, name, digests[name])
    images, labels, test_images, test_labels = (read_idx(files[name]) for name in DIGESTS)
    return Digits(images, labels.astype(np.int64), test_images, test_labels.astype(np.int64))


def download_mnist(
    folder: Path, mirrors: Sequence[str] = MIRRORS, digests: Mapping[str, str] = GZIP_DIGESTS
) -> Path:
    """Download the files that ``folder`` does not have yet; returns ``folder``."""
    return _FILES.fetch(folder, mirrors, digests)
