from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest
from dataset_files import write_text

from surelabel.dataset.tables import TableRow, read_table, table_from_frame
from surelabel.errors import LabelsError


def rows_of(folder: Path, text: str, name: str = "labels.csv") -> list[tuple[str, str]]:
    table = read_table(write_text(folder / name, text))
    return [(row.path, row.label) for row in table.rows]


def test_cells_stay_text(tmp_path: Path) -> None:
    text = "path,label\na.png,01\nb.png,1\nc.png,NA\nd.png,None\ne.png,\nf.png,1e3\n"
    assert rows_of(tmp_path, text) == [
        ("a.png", "01"),
        ("b.png", "1"),
        ("c.png", "NA"),
        ("d.png", "None"),
        ("e.png", ""),
        ("f.png", "1e3"),
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("\ufeffpath,label\na.png,cat\n", "labels.csv"),
        ("path,label\r\na.png,cat\r\n", "labels.csv"),
        ("path,label\ra.png,cat\r", "labels.csv"),
        ("path,label\na.png,cat", "labels.csv"),
        ('"path","label"\n"a.png","cat"\n', "labels.csv"),
        ("path;label\na.png;cat\n", "labels.csv"),
        ("path\tlabel\na.png\tcat\n", "labels.csv"),
        ("path\tlabel\na.png\tcat\n", "labels.TSV"),
        (" Path , LABEL \na.png,  cat \n", "labels.csv"),
        ("label,who,path\ncat,me,a.png\n", "labels.csv"),
        ("\npath,label\n\n,\na.png,cat,,\n\n", "labels.csv"),
    ],
)
def test_tables_are_written_in_many_ways(tmp_path: Path, text: str, name: str) -> None:
    assert rows_of(tmp_path, text, name) == [("a.png", "cat")]


def test_utf_16_of_spreadsheets_is_read(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes("path,label\ngrün.png,Käse\n".encode("utf-16"))
    assert read_table(path).rows[0].label == "Käse"


def test_unusual_names_survive_quoting(tmp_path: Path) -> None:
    text = 'path,label\n"a,b.png",x\n"say ""hi"".png",y\n"two\nlines.png",z\n-dash.png,w\n'
    table = read_table(write_text(tmp_path / "labels.csv", text))
    assert [row.path for row in table.rows] == [
        "a,b.png",
        'say "hi".png',
        "two\nlines.png",
        "-dash.png",
    ]
    assert table.rows[3].where == f"{tmp_path / 'labels.csv'}:6"


def test_optional_columns_are_read(tmp_path: Path) -> None:
    path = write_text(tmp_path / "t.csv", "path,label,split,group\na.png,cat, tune ,lot 1\n")
    assert read_table(path).rows == (TableRow(f"{path}:2", "a.png", "cat", "tune", "lot 1"),)


def test_parquet_and_data_frames_are_tables(tmp_path: Path) -> None:
    frame = pd.DataFrame({"path": ["a.png", "b.png", "c.png"], "label": [1.0, None, 3.0]})
    frame.to_parquet(tmp_path / "labels.parquet")
    for table in (read_table(tmp_path / "labels.parquet"), table_from_frame(frame)):
        assert [(r.path, r.label) for r in table.rows] == [
            ("a.png", "1"),
            ("b.png", ""),
            ("c.png", "3"),
        ]
    texts = pd.DataFrame({"path": ["a.png", "b.png"], "label": ["NA", None]})
    assert [row.label for row in table_from_frame(texts).rows] == ["NA", ""]
    typed = texts.astype({"label": "string"})
    assert [row.label for row in table_from_frame(typed).rows] == ["NA", ""]
    counted = frame.astype({"label": "Int64"})
    assert [row.label for row in table_from_frame(counted).rows] == ["1", "", "3"]


def test_among_whole_numbers_minus_one_is_no_label(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, "path,label\na.png,3\nb.png,-1\nc.png,\n")
    assert [label for _, label in rows] == ["3", "", ""]
    rows = rows_of(tmp_path, "path,label\na.png,3\nb.png,-1\nc.png,none of these\n")
    assert [label for _, label in rows] == ["3", "", "none of these"]
    rows = rows_of(tmp_path, "path,label\na.png,cold\nb.png,-1\n")
    assert [label for _, label in rows] == ["cold", "-1"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "labels.csv is empty: its first line has to name the columns path,label"),
        ("a.png,cat\nb.png,dog\n", r"has no column 'path'. .* names the columns: a.png, cat"),
        ("path,label\na,b.png,cat\n", r"labels.csv:2 has 3 cells and the header names 2"),
        ("path,label\na.png,cat\n ,dog\n", r"labels.csv:3 names no path"),
        ('path,label\na.png,cat\n"b.png,dog\n', r"labels.csv:3 cannot be read"),
        ("path,label,label\na.png,cat,dog\n", "has the column 'label' twice"),
    ],
)
def test_each_fault_is_explained(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(LabelsError, match=sentence):
        rows_of(tmp_path, text)


def test_a_file_that_is_no_utf_8_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_bytes("path,label\na.png,cat\nb.png,Käse\n".encode("latin-1"))
    with pytest.raises(LabelsError, match=r"labels.csv:3 is not UTF-8"):
        read_table(path)


def test_a_missing_or_foreign_file_is_explained(tmp_path: Path) -> None:
    with pytest.raises(LabelsError, match="there is no such file"):
        read_table(tmp_path / "labels.csv")
    write_text(tmp_path / "labels.parquet", "path,label\n")
    with pytest.raises(LabelsError, match="cannot be read as Parquet"):
        read_table(tmp_path / "labels.parquet")


def test_the_first_sheet_of_a_workbook_is_read_like_a_table(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl", reason="the extra xlsx is not installed")
    book = openpyxl.Workbook()
    for row in (["path", "label", None], ["a.png", 1], [None, None], ["b.png", "cat"], ["c.png"]):
        book.active.append(row)
    book.create_sheet("notes").append(["nothing"])
    book.save(tmp_path / "labels.xlsx")
    table = read_table(tmp_path / "labels.xlsx")
    found = [(row.path, row.label) for row in table.rows]
    assert found == [("a.png", "1"), ("b.png", "cat"), ("c.png", "")]
    assert table.rows[1].where.endswith("labels.xlsx:4")
    (tmp_path / "labels.xlsx").write_bytes(b"PK and then nothing")
    with pytest.raises(LabelsError, match="Excel"):
        read_table(tmp_path / "labels.xlsx")


def test_a_workbook_without_the_reader_names_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "labels.xlsx").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(LabelsError, match=r"surelabel\[xlsx\]"):
        read_table(tmp_path / "labels.xlsx")
