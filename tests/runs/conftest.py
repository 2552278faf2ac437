from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.items import Skipped
from surelabel.runs.folder import RunFolder


@pytest.fixture(name="catalog")
def fixture_catalog() -> Catalog:
    """Three images that exist by name only, one of them labeled."""
    return Catalog(
        ids=np.array(["id-a", "id-b", "id-c"]),
        paths=np.array(["a.png", "lot/b.png", "lot/c.png"]),
        labels=np.array([0, -1, -1]),
        sources=np.array(["given", "", ""]),
        splits=np.array(["train", "pool", "pool"]),
        groups=np.array(["", "", ""]),
        digests=np.array(["0" * 32, "1" * 32, "2" * 32]),
        files=np.array(["/nowhere/a.png", "/nowhere/lot/b.png", "/nowhere/lot/c.png"]),
        classes=("cat", "dog"),
        size=8,
        channels=1,
        cross_fit=False,
        skipped=(Skipped("broken.png", "the file is empty"),),
    )


@pytest.fixture(name="make_run")
def fixture_make_run(tmp_path: Path, catalog: Catalog) -> Callable[..., RunFolder]:
    def make(name: str = "run", **about: object) -> RunFolder:
        return RunFolder.create(tmp_path / name, config=Config(), catalog=catalog, about=about)

    return make


@pytest.fixture(name="run")
def fixture_run(make_run: Callable[..., RunFolder]) -> RunFolder:
    return make_run()
