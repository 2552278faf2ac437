from __future__ import annotations

import csv
import io
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surelabel.files import spreadsheet
from surelabel.files.spreadsheet import (
    csv_bytes,
    guard,
    guard_table,
    is_guarded,
    unguard,
    write_csv,
    write_guarded_csv,
)

ANY = st.text(max_size=8) | st.text("'=+-@\t\r\nx", max_size=6)


@given(ANY)
def test_every_text_comes_back_as_it_was(text: str) -> None:
    assert unguard(guard(text)) == text


@given(ANY)
def test_no_guarded_text_begins_like_a_formula(text: str) -> None:
    assert not guard(text).startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


@pytest.mark.parametrize("text", ["", "cat", "a=b", "it's", "'quoted'", "1-2"])
def test_plain_text_stays(text: str) -> None:
    assert guard(text) == text
    assert not is_guarded(text)


def test_numbers_stay_numbers() -> None:
    table = pd.DataFrame({"x": [-1.5, 2.0], "n": [-1, 3], "=t": ["-1", None]})
    guarded = guard_table(table)
    assert guarded["x"].tolist() == [-1.5, 2.0]
    assert guarded["n"].tolist() == [-1, 3]
    assert guarded["'=t"].iloc[0] == "'-1"
    assert pd.isna(guarded["'=t"].iloc[1])
    assert table["=t"].iloc[0] == "-1"


@given(st.lists(st.tuples(ANY, ANY), max_size=4))
def test_every_row_comes_back_from_a_csv_file(rows: list[tuple[str, str]]) -> None:
    text = csv_bytes(("path", "label"), rows).decode()
    found = list(csv.reader(io.StringIO(text, newline="")))
    assert [tuple(map(unguard, row)) for row in found] == [("path", "label"), *rows]


@pytest.mark.parametrize("n", [0, 1, 4, 5])
def test_a_table_written_in_parts_is_the_same_file(
    n: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pd.DataFrame({"=path": ["a", "=b", "c,d", "e", "-f"], "x": [0.1, 1e-9, 3, None, 5]})[:n]
    write_guarded_csv(table, tmp_path / "whole.csv")
    assert (tmp_path / "whole.csv").read_text() == guard_table(table).to_csv(index=False)
    monkeypatch.setattr(spreadsheet, "_ROWS", 2)
    write_guarded_csv(table, tmp_path / "parts.csv")
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "whole.csv").read_bytes()


def test_a_carriage_return_in_a_name_does_not_end_a_row(tmp_path: Path) -> None:
    table = pd.DataFrame({"path": ["a\rb.png", "c.png"], "x": [1.5, None]})
    write_csv(table, tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["path", "x"], ["a\rb.png", "1.5"], ["c.png", ""]]
