from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from surelabel.dataset.arrays import is_idx, key_name, read_idx
from surelabel.errors import InputError

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
def test_each_fault_has_its_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
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
