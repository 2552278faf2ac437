from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from surelabel.dataset.labels import attach_labels
from surelabel.dataset.sources import find_images
from surelabel.errors import OptionError
from surelabel.export.label_studio import LabelStudioOptions, labeling_config
from surelabel.export.writers import export_run
from surelabel.runs.folder import RunFolder

MakeRun = Callable[[Sequence[str], Sequence[str]], RunFolder]
PATHS = ["a b/1.png", "2+ü.png", "3.png"]


@pytest.fixture(name="run")
def fixture_run(photo_run: MakeRun) -> RunFolder:
    return photo_run(PATHS, ["", "cat", ""])


def export(run: RunFolder, out: Path, **options: Any) -> list[dict[str, Any]]:
    table = run.read_annotations(run.result_inputs())
    assert table is not None
    table["mutual_information"] = [0.1, 0.9, 0.5]
    table["calibrated"] = [0.7, float("nan"), 0.8]
    settings = LabelStudioOptions(**options)
    n = export_run(run, table, "label-studio", out, label_studio=settings)
    tasks: list[dict[str, Any]] = json.loads((out / "tasks.json").read_text(encoding="utf-8"))
    assert n == len(tasks)
    return tasks


def test_what_is_left_is_asked_for_and_the_most_useful_first(
    run: RunFolder, tmp_path: Path
) -> None:
    tasks = export(run, tmp_path / "out")
    assert [task["data"]["surelabel_path"] for task in tasks] == ["3.png", "a b/1.png"]
    assert [task["data"]["image"] for task in tasks] == [
        "/data/local-files/?d=photos/3.png",
        "/data/local-files/?d=photos/a%20b/1.png",
    ]
    (prediction,) = tasks[0]["predictions"]
    assert prediction["score"] == 0.8
    assert prediction["result"][0]["value"] == {"choices": ["cat"]}
    assert tasks[0]["meta"]["mutual_information"] == 0.5
    assert all("annotations" not in task for task in tasks)


def test_labels_become_annotations_only_when_asked_and_never_by_a_person(
    run: RunFolder, tmp_path: Path
) -> None:
    tasks = export(run, tmp_path / "out", annotate_as="surelabel@example.org")
    assert [task["data"]["surelabel_path"] for task in tasks] == ["3.png", "a b/1.png", "2+ü.png"]
    (annotation,) = tasks[2]["annotations"]
    assert annotation["completed_by"] == {"email": "surelabel@example.org"}
    assert annotation["result"][0]["meta"]["surelabel"] == {"label": "cat", "source": "pseudo"}
    with pytest.raises(OptionError, match="no person"):
        export(run, tmp_path / "other", annotate_as="surelabel")
    assert not (tmp_path / "other").exists()


def test_the_document_root_has_to_be_above_the_images(run: RunFolder, tmp_path: Path) -> None:
    tasks = export(run, tmp_path / "deep", document_root=tmp_path.parent)
    assert tasks[0]["data"]["image"].endswith(f"?d={tmp_path.name}/photos/3.png")
    for root in (tmp_path / "photos", tmp_path / "elsewhere"):
        with pytest.raises(OptionError, match=rf"below {root}.* {tmp_path} would do"):
            export(run, tmp_path / "out", document_root=root)


def test_addresses_and_images_without_files(array_run: MakeRun, tmp_path: Path) -> None:
    run = array_run(["array:00000", "array:00001", "array:00002"], ["", "", ""])
    with pytest.raises(OptionError, match="--to folder"):
        export(run, tmp_path / "out")
    tasks = export(run, tmp_path / "out", url="https://a.org/x/")
    assert tasks[0]["data"]["image"].startswith("https://a.org/x/array%3A0000")


def test_the_interface_has_one_choice_per_class_and_none_of_these() -> None:
    names = ['a "quote"', "<b> & c", "ü"]
    config = ElementTree.fromstring(labeling_config(names))
    assert [e.get("value") for e in config.iter("Choice")] == [*names, "none of these"]
    assert [e.get("choice") for e in config.iter("Choices")] == ["single"]


def test_annotated_tasks_are_read_back(run: RunFolder, tmp_path: Path) -> None:
    tasks = export(run, tmp_path / "out", annotate_as="surelabel@example.org")
    person = {"completed_by": 4, "result": tasks[0]["predictions"][0]["result"]}
    tasks[0]["annotations"] = [person]
    tasks[1]["annotations"] = []
    file = tmp_path / "export.json"
    file.write_text(json.dumps(tasks))
    rows = attach_labels(find_images(tmp_path / "photos"), file).label_rows
    assert [(row.key, row.label, row.annotator) for row in rows] == [("3.png", "cat", "4")]
