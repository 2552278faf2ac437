"""Pools of small images, as one array or as Parquet shards, and features for them."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from surelabel.dataset.array_store import ArrayStore
from surelabel.types import Ids

SIDE = 16
N_LABELS = 1500
"""Given labels, whatever the size of the pool."""
_CHUNK = 20_000
_SHARD = 50_000

Images = npt.NDArray[np.uint8]


def digits(n: int, seed: int = 0) -> Iterator[tuple[Images, npt.NDArray[np.int64]]]:
    """Images (B, 16, 16) and classes (B,), ``n`` in all: scikit-learn's digits, moved and noisy."""
    from sklearn.datasets import load_digits

    drawn = load_digits()
    large = np.kron(drawn.images / 16.0, np.ones((2, 2))).astype(np.float32)
    for number, start in enumerate(range(0, n, _CHUNK)):
        rng = np.random.default_rng([seed, number])
        size = min(_CHUNK, n - start)
        which = rng.integers(0, len(large), size)
        images, shift = large[which], rng.integers(-2, 3, (size, 2))
        for down in range(-2, 3):
            for right in range(-2, 3):
                moved = (shift == (down, right)).all(axis=1)
                images[moved] = np.roll(images[moved], (down, right), axis=(1, 2))
        contrast = rng.uniform(140, 230, (size, 1, 1)).astype(np.float32)
        noise = rng.integers(0, 24, (size, SIDE, SIDE), dtype=np.uint8)
        yield (images * contrast).astype(np.uint8) + noise, drawn.target[which].astype(np.int64)


def make_pool(place: Path, n: int, source: str) -> None:
    """Write ``n`` images below ``place`` as ``source``: npy, tar or parquet."""
    place.mkdir(parents=True)
    {"npy": _write_array, "tar": _write_tars, "parquet": _write_shards}[source](place, n)


def images_of(place: Path, source: str) -> Path:
    """What ``surelabel label`` is called with."""
    return place / ("images.npy" if source == "npy" else "shards")


def labels_of(place: Path, source: str) -> Path | None:
    """The label table; shards hold their labels."""
    return place / "labels.csv" if source == "npy" else None


def _labeled(n: int) -> npt.NDArray[np.bool_]:
    """(N,) a random sample of the images."""
    chosen = np.zeros(n, dtype=bool)
    chosen[np.random.default_rng(7).permutation(n)[: min(N_LABELS, n // 2)]] = True
    return chosen


def _write_array(place: Path, n: int) -> None:
    array = np.lib.format.open_memmap(place / "images.npy", "w+", np.uint8, (n, SIDE, SIDE))
    labels, at = np.empty(n, dtype=np.int64), 0
    for images, classes in digits(n):
        array[at : at + len(images)] = images
        labels[at : at + len(images)] = classes
        at += len(images)
    array.flush()
    rows = np.flatnonzero(_labeled(n))
    pd.DataFrame({"index": rows, "label": labels[rows]}).to_csv(place / "labels.csv", index=False)


def _write_shards(place: Path, n: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (place / "shards").mkdir()
    given, at = _labeled(n), 0
    writer, written = None, 0
    for images, classes in digits(n):
        shown = np.where(given[at : at + len(images)], classes.astype("<U1"), "")
        table = pa.table(
            {
                "image": pa.array([_png(image) for image in images], pa.binary()),
                "label": pa.array(shown.tolist(), pa.string()),
            }
        )
        at += len(images)
        if writer is None or written >= _SHARD:
            if writer is not None:
                writer.close()
            name = place / "shards" / f"part-{at:08d}.parquet"
            writer, written = pq.ParquetWriter(name, table.schema), 0
        writer.write_table(table)
        written += len(images)
    if writer is not None:
        writer.close()


def _write_tars(place: Path, n: int) -> None:
    (place / "shards").mkdir()
    given, at = _labeled(n), 0
    for number, (images, classes) in enumerate(digits(n)):
        with tarfile.open(place / "shards" / f"part-{number:05d}.tar", "w") as shard:
            for image, label in zip(images, classes.tolist(), strict=True):
                _add(shard, f"{at:08d}.png", _png(image))
                if given[at]:
                    _add(shard, f"{at:08d}.cls", str(label).encode())
                at += 1


def _add(shard: tarfile.TarFile, name: str, content: bytes) -> None:
    about = tarfile.TarInfo(name)
    about.size = len(content)
    shard.addfile(about, io.BytesIO(content))


def _png(image: Images) -> bytes:
    from PIL import Image

    content = io.BytesIO()
    Image.fromarray(image).save(content, "png", compress_level=1)
    return content.getvalue()


def fill_features(
    store: ArrayStore[np.float16], digests: Ids, pixels: ArrayStore[np.uint8]
) -> None:
    """Made-up features of images: a random projection of their pixels."""
    (width,) = store.shape
    rng = np.random.default_rng(0)
    inputs = int(np.prod(pixels.shape))
    projection = rng.standard_normal((inputs, width), dtype=np.float32) / np.sqrt(inputs)
    for start in range(0, len(digests), _CHUNK):
        part = digests[start : start + _CHUNK]
        flat = pixels.gather(part).reshape(len(part), -1).astype(np.float32) / 128 - 1
        store.add(part, np.maximum(flat @ projection, 0).astype(np.float16))
