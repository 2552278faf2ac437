from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surelabel.errors import OptionError
from surelabel.export.writers import ExportFormat, export_table


def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "id": ["1", "2", "3"],
            "path": ["a, b.png", 'say "x".png', "Käse\n1.png"],
            "label": ["cat", "", "=1+1"],
            "round": pd.array([1, None, 2], dtype="Int64"),
            "probability": np.array([0.1, np.nan, 1 / 3], dtype=np.float32),
            "score": np.array([0.1, 1e-300, 1 / 3]),
        }
    )


def test_csv_is_plain_utf_8_with_empty_for_missing(tmp_path: Path) -> None:
    export_table(table(), tmp_path / "out.csv", ExportFormat.CSV)
    data = (tmp_path / "out.csv").read_bytes()
    assert b"\r" not in data
    assert "Käse".encode() in data
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == list(table().columns)
    assert rows[2] == ["2", 'say "x".png', "", "", "", "1e-300"]
    assert rows[3][:4] == ["3", "Käse\n1.png", "'=1+1", "2"], "no spreadsheet runs it"
    export_table(table(), tmp_path / "out.csv", ExportFormat.CSV, guard=False)
    assert ",=1+1," in (tmp_path / "out.csv").read_text(encoding="utf-8")


def test_numbers_in_csv_read_back_to_the_same(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    numbers = pd.DataFrame(
        {
            "wide": np.exp(generator.normal(0, 100, 1000)),
            "narrow": np.exp(generator.normal(0, 20, 1000)).astype(np.float32),
        }
    )
    export_table(numbers, tmp_path / "out.csv", ExportFormat.CSV)
    with (tmp_path / "out.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["wide"]) for row in rows] == numbers["wide"].tolist()
    assert [np.float32(row["narrow"]) for row in rows] == list(numbers["narrow"])


def test_single_precision_numbers_are_short(tmp_path: Path) -> None:
    export_table(table(), tmp_path / "out.csv", ExportFormat.CSV)
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as file:
        assert [row["probability"] for row in csv.DictReader(file)] == ["0.1", "", "0.33333334"]


def test_parquet_keeps_types(tmp_path: Path) -> None:
    export_table(table(), tmp_path / "deep" / "out.parquet", ExportFormat.PARQUET)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "deep" / "out.parquet"), table())


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    for to in (ExportFormat.CSV, ExportFormat.PARQUET):
        for name in ("a", "b"):
            export_table(table(), tmp_path / name, to)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_notes_on_a_table_do_not_keep_it_from_being_written(tmp_path: Path) -> None:
    noted = table()
    noted.attrs = {"drift": {"score": object()}, "skipped": [("a.png", "it is empty")]}
    for to in (ExportFormat.CSV, ExportFormat.PARQUET):
        export_table(table(), tmp_path / "plain", to)
        export_table(noted, tmp_path / "noted", to)
        assert (tmp_path / "noted").read_bytes() == (tmp_path / "plain").read_bytes()
    assert set(noted.attrs) == {"drift", "skipped"}


def test_a_table_is_no_folder(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="csv or parquet"):
        export_table(table(), tmp_path / "out", ExportFormat.FOLDER)
