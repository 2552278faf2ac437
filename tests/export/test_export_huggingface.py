from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from surelabel.dataset.locations import read_content
from surelabel.dataset.sources import find_images
from surelabel.export.huggingface import write_parquet_shards
from surelabel.export.writers import export_run, n_missing_in
from surelabel.runs.folder import RunFolder

MakeRun = Callable[[Sequence[str], Sequence[str]], RunFolder]
LoadDataset = Callable[..., Any]

PATHS = ["test/1.png", "train/1.png", "val-2.png"]
LABELS = ["cat", "a/b", ""]


@pytest.fixture(name="load_dataset")
def fixture_load_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoadDataset:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")

    def load(*arguments: str, **options: Any) -> Any:
        return datasets.load_dataset(*arguments, cache_dir=str(tmp_path / "hf-cache"), **options)

    return load


def table_of(run: RunFolder) -> pd.DataFrame:
    table = run.read_annotations(run.result_inputs())
    assert table is not None
    return table


def assert_same_values(rows: Sequence[dict[str, Any]], table: pd.DataFrame) -> None:
    """Every column but the classes, exactly; a missing value is None."""
    assert [row["id"] for row in rows] == table["id"].tolist()
    for name in set(table.columns) - {"label", "guess"}:
        for row, value in zip(rows, table[name].tolist(), strict=True):
            is_missing = value is pd.NA or value is None or value != value
            same = row[name] is None or math.isnan(row[name]) if is_missing else row[name] == value
            assert same, f"{name}: {row[name]} is not {value}"


@pytest.mark.parametrize("to", ["hf-folder", "hf-parquet"])
def test_load_dataset_gives_back_images_labels_and_measures(
    photo_run: MakeRun, tmp_path: Path, load_dataset: LoadDataset, to: str
) -> None:
    run, out = photo_run(PATHS, LABELS), tmp_path / "out"
    table = table_of(run)
    assert export_run(run, table, to, out) == 3
    loaded = load_dataset(str(out))
    assert list(loaded) == ["train"], "file names that look like splits make no splits"
    rows = sorted(loaded["train"], key=lambda row: str(row["id"]))
    assert_same_values(rows, table)
    if to == "hf-parquet":
        feature = loaded["train"].features["label"]
        assert feature.names == ["cat", "dog", "a/b"]
        labels = [None if r["label"] is None else feature.int2str(r["label"]) for r in rows]
    else:
        labels = [row["label"] for row in rows]
    assert labels == ["cat", "a/b", None]
    for row, file in zip(rows, run.catalog.files, strict=True):
        np.testing.assert_array_equal(np.asarray(row["image"]), np.asarray(Image.open(file)))


@pytest.mark.parametrize("to", ["hf-folder", "hf-parquet"])
@pytest.mark.parametrize(
    "labels",
    [
        ["2026-05-01", "2026-05-01", ""],
        ["2026-05-01 00:00:00", "", ""],
        ["007", "1e5", "true"],
        ["null", "nan", ""],
        ["", "", ""],
    ],
)
def test_classes_that_look_like_other_values_stay_strings(
    photo_run: MakeRun, tmp_path: Path, load_dataset: LoadDataset, labels: list[str], to: str
) -> None:
    run, out = photo_run(PATHS, labels), tmp_path / "out"
    table = table_of(run).assign(guess=labels)
    export_run(run, table, to, out)
    loaded = load_dataset(str(out))["train"]
    rows = sorted(loaded, key=lambda row: str(row["id"]))
    for name in ("label", "guess"):
        found = [row[name] for row in rows]
        if to == "hf-parquet":
            feature = loaded.features[name]
            found = [None if number is None else feature.int2str(number) for number in found]
        assert found == [label or None for label in labels]
    assert loaded.features["threshold"].dtype == "float64", "a column without any value too"


def test_rows_of_an_array_become_png_images(
    array_run: MakeRun, tmp_path: Path, load_dataset: LoadDataset
) -> None:
    run, out = array_run(["array:00000", "array:00001"], ["cat", ""]), tmp_path / "out"
    export_run(run, table_of(run), "hf-parquet", out)
    rows = list(load_dataset("parquet", data_files=str(out / "data" / "*.parquet"))["train"])
    assert [row["path"] for row in rows] == ["array:00000", "array:00001"]
    assert rows[0]["image"].size == (8, 8)


def test_a_large_dataset_is_divided_and_small_shards_keep_the_order(
    photo_run: MakeRun, tmp_path: Path, load_dataset: LoadDataset
) -> None:
    paths = [f"{number}.png" for number in range(7)]
    run = photo_run(paths, ["cat"] * 7)
    from surelabel.dataset.array_store import PixelStore

    out = tmp_path / "out"
    out.mkdir()
    n_bytes = Path(run.catalog.files[0]).stat().st_size
    store = PixelStore(tmp_path / "cache", 8, 3)
    write_parquet_shards(out, table_of(run), run.catalog, store, shard_bytes=3 * n_bytes)
    assert len(list((out / "data").iterdir())) == 3
    assert [row["path"] for row in load_dataset(str(out))["train"]] == paths


@pytest.mark.parametrize("to", ["hf-folder", "hf-parquet"])
def test_an_image_that_is_gone_is_listed_and_left_out(
    photo_run: MakeRun, tmp_path: Path, load_dataset: LoadDataset, to: str
) -> None:
    run, out = photo_run(PATHS, LABELS), tmp_path / "out"
    Path(run.catalog.files[1]).unlink()
    assert export_run(run, table_of(run), to, out) == 2
    assert n_missing_in(out) == 1
    assert "train/1.png" in (out / "missing.csv").read_text()
    rows = list(load_dataset(str(out))["train"])
    assert sorted(row["path"] for row in rows) == ["test/1.png", "val-2.png"]


def test_surelabel_reads_its_own_export_with_the_same_keys_and_bytes(
    photo_run: MakeRun, tmp_path: Path
) -> None:
    run, out = photo_run(PATHS, LABELS), tmp_path / "out"
    export_run(run, table_of(run), "hf-parquet", out)
    source = find_images(out, tmp_path / "cache")
    assert list(source.keys) == PATHS
    assert {row.key: row.label for row in source.label_rows} == dict(
        zip(PATHS[:2], LABELS[:2], strict=True)
    )
    for file, original in zip(source.files, run.catalog.files, strict=True):
        assert read_content(file) == Path(original).read_bytes()
    folder = tmp_path / "folder"
    export_run(run, table_of(run), "hf-folder", folder)
    assert [row.label for row in find_images(folder).label_rows] == ["cat", "a/b", ""]


def test_the_parquet_schema_says_image_and_class_label(photo_run: MakeRun, tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    run, out = photo_run(PATHS, LABELS), tmp_path / "out"
    export_run(run, table_of(run), "hf-parquet", out)
    table = pq.read_table(out / "data" / "train-00000-of-00001.parquet")
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["image"] == {"_type": "Image"}
    assert features["guess"]["_type"] == "ClassLabel"
    first = table.column("image")[0].as_py()
    assert Image.open(io.BytesIO(first["bytes"])).size == (5, 4)
