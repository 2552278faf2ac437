"""Small digits in the place of MNIST, IDX files, and the quickest study there is."""

from __future__ import annotations

import gzip
import hashlib
import struct
from contextlib import nullcontext
from pathlib import Path

import numpy as np

from surelabel.workflows.label import SILENT, Listeners
from surelabel_studies.datasets.mnist import DIGESTS, Digits
from surelabel_studies.mnist.study import StudySettings

MNIST = Path(__file__).resolve().parents[3] / "shared" / "data" / "mnist"
HAS_MNIST = (MNIST / "train-images-idx3-ubyte.gz").exists()
QUICK = StudySettings(("dst", "dbst-2"), pool_size=200, test_size=50, epochs=3, rounds=2)


def small_digits() -> Digits:
    """scikit-learn's 1,797 digits of 8x8, the last 200 to test on."""
    from sklearn.datasets import load_digits

    bundled = load_digits()
    images = np.round(bundled.images * (255 / 16)).astype(np.uint8)
    labels = bundled.target.astype(np.int64)
    return Digits(images[:-200], labels[:-200], images[-200:], labels[-200:])


def idx_bytes(array: np.ndarray) -> bytes:
    header = struct.pack(f">4B{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx_folder(folder: Path, digits: Digits, *, zipped: bool = True) -> dict[str, str]:
    """The four files of ``digits``; returns the SHA-256 of their content."""
    folder.mkdir(parents=True, exist_ok=True)
    arrays: list[np.ndarray] = [
        digits.train_images,
        digits.train_labels,
        digits.test_images,
        digits.test_labels,
    ]
    digests = {}
    for name, array in zip(DIGESTS, arrays, strict=True):
        content = idx_bytes(array)
        digests[name] = hashlib.sha256(content).hexdigest()
        if zipped:
            (folder / f"{name}.gz").write_bytes(gzip.compress(content))
        else:
            (folder / name).write_bytes(content)
    return digests


def silently(_: str) -> nullcontext[Listeners]:
    return nullcontext(SILENT)
