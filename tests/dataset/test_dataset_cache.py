from __future__ import annotations

from pathlib import Path

import pytest

from surelabel.dataset.array_store import default_cache


def test_the_environment_names_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "c"))
    assert default_cache() == tmp_path / "c"


def test_otherwise_it_is_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELABEL_CACHE", " ")
    assert default_cache().name == "surelabel"
    assert default_cache().is_absolute()
