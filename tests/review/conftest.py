from __future__ import annotations

from pathlib import Path

import pytest
from review_data import Page, copy_run, train_once

from surelabel.runs.folder import RunFolder


@pytest.fixture(name="trained", scope="session")
def fixture_trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_once(tmp_path_factory.mktemp("trained"))


@pytest.fixture(name="folder")
def fixture_folder(trained: Path, tmp_path: Path) -> RunFolder:
    """A copy of the trained run that a test may change."""
    return copy_run(trained, tmp_path / "run")


@pytest.fixture(name="page")
def fixture_page(folder: RunFolder) -> Page:
    return Page(folder)
