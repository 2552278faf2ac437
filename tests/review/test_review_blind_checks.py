from __future__ import annotations

import csv
from pathlib import Path

import pytest
from workflow_data import id_of

from surelabel.errors import InputError
from surelabel.review.blind_checks import read_list, write_answers
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder


@pytest.mark.parametrize("column", ["file", "path", "id"])
def test_the_list_is_read_in_its_order_each_image_once(
    folder: RunFolder, tmp_path: Path, column: str
) -> None:
    paths = ["down-07.png", "across-03.png", "down-07.png"]
    ids = [id_of(folder, path) for path in paths]
    lines = [f"x,{i if column == 'id' else p}" for i, p in zip(ids, paths, strict=True)]
    listed = tmp_path / "list.csv"
    listed.write_text("\n".join([f"note,{column}", *lines]), encoding="utf-8")
    assert read_list(listed, folder.catalog) == ids[:2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name\na.png\n", "no column called file"),
        ("", "no column called file"),
        ("file\n", "lists no images"),
        ("file\nmissing.png\n", "does not have, the first: missing.png"),
    ],
)
def test_a_list_that_cannot_be_used_is_told_in_a_sentence(
    folder: RunFolder, tmp_path: Path, text: str, problem: str
) -> None:
    listed = tmp_path / "list.csv"
    listed.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=problem):
        read_list(listed, folder.catalog)
    with pytest.raises(InputError, match="cannot be read"):
        read_list(tmp_path / "nowhere.csv", folder.catalog)


def test_answers_go_out_as_a_table(folder: RunFolder, tmp_path: Path) -> None:
    store = folder.answers
    store.add(id_of(folder, "down-07.png"), "label", "down", "ann", purpose=Purpose.BLIND)
    store.add(id_of(folder, "across-03.png"), "unsure", reviewer="bob", purpose=Purpose.BLIND)
    store.add(id_of(folder, "across-04.png"), "none", purpose=Purpose.BLIND)
    store.add(id_of(folder, "across-05.png"), "label", "down")
    assert write_answers(folder, tmp_path / "out.csv") == 3
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(r["file"], r["answer"], r["kind"], r["reviewer"]) for r in rows] == [
        ("across-03.png", "", "unsure", "bob"),
        ("across-04.png", "", "none", ""),
        ("down-07.png", "down", "label", "ann"),
    ]
