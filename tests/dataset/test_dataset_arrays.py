from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from surelabel.dataset.arrays import (
    check_images,
    is_idx,
    key_name,
    label_names,
    read_idx,
    read_images,
    read_labels,
)
from surelabel.errors import InputError, LabelsError


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.array([0, 255], dtype=np.uint8), [0, 255]),
        (np.array([0, 1], dtype=np.float32), [0, 255]),
        (np.array([0.0, 0.5]), [0, 128]),
        (np.array([0.0, 200.4]), [0, 200]),
        (np.array([0, 255], dtype=np.int64), [0, 255]),
        (np.array([False, True]), [0, 255]),
    ],
)
def test_values_become_bytes(values: Any, expected: list[int]) -> None:
    pixels = check_images(values.reshape(1, 1, 2), "the array")
    assert pixels.dtype == np.uint8
    assert pixels.ravel().tolist() == expected


@pytest.mark.parametrize(
    ("array", "sentence"),
    [
        (np.full((1, 2, 2), -0.5), "values from -0.5 to -0.5"),
        (np.full((1, 2, 2), 300), "values from 300 to 300"),
        (np.full((1, 2, 2), 1.002), "up to 1.002, a little above 1"),
        (np.full((1, 2, 2), np.nan), "values from nan"),
        (np.full((1, 2, 2), "a"), "holds <U1"),
        (np.zeros((5, 28)), r"shape \(5, 28\)"),
        (np.zeros((5, 28, 28, 2)), r"shape \(5, 28, 28, 2\)"),
        (np.zeros((5, 3, 28, 28)), r"transpose\(0, 2, 3, 1\)"),
        (np.zeros((5, 0, 28)), "no pixels"),
    ],
)
def test_what_is_no_image_is_refused(array: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_images(array, "the array")


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (np.array([3, -1, 10]), ["3", "", "10"]),
        (np.array([3.0, np.nan, -1.0]), ["3", "", ""]),
        (np.array([" cat", "", "dog"]), ["cat", "", "dog"]),
        (np.array(["cat", np.nan, "dog"]), ["cat", "", "dog"]),
        (np.array(["cat", None, 2], dtype=object), ["cat", "", "2"]),
        (np.array([np.int64(0), np.float32(2), pd.NA], dtype=object), ["0", "2", ""]),
        (np.array(["cafe\u0301", "caf\u00e9", ""]), ["caf\u00e9", "caf\u00e9", ""]),
    ],
)
def test_labels_are_integers_or_names(labels: Any, expected: list[str]) -> None:
    assert label_names(labels, 3, "labels") == expected


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (np.array([0, 1]), "there are 3 images"),
        (np.array([0, 1, -2]), r"labels\[2\] is -2"),
        (np.array([0, 1, 1.5]), r"labels\[2\] is 1.5"),
        (np.array([True, False, True]), r"labels\[0\] is True"),
    ],
)
def test_other_labels_are_refused(labels: Any, sentence: str) -> None:
    with pytest.raises(LabelsError, match=sentence):
        label_names(labels, 3, "labels")


def test_numpy_files_are_read_and_nothing_is_unpickled(tmp_path: Path) -> None:
    images, labels = np.zeros((2, 4, 4), dtype=np.uint8), np.array([1, -1])
    np.save(tmp_path / "a.npy", images)
    np.savez(tmp_path / "one.npz", images)
    np.savez(tmp_path / "two.npz", images=images, labels=labels)
    np.savez(tmp_path / "odd.npz", left=images, right=images)
    np.save(tmp_path / "evil.npy", np.array([{}], dtype=object))
    assert read_images(tmp_path / "a.npy")[1] is None
    assert read_images(tmp_path / "one.npz")[0].shape == (2, 4, 4)
    labels_beside = read_images(tmp_path / "two.npz")[1]
    assert labels_beside is not None
    assert labels_beside.tolist() == [1, -1]
    assert read_labels(tmp_path / "two.npz").tolist() == [1, -1]
    for name in ("odd.npz", "evil.npy"):
        with pytest.raises(InputError, match=name):
            read_images(tmp_path / name)
    (tmp_path / "text.npy").write_text("hello")
    with pytest.raises(InputError, match="cannot be read as a NumPy file"):
        read_labels(tmp_path / "text.npy")


IMAGES = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
CONTENT = bytes([0, 0, 8, 3]) + struct.pack(">III", 2, 3, 4) + IMAGES.tobytes()


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_are_read_plain_and_gzipped(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("images.gz" if packed else "images")
    path.write_bytes(gzip.compress(CONTENT) if packed else CONTENT)
    assert is_idx(path)
    assert read_idx(path).tolist() == IMAGES.tolist()
    assert key_name(path) == "images"


def test_numbers_are_turned_to_the_order_of_the_machine(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_bytes(bytes([0, 0, 0x0C, 1]) + struct.pack(">Iii", 2, 7, -1))
    assert read_idx(path).tolist() == [7, -1]
    assert read_idx(path).dtype == np.int32


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (CONTENT[:-1], "announces 40. Is the download complete"),
        (CONTENT + b"x", "announces 40"),
        (CONTENT[:9], "ends within its header"),
        (gzip.compress(CONTENT, mtime=0)[:-9], "Is the download complete"),
        (b"PNG!", "is not an IDX file"),
        (b"", "is not an IDX file"),
    ],
)
def test_each_fault_is_explained(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        read_idx(path)


def test_other_files_are_not_taken_for_idx(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    (tmp_path / "text.gz").write_bytes(gzip.compress(b"hello"))
    assert not is_idx(tmp_path / "text")
    assert not is_idx(tmp_path / "text.gz")
    assert not is_idx(tmp_path / "nothing")
