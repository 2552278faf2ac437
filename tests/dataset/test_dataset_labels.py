from __future__ import annotations

import json
import struct
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dataset_files import write_photos, write_text

from surelabel.dataset.items import Source
from surelabel.dataset.labels import Labels, attach_array, attach_labels, attach_table
from surelabel.dataset.sources import array_source, file_source, find_images
from surelabel.dataset.tables import Table, read_table
from surelabel.errors import LabelsError

SOURCE = array_source(np.zeros((3, 4, 4), dtype=np.uint8), "x", "x")


def test_the_same_labels_in_every_form(tmp_path: Path) -> None:
    np.save(tmp_path / "l.npy", np.array([1, -1, 0]))
    np.savez(tmp_path / "l.npz", labels=np.array([1, -1, 0]))
    (tmp_path / "l.idx").write_bytes(bytes([0, 0, 9, 1]) + struct.pack(">Ibbb", 3, 1, -1, 0))
    write_text(tmp_path / "l.csv", "index,label\n0,1\n1,\n2,0\n")
    frame = pd.DataFrame({"index": [0, 1, 2], "label": ["1", None, "0"]})
    frame.to_parquet(tmp_path / "l.parquet")
    files: list[Labels] = [tmp_path / f"l.{end}" for end in ("npy", "npz", "idx", "csv", "parquet")]
    series = pd.Series([1, -1, 0])
    for labels in [*files, str(files[0]), frame, series, np.array([1, -1, 0]), ["1", None, "0"]]:
        rows = attach_labels(SOURCE, labels).label_rows
        assert {m.key: m.label for m in rows if m.label} == {"x:00000": "1", "x:00002": "0"}


def test_what_is_no_file_of_labels_is_explained(tmp_path: Path) -> None:
    write_text(tmp_path / "labels.docx", "hello")
    write_text(tmp_path / "p.csv", "path,lable\nx:00000,cat\n")
    for name, sentence in [
        ("none.csv", "there is no such file of labels"),
        (".", "is a folder"),
        ("labels.docx", "is not a file of labels"),
        ("p.csv", "has no column 'label'"),
    ]:
        with pytest.raises(LabelsError, match=sentence):
            attach_labels(SOURCE, tmp_path / name)


def photos(folder: Path, names: list[str]) -> Source:
    write_photos(folder, names)
    return file_source("photos", folder, names, [])


def table_for(folder: Path, paths: list[str]) -> Table:
    quoted = ['"' + path.replace('"', '""') + '"' for path in paths]
    text = "path,label\n" + "".join(f"{path},cat\n" for path in quoted)
    folder.mkdir(parents=True, exist_ok=True)
    return read_table(write_text(folder / "labels.csv", text))


def keys_of(source: Source, table: Table) -> list[str]:
    return [row.key for row in attach_table(source, table).label_rows]


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
    assert keys_of(source, table) == ["a/1.png", "2.png", "a/1.png", "2.png", "a/1.png", "2.png"]


