"""FiftyOne, CVAT and COCO: what is written is read back the same."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pytest

from surelabel.dataset.items import Source
from surelabel.dataset.labels import attach_labels
from surelabel.dataset.sources import class_folders, find_images
from surelabel.errors import LabelsError
from surelabel.export.writers import export_run
from surelabel.runs.folder import RunFolder

MakeRun = Callable[[Sequence[str], Sequence[str]], RunFolder]
PATHS = ["lot 3/1.png", "lot 3/2.png", "x.png", "y.png"]
LABELS = ["cat", "a & b", "", "cat"]


@pytest.fixture(name="run")
def fixture_run(photo_run: MakeRun) -> RunFolder:
    return photo_run(PATHS, LABELS)


def table_of(run: RunFolder) -> pd.DataFrame:
    table = run.read_annotations(run.result_inputs())
    assert table is not None
    table["source"] = ["pseudo", "given", "", "pseudo"]
    return table


def labels_in(source: Source) -> dict[str, str]:
    return {row.key: row.label for row in source.label_rows if row.label}


def test_fiftyone_labels_with_confidences(run: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert export_run(run, table_of(run), "fiftyone", out) == 4
    content = json.loads((out / "labels.json").read_text(encoding="utf-8"))
    assert content["classes"] == ["cat", "dog", "a & b"]
    labels = list(content["labels"].values())
    assert labels[2] is None
    assert labels[0]["confidence"] == pytest.approx(0.1)
    assert labels[0]["attributes"]["predictive_entropy"] == 1e-9
    assert "confidence" not in labels[1], "a person's label has none"
    assert {path.stem for path in (out / "data").iterdir()} == set(content["labels"])
    read = labels_in(find_images(out))
    assert sorted(read.values()) == ["a & b", "cat", "cat"]
    by_id = dict(zip(run.catalog.ids.tolist(), LABELS, strict=True))
    assert all(by_id[Path(key).stem] == label for key, label in read.items())


def test_fiftyone_numbers_stand_for_classes_and_faults_are_named(tmp_path: Path) -> None:
    from PIL import Image

    (tmp_path / "data").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "data" / "1.png")
    file = tmp_path / "labels.json"
    file.write_text(json.dumps({"classes": ["cat", "dog"], "labels": {"1": 1}}))
    assert labels_in(find_images(tmp_path)) == {"data/1.png": "dog"}
    for content, told in (
        ({"classes": ["cat"], "labels": {"1": 4}}, r"labels\.json: '1'.*4"),
        ({"labels": {"9": "cat"}}, "'9'"),
        ({"labels": {"1": ["cat", "dog"]}}, "'1' has several"),
        ({"labels": 3}, r"labels\.json"),
    ):
        file.write_text(json.dumps(content))
        with pytest.raises(LabelsError, match=told):
            find_images(tmp_path)


def test_the_directory_tree_of_fiftyone(run: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export_run(run, table_of(run), "fiftyone-tree", out)
    assert (out / "_unlabeled" / "x.png").is_file()
    read = labels_in(class_folders(find_images(out)))
    assert read == {"cat/1.png": "cat", "a & b/2.png": "a & b", "cat/y.png": "cat"}


def test_cvat_labels_are_read_back_from_the_archive_and_unpacked(
    run: RunFolder, tmp_path: Path
) -> None:
    out = tmp_path / "labels.zip"
    export_run(run, table_of(run), "cvat", out)
    with zipfile.ZipFile(out) as archive:
        lines = archive.read("default.txt").decode().splitlines()
        archive.extractall(tmp_path / "unpacked")
    assert lines == ['"lot 3/1".png 0', '"lot 3/2".png 2', "y.png 0"]
    photos = find_images(tmp_path / "photos")
    wanted = {path: label for path, label in zip(PATHS, LABELS, strict=True) if label}
    assert labels_in(attach_labels(photos, out)) == wanted
    assert labels_in(attach_labels(photos, tmp_path / "unpacked" / "default.txt")) == wanted


def test_faults_of_cvat_text_are_named_by_their_line(run: RunFolder, tmp_path: Path) -> None:
    photos, text = find_images(tmp_path / "photos"), tmp_path / "train.txt"
    text.write_text("x.png 0\n")
    with pytest.raises(LabelsError, match=r"synsets\.txt"):
        attach_labels(photos, text)
    (tmp_path / "synsets.txt").write_text("cat\ndog\n")
    for line, told in (("y.png 2", "class number 2"), ("y.png 0 1", "one class"), ('"y', ":2")):
        text.write_text(f"x.png 0\n{line}\n")
        with pytest.raises(LabelsError, match=told) as error:
            attach_labels(photos, text)
        assert "train.txt:2" in str(error.value)
    (tmp_path / "bad.zip").write_bytes(b"PK nothing")
    with pytest.raises(LabelsError, match=r"bad\.zip"):
        attach_labels(photos, tmp_path / "bad.zip")


def test_coco_annotations_without_boxes(run: RunFolder, tmp_path: Path) -> None:
    out = tmp_path / "labels.json"
    table = table_of(run)
    export_run(run, table, "coco", out)
    content = json.loads(out.read_text(encoding="utf-8"))
    assert [(i["width"], i["height"]) for i in content["images"]] == [(5, 4)] * 4
    assert len(content["annotations"]) == 3
    source = attach_labels(find_images(tmp_path / "photos"), out)
    assert labels_in(source) == {p: x for p, x in zip(PATHS, LABELS, strict=True) if x}
    assert {row.source for row in source.label_rows} == {"pseudo", "given", ""}
    content["annotations"].append({"image_id": 1, "category_id": 2})
    out.write_text(json.dumps(content))
    with pytest.raises(LabelsError, match=r"annotation 4.*one class per image"):
        attach_labels(find_images(tmp_path / "photos"), out)
    content["annotations"] = [{"image_id": 9, "category_id": 2}]
    out.write_text(json.dumps(content))
    with pytest.raises(LabelsError, match="image 9"):
        attach_labels(find_images(tmp_path / "photos"), out)
