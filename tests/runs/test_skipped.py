from __future__ import annotations

from pathlib import Path

from surelabel.runs.skipped import add_skipped, read_skipped


def test_no_file_is_an_empty_list(tmp_path: Path) -> None:
    assert read_skipped(tmp_path / "skipped.csv") == []


def test_rows_are_added_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "skipped.csv"
    add_skipped(path, [("b.png", "it is empty"), ("a, b.png", 'it says "no"\nand stops')])
    add_skipped(path, [("b.png", "it is empty"), ("c.png", "it is truncated")])
    assert read_skipped(path) == [
        ("b.png", "it is empty"),
        ("a, b.png", 'it says "no"\nand stops'),
        ("c.png", "it is truncated"),
    ]
    assert path.read_bytes().startswith(b"path,reason\nb.png,it is empty\n")
