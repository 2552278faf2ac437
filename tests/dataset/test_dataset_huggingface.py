from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataset_files import labels_by_path, write_photos, write_text
from PIL import Image

from surelabel.dataset.build import build_catalog
from surelabel.dataset.items import Source
from surelabel.dataset.sources import find_images
from surelabel.errors import InputError, LabelsError

NAMES = ["cat", "dog"]


def labels_of(source: Source) -> dict[str, str]:
    return {row.key: row.label for row in source.label_rows if row.label}


@pytest.fixture(name="datasets")
def fixture_datasets(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return pytest.importorskip("datasets")


def pet_dataset(datasets: Any, n: int = 8) -> Any:
    """A dataset of the real library; every fourth image has no label."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (n, 20, 20, 3), dtype=np.uint8)
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=NAMES)}
    columns = {
        "image": [Image.fromarray(each) for each in pixels],
        "label": [None if i % 4 == 3 else i % 2 for i in range(n)],
    }
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))


def test_a_dataset_saved_to_disk_becomes_a_catalog(datasets: Any, tmp_path: Path) -> None:
    pet_dataset(datasets).save_to_disk(str(tmp_path / "saved"))
    catalog = build_catalog(tmp_path / "saved", seed=0, cache=tmp_path / "cache")
    assert catalog.classes == ("cat", "dog")
    assert len(catalog) == 8
    labels = labels_by_path(catalog)
    assert [labels.get(path) for path in sorted(catalog.paths)] == ["cat", "dog", "cat", None] * 2
    again = find_images(tmp_path / "saved", tmp_path / "cache")
    assert sorted(again.files) == sorted(catalog.files.tolist()), "it is unpacked once"


def test_splits_of_a_saved_dataset_stay_apart_in_the_keys(datasets: Any, tmp_path: Path) -> None:
    both = datasets.DatasetDict({"train": pet_dataset(datasets), "test": pet_dataset(datasets, 4)})
    both.save_to_disk(str(tmp_path / "saved"))
    source = find_images(tmp_path / "saved", tmp_path / "cache")
    tops = [key.split("/")[0] for key in source.keys]
    assert (tops.count("train"), tops.count("test")) == (8, 4)
    assert len(labels_of(source)) == 9


def test_parquet_shards_of_the_real_library_are_read(datasets: Any, tmp_path: Path) -> None:
    whole, folder = pet_dataset(datasets), tmp_path / "hub" / "data"
    folder.mkdir(parents=True)
    for number in range(2):
        part = whole.shard(2, number, contiguous=True)
        part.to_parquet(str(folder / f"train-{number:05d}-of-00002.parquet"))
    source = find_images(folder.parent, tmp_path / "cache")
    assert len(set(source.keys)) == 8
    assert sorted(labels_of(source).values()) == ["cat"] * 4 + ["dog"] * 2
    one = find_images(folder / "train-00000-of-00002.parquet", tmp_path / "cache")
    assert len(one.keys) == 4


def test_images_that_are_stored_as_paths(tmp_path: Path) -> None:
    write_photos(tmp_path / "x", ["1.png", "2.png"])
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    paths = ["x/1.png", str(tmp_path / "x" / "2.png"), "x/3.png", "https://a.org/4.png", None]
    values = pa.array([{"bytes": None, "path": path} for path in paths], image)
    pq.write_table(
        pa.table({"image": values, "label": ["a", "b", "a", "b", ""]}), tmp_path / "t.pq"
    )
    source = find_images(tmp_path / "t.pq", tmp_path / "cache")
    assert [Path(file).name for file in source.files] == ["1.png", "2.png"]
    assert sorted(labels_of(source).values()) == ["a", "b"]
    reasons = [item.reason for item in source.skipped]
    assert ["download" in reason for reason in reasons] == [False, True, False]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_metadata_of_an_image_folder_holds_its_labels(tmp_path: Path, kind: str) -> None:
    write_photos(tmp_path, [f"train/{i}.png" for i in range(4)])
    rows = [{"file_name": f"{i}.png", "label": "ab"[i % 2] if i < 3 else ""} for i in range(4)]
    path = tmp_path / "train" / f"metadata.{kind}"
    if kind == "csv":
        lines = "".join(f"{r['file_name']},{r['label']},test\n" for r in rows)
        write_text(path, "file_name,label,split\n" + lines)
    elif kind == "jsonl":
        write_text(path, "".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    source = find_images(tmp_path)
    assert labels_of(source) == {"train/0.png": "a", "train/1.png": "b", "train/2.png": "a"}
    assert len(source.keys) == 4
    assert not source.skipped


def test_metadata_with_a_fault_is_refused_by_its_line(tmp_path: Path) -> None:
    write_photos(tmp_path, ["1.png"])
    path = tmp_path / "metadata.jsonl"
    for text, place in (
        ('{"file_name": "1.png"}\n{"file_name": \n', r"metadata\.jsonl:2"),
        ('{"file_name": "1.png"}\n["1.png"]\n', r"metadata\.jsonl:2"),
        ('{"file_name": "1.png"}\n{"label": "a"}\n', r"metadata\.jsonl:2"),
        ('{"file_name": "9.png", "label": "a"}\n', r"metadata\.jsonl:1.*9\.png"),
    ):
        write_text(path, text)
        with pytest.raises(LabelsError, match=place):
            find_images(tmp_path)
    write_text(path, '{"camera": "A"}\n')
    assert find_images(tmp_path).keys == ("1.png",)


def test_damaged_and_unsuitable_files_are_refused_by_their_name(
    datasets: Any, tmp_path: Path
) -> None:
    saved = tmp_path / "saved"
    pet_dataset(datasets).save_to_disk(str(saved))
    arrow = next(saved.glob("*.arrow"))
    content = arrow.read_bytes()
    arrow.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=arrow.name):
        find_images(saved, tmp_path / "cache")
    arrow.unlink()
    with pytest.raises(InputError, match=arrow.name):
        find_images(saved, tmp_path / "cache")
    (saved / "state.json").write_text("{")
    with pytest.raises(InputError, match=r"state\.json"):
        find_images(saved, tmp_path / "cache")
    assert not list((tmp_path / "cache" / "unpacked").glob("*")), "no half of it is left"


def test_several_columns_that_could_be_meant_are_named(datasets: Any, tmp_path: Path) -> None:
    dataset = pet_dataset(datasets).rename_column("label", "fine").add_column("x", [0] * 8)
    two = dataset.cast_column("x", datasets.ClassLabel(names=NAMES))
    two.to_parquet(str(tmp_path / "two.parquet"))
    with pytest.raises(InputError, match=r"two\.parquet.*fine, x"):
        find_images(tmp_path / "two.parquet", tmp_path / "cache")
    one = dataset.remove_columns("x").rename_column("image", "img")
    one.to_parquet(str(tmp_path / "one.parquet"))
    assert len(labels_of(find_images(tmp_path / "one.parquet", tmp_path / "cache"))) == 6
