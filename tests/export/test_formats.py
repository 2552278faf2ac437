from __future__ import annotations

from surelabel.export.export import ExportFormat


def test_formats_are_what_the_command_line_says() -> None:
    assert list(ExportFormat) == ["csv", "parquet", "folder"]
