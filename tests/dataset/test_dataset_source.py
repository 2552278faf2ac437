from __future__ import annotations

from pathlib import Path

import pytest

from surelabel.dataset.items import absolute


def test_dots_go_and_links_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    monkeypatch.chdir(tmp_path)
    assert absolute("link/../link/./a.png") == str(tmp_path / "link" / "a.png")
    assert absolute(tmp_path / "link") == str(tmp_path / "link")
