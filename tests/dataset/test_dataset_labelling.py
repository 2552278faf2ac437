from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dataset_files import write_text

from surelabel.dataset.labels import Labels, attach_labels
from surelabel.dataset.sources import array_source
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
        marks = attach_labels(SOURCE, labels).marks
        assert {m.key: m.label for m in marks if m.label} == {"x:00000": "1", "x:00002": "0"}


def test_what_is_no_file_of_labels_gets_a_sentence(tmp_path: Path) -> None:
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
