from __future__ import annotations

from pathlib import Path

import pytest

from report.report_data import HOSTILE, train
from surelabel.api import Run


@pytest.fixture(name="hostile", scope="session")
def fixture_hostile(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A cross-fit run of two rounds whose file and class names are an attack."""
    run = train(tmp_path_factory.mktemp("hostile"), HOSTILE)
    run.report()
    return run


@pytest.fixture(name="split", scope="session")
def fixture_split(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of one round with held-out labels."""
    place: Path = tmp_path_factory.mktemp("split")
    run = train(place, {"across": "a", "down": "d"}, held_out=6, max_rounds=1)
    run.report()
    return run
