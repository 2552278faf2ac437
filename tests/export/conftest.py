from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from surelabel.config.settings import Config
from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.file_index import content_digest
from surelabel.runs.folder import RunFolder

MakeRun = Callable[[Sequence[str], Sequence[str]], RunFolder]


def digest_of(number: int) -> str:
    return f"{number:032x}"


def catalog_of(paths: Sequence[str], files: Sequence[str], channels: int = 1) -> Catalog:
    n = len(paths)
    blank = np.array([""] * n)
    return Catalog(
        ids=np.array([f"{number:016x}" for number in range(n)]),
        paths=np.array(paths),
        labels=np.full(n, -1),
        sources=blank,
        splits=np.array(["pool"] * n),
        groups=blank,
        digests=np.array([digest_of(number) for number in range(n)]),
        files=np.array(files),
        classes=("cat", "dog"),
        size=8,
        channels=channels,
        cross_fit=False,
    )


def annotations_of(catalog: Catalog, labels: Sequence[str]) -> pd.DataFrame:
    n = len(labels)
    return pd.DataFrame(
        {
            "id": catalog.ids,
            "path": catalog.paths,
            "label": labels,
            "guess": ["cat"] * n,
            "source": ["pseudo" if label else "" for label in labels],
            "round": pd.array([1 if label else None for label in labels], dtype="Int64"),
            "probability": np.linspace(0.1, 1, n, dtype=np.float32),
            "score": np.linspace(0, 1, n) / 3,
            "threshold": np.full(n, np.nan),
            "weight": np.full(n, 1.0),
            "predictive_entropy": np.full(n, 1e-9),
        }
    )


@pytest.fixture(name="photo_run")
def fixture_photo_run(tmp_path: Path) -> MakeRun:
    """A run on image files that exist: ``paths`` below ``photos/``, with the labels given."""

    def make(paths: Sequence[str], labels: Sequence[str]) -> RunFolder:
        files = [tmp_path / "photos" / path for path in paths]
        for shade, file in enumerate(files):
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB", (5, 4), (shade, shade, shade)).save(file, format="PNG")
        catalog = catalog_of(paths, [str(file) for file in files])
        digests = np.array([content_digest(file.read_bytes()) for file in files])
        return _run(tmp_path, replace(catalog, digests=digests), labels)

    return make


@pytest.fixture(name="array_run", params=[1, 3])
def fixture_array_run(tmp_path: Path, request: pytest.FixtureRequest) -> MakeRun:
    """A run on rows of an array, whose pixels are in the cache only; gray, then in color."""

    def make(paths: Sequence[str], labels: Sequence[str]) -> RunFolder:
        catalog = catalog_of(paths, [""] * len(paths), channels=request.param)
        pixels = np.random.default_rng(0).integers(
            0, 256, (len(paths), 8, 8, request.param), dtype=np.uint8
        )
        PixelStore(tmp_path / "cache", 8, request.param).add(catalog.digests, pixels)
        return _run(tmp_path, catalog, labels)

    return make


def _run(folder: Path, catalog: Catalog, labels: Sequence[str]) -> RunFolder:
    config = Config(cache=str(folder / "cache"))
    run = RunFolder.create(folder / "run", config=config, catalog=catalog, about={})
    run.write_annotations(annotations_of(catalog, labels), run.result_inputs())
    return run
