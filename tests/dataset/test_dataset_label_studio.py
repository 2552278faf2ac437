"""Exports of Label Studio, in the shapes that version 1.23 writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dataset_files import write_photos, write_text

from surelabel.dataset.labels import attach_labels
from surelabel.dataset.sources import find_images
from surelabel.errors import LabelsError

Found = dict[tuple[str, str], str]


@pytest.fixture(name="photos")
def fixture_photos(tmp_path: Path) -> Path:
    return write_photos(tmp_path / "root" / "photos", ["1.png", "lot a/1.png", "lot a/2 ü+.png"])


def choice(label: str, **more: Any) -> dict[str, Any]:
    names = {"from_name": "animal", "to_name": "img", "type": "choices"}
    return {"id": "x", **names, "value": {"choices": [label]}, **more}


def task(image: str, *results: list[dict[str, Any]], **data: str) -> dict[str, Any]:
    annotations = [
        {"id": 10 + i, "completed_by": i + 1, "was_cancelled": False, "result": result}
        for i, result in enumerate(results)
    ]
    return {"id": 7, "annotations": annotations, "data": {"img": image, **data}, "predictions": [1]}


def labels_in(photos: Path, tasks: object) -> Found:
    file = photos.parent / "export.json"
    file.write_text(json.dumps(tasks), encoding="utf-8")
    rows = attach_labels(find_images(photos), file).label_rows
    return {(row.key, row.annotator): row.label for row in rows}


@pytest.mark.parametrize(
    ("image", "key"),
    [
        ("/data/local-files/?d=photos/1.png", "1.png"),
        ("/data/local-files/?d=photos/lot%20a/1.png", "lot a/1.png"),
        ("/data/local-files/?d=photos/lot%20a/2%20%C3%BC%2B.png", "lot a/2 ü+.png"),
        ("/data/local-files/?d=elsewhere/lot%20a/1.png", "lot a/1.png"),
        ("https://a.org/base/lot%20a/2%20%C3%BC%2B.png?x=1", "lot a/2 ü+.png"),
        ("s3://bucket/base/1.png", "1.png"),
        ("/data/upload/3/0123abcd-2_ü.png", "lot a/2 ü+.png"),
    ],
)
def test_the_image_of_a_task_is_found(photos: Path, image: str, key: str) -> None:
    assert labels_in(photos, [task(image, [choice("cat")])]) == {(key, "1"): "cat"}


def test_the_same_name_in_another_folder_is_not_mistaken(photos: Path) -> None:
    tasks = [
        task("/data/local-files/?d=photos/1.png", [choice("cat")]),
        task("/data/local-files/?d=others/1.png", [choice("dog")]),
    ]
    with pytest.raises(LabelsError, match=r"task 7.*others/1\.png"):
        labels_in(photos, tasks)
    moved = [task(f"https://{host}/1.png", [choice("cat")]) for host in ("a.org/x", "a.org/y")]
    with pytest.raises(LabelsError, match=r"task 7.*y/1\.png"):
        labels_in(photos, moved)
    with pytest.raises(LabelsError, match=r"1\.png or lot a/1\.png"):
        labels_in(photos, [task("/data/upload/3/0123abcd-1.png", [choice("cat")])])


def test_the_path_of_our_own_tasks_counts_first(photos: Path) -> None:
    own = task("https://gone.org/9.png", [choice("cat")], surelabel_path="lot a/1.png")
    assert labels_in(photos, [own]) == {("lot a/1.png", "1"): "cat"}


def test_each_person_counts_and_skipped_tasks_do_not(photos: Path) -> None:
    several = task("/x/photos/1.png", [choice("cat")], [choice("dog")], [], [choice("cat")])
    several["annotations"][3]["was_cancelled"] = True
    several["annotations"][1]["completed_by"] = {"id": 2, "email": "bob@example.org"}
    assert labels_in(photos, [several]) == {
        ("1.png", "1"): "cat",
        ("1.png", "bob@example.org"): "dog",
    }


def test_annotations_by_surelabel_are_no_labels_unless_somebody_changed_them(photos: Path) -> None:
    mark = {"meta": {"surelabel": {"label": "cat", "source": "pseudo"}}}
    tasks = [
        task("/x/photos/1.png", [choice("cat", **mark)]),
        task("/x/photos/lot a/1.png", [choice("dog", **mark)]),
    ]
    assert labels_in(photos, tasks) == {("lot a/1.png", "1"): "dog"}


def test_the_short_forms(photos: Path) -> None:
    record = {"img": "/data/local-files/?d=photos/1.png", "id": 4, "animal": "cat"}
    rest = {"annotator": 3, "annotation_id": 9, "created_at": "x", "lead_time": None}
    assert labels_in(photos, [{**record, **rest}]) == {("1.png", "3"): "cat"}
    table = write_text(
        photos.parent / "export.csv",
        '"animal","annotation_id","annotator","created_at","id","img","lead_time"\n'
        '"cat",9,"3","x",4,"/data/local-files/?d=photos/1.png",1.5\n',
    )
    rows = attach_labels(find_images(photos), table).label_rows
    assert [(row.key, row.label, row.annotator) for row in rows] == [("1.png", "cat", "3")]


@pytest.mark.parametrize(
    ("tasks", "told"),
    [
        ({"no": "list"}, "JSON_MIN"),
        ([], "annotate"),
        ([task("/x/photos/1.png")], "annotate"),
        ([task("/x/photos/9.png", [choice("cat")])], r"task 7, annotation 10.*9\.png"),
        ([task("/x/photos/1.png", [choice("cat"), choice("dog")])], "task 7.*2 questions"),
        ([{"img": "/1.png", "a": "x", "b": "y", "annotator": 1}], "img, a, b.*JSON"),
        ([{"img": "/1.png", "a": {"choices": ["x", "y"]}, "id": 5}], "task 5.*2 choices"),
        ([{"img": "/1.png", "a": "x", "surelabel_label": "x", "id": 5}], "task 5.*JSON"),
    ],
)
def test_what_cannot_be_used_is_named_with_its_place(
    photos: Path, tasks: object, told: str
) -> None:
    with pytest.raises(LabelsError, match=told) as error:
        labels_in(photos, tasks)
    assert "export.json" in str(error.value)


def test_a_damaged_file_is_named(photos: Path) -> None:
    with pytest.raises(LabelsError, match=r"x\.json"):
        attach_labels(find_images(photos), write_text(photos.parent / "x.json", '[{"id": 1'))
