from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dataset_files import write_photos, write_text

from surelabel.dataset.items import Source
from surelabel.dataset.labels import mark_array, mark_table
from surelabel.dataset.sources import array_source, file_source
from surelabel.dataset.tables import Table, read_table
from surelabel.errors import LabelsError


def photos(folder: Path, names: list[str]) -> Source:
    write_photos(folder, names)
    return file_source("photos", folder, names, [])


def table_for(folder: Path, paths: list[str]) -> Table:
    quoted = ['"' + path.replace('"', '""') + '"' for path in paths]
    text = "path,label\n" + "".join(f"{path},cat\n" for path in quoted)
    folder.mkdir(parents=True, exist_ok=True)
    return read_table(write_text(folder / "labels.csv", text))


def found(source: Source, table: Table) -> list[str]:
    return [mark.key for mark in mark_table(source, table).marks]


def test_paths_are_relative_to_the_images_or_to_the_table_or_absolute(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", ["a/1.png", "2.png"])
    table = table_for(
        tmp_path / "tables",
        [
            "a/1.png",
            "./a/../2.png",
            "../photos/a/1.png",
            str(tmp_path / "photos" / "2.png"),
            "a\\1.png",
            " 2.png ",
        ],
    )
    assert found(source, table) == ["a/1.png", "2.png", "a/1.png", "2.png", "a/1.png", "2.png"]


def test_a_path_through_a_link_means_the_same_image(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", ["1.png"])
    (tmp_path / "link").symlink_to(tmp_path / "photos")
    table = table_for(tmp_path, [str(tmp_path / "link" / "1.png")])
    assert found(source, table) == ["1.png"]
    assert mark_table(source, table).keys == source.keys


def test_odd_names_are_found(tmp_path: Path) -> None:
    names = ["a,b.png", 'say "hi".png', "two\nlines.png", "-rf.png", "ü/日本.png", " lead.png"]
    source = photos(tmp_path / "photos", names)
    assert found(source, table_for(tmp_path, names)) == names


def test_both_unicode_forms_of_a_name_are_found(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", ["cafe\u0301.png"])
    assert found(source, table_for(tmp_path, ["caf\u00e9.png"])) == ["caf\u00e9.png"]


def test_the_table_adds_images_that_only_it_names(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", ["1.png"])
    write_photos(tmp_path / "more", ["2.png", "3.png"])
    write_photos(tmp_path / "photos", [".hidden.png"])
    absolute = str(tmp_path / "more" / "2.png")
    grown = mark_table(source, table_for(tmp_path, [absolute, "more/3.png", ".hidden.png"]))
    assert grown.keys == ("1.png", absolute, "../more/3.png", ".hidden.png")
    assert grown.files[2] == str(tmp_path / "more" / "3.png")


def test_unknown_paths_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", ["1.png"])
    table = table_for(tmp_path, ["1.png", *(f"no{i}.png" for i in range(5)), "a\0b.png"])
    with pytest.raises(LabelsError, match=r"labels.csv:3: 'no0.png'; .* and 3 more\. Paths are"):
        mark_table(source, table)


def test_rows_of_an_array_are_named_by_index_or_key(tmp_path: Path) -> None:
    source = array_source(np.zeros((3, 4, 4), dtype=np.uint8), "digits", "digits")
    by_index = read_table(write_text(tmp_path / "i.csv", "index,label\n2,cat\n0,dog\n"))
    assert found(source, by_index) == ["digits:00002", "digits:00000"]
    assert found(source, table_for(tmp_path, ["digits:00001"])) == ["digits:00001"]
    for wrong in ("3", "-1", "x", "²"):
        table = read_table(write_text(tmp_path / "i.csv", f"index,label\n{wrong},cat\n"))
        with pytest.raises(LabelsError, match=r"from 0 to 2.*i.csv:2"):
            mark_table(source, table)


def test_positions_mean_nothing_for_files(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", ["1.png"])
    with pytest.raises(LabelsError, match="the images are files"):
        mark_array(source, np.array([1]), "labels")
    table = read_table(write_text(tmp_path / "i.csv", "index,label\n0,cat\n"))
    with pytest.raises(LabelsError, match=r"i.csv:2: the column 'index' is for"):
        mark_table(source, table)
