from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from surelabel.files import large_tables, mapped_arrays
from surelabel.files.large_tables import coded_column, ids_of, read_columns, text_column
from surelabel.files.mapped_arrays import concatenate, is_mapped, mapped, slices, take, zeros


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped_arrays, "LARGE", 64)


def test_small_arrays_stay_in_memory() -> None:
    assert not is_mapped(zeros((10, 3), np.float64))
    array = np.arange(5)
    assert mapped(array) is array


@pytest.mark.usefixtures("small_limit")
def test_large_arrays_are_mapped_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    texts = np.array([f"image {k}" for k in range(40)])
    copy = mapped(texts)
    assert is_mapped(copy)
    assert copy.tolist() == texts.tolist()
    assert mapped(copy) is copy
    assert is_mapped(copy[3:])
    assert not any(tmp_path.iterdir())
    chosen = take(texts, np.arange(40) % 2 == 0)
    assert is_mapped(chosen)
    assert chosen.tolist() == texts[::2].tolist()
    joined = concatenate([texts, np.array(["a much longer text than the others"])])
    assert joined.tolist() == [*texts.tolist(), "a much longer text than the others"]


@pytest.mark.usefixtures("small_limit")
def test_without_room_on_the_disk_arrays_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    array = zeros((100,), np.float64)
    assert not is_mapped(array)
    assert (array == 0).all()


def test_slices_cover_everything_once() -> None:
    parts = list(slices(10, 4))
    assert np.concatenate([np.arange(10)[part] for part in parts]).tolist() == list(range(10))
    assert list(slices(0)) == []


def test_large_tables_are_read_as_pandas_reads_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(large_tables, "LARGE", 2)
    table = pd.DataFrame(
        {
            "id": ["a", "b", None],
            "score": [0.5, np.nan, 2.0],
            "accepted": [True, False, True],
            "round": [1, 0, 2],
        }
    )
    table.attrs = {"made_from": "this"}
    table.to_parquet(tmp_path / "t.parquet", index=False)
    read = read_columns(tmp_path / "t.parquet")
    pd.testing.assert_frame_equal(read, pd.read_parquet(tmp_path / "t.parquet"))
    assert read.attrs == {"made_from": "this"}


def test_large_columns_of_text_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = np.array([f"photo {k} ä" for k in range(200_000)])
    allocated = pa.total_allocated_bytes()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    column = text_column(texts)
    names = coded_column(np.arange(200_000) % 3 - 1, ["cat", "dog"])
    assert pa.total_allocated_bytes() - allocated < 100_000, "not in memory"
    assert not any(tmp_path.iterdir())
    assert column.tolist() == texts.tolist()
    assert names[:3].isna().tolist() == [True, False, False]
    table = pd.DataFrame({"id": column, "name": names})
    table.to_parquet(tmp_path / "t.parquet", index=False)
    pd.testing.assert_frame_equal(read_columns(tmp_path / "t.parquet"), table)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(large_tables, "temporary_file", full)
    assert text_column(texts).equals(column)


def test_columns_of_text() -> None:
    names = coded_column(np.array([1, 0, -1]), ["cat", "dog"])
    expected = pd.Series(["dog", "cat", None], dtype="str")
    pd.testing.assert_series_equal(names, expected)
    ids = np.array(["01", "23"])
    assert ids_of(text_column(ids)).tolist() == ids.tolist()
