from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surelabel.errors import RunDamagedError
from surelabel.files.documents import read_json, read_table, write_json, write_table


def test_json_comes_back(tmp_path: Path) -> None:
    value = {"accuracy": 0.1, "classes": ["Käse", "x"], "none": None}
    write_json(tmp_path / "a.json", value)
    assert read_json(tmp_path / "a.json") == value


def test_numpy_values_become_plain_ones(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"n": np.int64(3), "x": np.float32(0.5), "a": np.arange(2)})
    assert read_json(tmp_path / "a.json") == {"n": 3, "x": 0.5, "a": [0, 1]}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("nan")])
def test_what_is_not_a_number_is_not_written(tmp_path: Path, value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "a.json", {"x": value})
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_type_is_named(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="set cannot be written"):
        write_json(tmp_path / "a.json", {1, 2})


def test_a_table_comes_back(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "id": ["a", "b"],
            "score": np.array([0.1, np.nan], dtype=np.float32),
            "round": pd.array([1, None], dtype="Int64"),
        }
    )
    write_table(tmp_path / "a.parquet", table)
    pd.testing.assert_frame_equal(read_table(tmp_path / "a.parquet"), table)


@pytest.mark.parametrize("read", [read_json, read_table])
def test_a_missing_or_damaged_file_is_explained(tmp_path: Path, read: object) -> None:
    assert callable(read)
    path = tmp_path / "a"
    with pytest.raises(RunDamagedError, match="is missing"):
        read(path)
    path.write_bytes(b"\xff{")
    with pytest.raises(RunDamagedError, match="is not"):
        read(path)