def test_a_path_through_a_link_means_the_same_image(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", ["1.png"])
    (tmp_path / "link").symlink_to(tmp_path / "photos")
    table = table_for(tmp_path, [str(tmp_path / "link" / "1.png")])
    assert keys_of(source, table) == ["1.png"]
    assert attach_table(source, table).keys == source.keys


def test_unusual_names_are_found(tmp_path: Path) -> None:
    names = ["a,b.png", 'say "hi".png', "two\nlines.png", "-rf.png", "ü/日本.png", " lead.png"]
    source = photos(tmp_path / "photos", names)
    assert keys_of(source, table_for(tmp_path, names)) == names


def test_both_unicode_forms_of_a_name_are_found(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", ["cafe\u0301.png"])
    assert keys_of(source, table_for(tmp_path, ["caf\u00e9.png"])) == ["caf\u00e9.png"]


def test_the_table_adds_images_that_only_it_names(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", ["1.png"])
    write_photos(tmp_path / "more", ["2.png", "3.png"])
    write_photos(tmp_path / "photos", [".hidden.png"])
    absolute = str(tmp_path / "more" / "2.png")
    grown = attach_table(source, table_for(tmp_path, [absolute, "more/3.png", ".hidden.png"]))
    assert grown.keys == ("1.png", absolute, "../more/3.png", ".hidden.png")
    assert grown.files[2] == str(tmp_path / "more" / "3.png")


def test_unknown_paths_are_counted_and_the_first_are_named(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", ["1.png"])
    table = table_for(tmp_path, ["1.png", *(f"no{i}.png" for i in range(5)), "a\0b.png"])
    with pytest.raises(LabelsError, match=r"labels.csv:3: 'no0.png'; .* and 3 more\. Paths are"):
        attach_table(source, table)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("a1", "a/A1.jpg"),
        ("A1.JPG", "a/A1.jpg"),
        ("C:\\Users\\ann\\photos\\A1.jpg", "a/A1.jpg"),
        ("b1.jpg", "b/b1.png"),
        ("same.png", ""),
        ("typo.jpg", ""),
    ],
)
def test_the_image_that_was_probably_meant_is_named(
    tmp_path: Path, written: str, meant: str
) -> None:
    write_photos(tmp_path / "photos", ["a/A1.jpg", "b/b1.png", "a/same.png", "b/same.png"])
    write_text(tmp_path / "labels.csv", f"path,label\n{written},cat\n")
    with pytest.raises(LabelsError) as refused:
        attach_labels(find_images(tmp_path / "photos"), tmp_path / "labels.csv")
    assert f"'{written}'" in str(refused.value)
    assert not meant or f"'{meant}'" in str(refused.value)
    assert ("Write" in str(refused.value)) == bool(meant)


def test_rows_of_an_array_are_named_by_index_or_key(tmp_path: Path) -> None:
    source = array_source(np.zeros((3, 4, 4), dtype=np.uint8), "digits", "digits")
    by_index = read_table(write_text(tmp_path / "i.csv", "index,label\n2,cat\n0,dog\n"))
    assert keys_of(source, by_index) == ["digits:00002", "digits:00000"]
    assert keys_of(source, table_for(tmp_path, ["digits:00001"])) == ["digits:00001"]
    for wrong in ("3", "-1", "x", "²"):
        table = read_table(write_text(tmp_path / "i.csv", f"index,label\n{wrong},cat\n"))
        with pytest.raises(LabelsError, match=r"from 0 to 2.*i.csv:2"):
            attach_table(source, table)


def test_positions_mean_nothing_for_files(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", ["1.png"])
    with pytest.raises(LabelsError, match="the images are files"):
        attach_array(source, np.array([1]), "labels")
    table = read_table(write_text(tmp_path / "i.csv", "index,label\n0,cat\n"))
    with pytest.raises(LabelsError, match=r"i.csv:2: the column 'index' is for"):
        attach_table(source, table)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("red\x1b[31m", "U+001B"),
        ("a\tb", "U+0009"),
        ("a\nb", "U+000A"),
        ("cat\u202egnp", "U+202E"),
        ("x" * 201, "201 characters"),
    ],
)
def test_names_that_would_steer_a_terminal_are_refused_with_their_line(
    tmp_path: Path, name: str, told: str
) -> None:
    write_photos(tmp_path / "photos", ["a.png", "b.png"])
    table = write_text(tmp_path / "labels.csv", f'path,label\na.png,cat\nb.png,"{name}"\n')
    with pytest.raises(LabelsError) as caught:
        attach_labels(find_images(tmp_path / "photos"), table)
    assert f"{table}:3" in str(caught.value)
    assert told in str(caught.value)
    assert name not in str(caught.value)


@pytest.mark.parametrize("column", ["annotator", "group"])
def test_so_are_names_of_people_and_groups(tmp_path: Path, column: str) -> None:
    write_photos(tmp_path / "photos", ["a.png"])
    table = write_text(tmp_path / "labels.csv", f"path,label,{column}\na.png,cat,an\x1b[2Jn\n")
    with pytest.raises(LabelsError, match=rf"labels\.csv:2: the {column} .*U\+001B"):
        attach_labels(find_images(tmp_path / "photos"), table)


ODD: list[object] = [None, 3, "x", [], {}, [1], [None], {"a": 1}, [[]], {"choices": [{}]}]


def test_exports_of_any_build_get_a_sentence(tmp_path: Path) -> None:
    """Values of a Label Studio, COCO and FiftyOne export replaced by ones of other kinds."""
    write_photos(tmp_path / "photos", ["a.png"])
    source, path = find_images(tmp_path / "photos"), tmp_path / "export.json"
    result = {"type": "choices", "to_name": "image", "value": {"choices": ["cat"]}, "meta": {}}
    task = {"id": 1, "data": {"image": "a.png"}, "annotations": [{"id": 1, "result": [result]}]}
    coco = {
        "images": [{"id": 1, "file_name": "a.png"}],
        "categories": [{"id": 1, "name": "cat"}],
        "annotations": [{"image_id": 1, "category_id": 1}],
    }
    told = []
    for sound in ([task], coco, {"classes": ["cat"], "labels": {"a": {"label": 0}}}):
        path.write_text(json.dumps(sound))
        assert attach_labels(source, path).label_rows
        for changed in with_one_value_replaced(sound):
            path.write_text(json.dumps(changed))
            try:
                attach_labels(source, path)
            except LabelsError as error:
                told.append(str(error))
    assert len(told) > 100
    assert all("export.json" in text for text in told)
    path.write_text("[" * 100_000)
    with pytest.raises(LabelsError, match=r"export\.json"):
        attach_labels(source, path)


def with_one_value_replaced(value: object) -> Iterator[object]:
    """``value`` with each part of it in turn replaced by values of other kinds."""
    yield from ODD
    parts = value.items() if isinstance(value, dict) else enumerate(value)  # type: ignore[arg-type]
    for key, part in parts:
        changes = with_one_value_replaced(part) if isinstance(part, dict | list) else ODD
        for changed in changes:
            copy = value.copy()  # type: ignore[attr-defined]
            copy[key] = changed
            yield copy


def test_an_archive_that_unpacks_to_too_much_is_not_unpacked(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", ["a.png"])
    path = tmp_path / "labels.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("synsets.txt", "cat\n")
        with archive.open("default.txt", "w") as file:
            for _ in range(513):
                file.write(bytes(2**20))
    with pytest.raises(LabelsError, match=r"labels\.zip"):
        attach_labels(find_images(tmp_path / "photos"), path)


def test_names_in_any_script_are_fine(tmp_path: Path) -> None:
    names = [
        "\u0645\u06cc\u200c\u062e\u0648\u0631\u0645",
        "\U0001f468\u200d\U0001f33e",
        "Ünïcode",
        "x" * 200,
        "-1st",
        "=2",
    ]
    write_photos(tmp_path / "photos", [f"{n}.png" for n in range(len(names))])
    lines = [f"{n}.png,{name}" for n, name in enumerate(names)]
    table = write_text(tmp_path / "labels.csv", "\n".join(["path,label", *lines]))
    source = attach_labels(find_images(tmp_path / "photos"), table)
    assert [row.label for row in source.label_rows] == names


def test_text_that_was_guarded_against_spreadsheets_is_read_as_it_was(tmp_path: Path) -> None:
    names = ["=x.png", "'=x.png", "plain.png"]
    write_photos(tmp_path / "photos", names)
    own = "path,label,source\n'=x.png,'+1,given\n''=x.png,''+1,given\nplain.png,it's,given\n"
    table = write_text(tmp_path / "own.csv", own)
    source = attach_labels(find_images(tmp_path / "photos"), table)
    found = {row.key: row.label for row in source.label_rows}
    assert found == {"=x.png": "+1", "'=x.png": "'+1", "plain.png": "it's"}


def test_a_path_in_another_table_is_found_with_its_guard_and_without(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", ["=x.png", "'+y.png", "-z.png", "'-z.png"])
    images = find_images(tmp_path / "photos")
    table = write_text(tmp_path / "drawn.csv", "path,label\n'=x.png,a\n'+y.png,b\n")
    assert [row.key for row in attach_labels(images, table).label_rows] == ["=x.png", "'+y.png"]
    unclear = write_text(tmp_path / "unclear.csv", "path,label\n'-z.png,a\n")
    with pytest.raises(LabelsError, match="two images"):
        attach_labels(images, unclear)


def test_a_path_that_is_too_long_for_a_file_is_unknown(tmp_path: Path) -> None:
    write_photos(tmp_path / "photos", ["a.png"])
    table = write_text(tmp_path / "labels.csv", f"path,label\n{'x' * 5000}.png,cat\n")
    with pytest.raises(LabelsError, match=r"labels\.csv:2") as caught:
        attach_labels(find_images(tmp_path / "photos"), table)
    assert len(str(caught.value)) < 1000
