from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dataset_files import write_photos, write_text

from surelabel.dataset.build import build_catalog
from surelabel.dataset.sampling import draw, write_draw
from surelabel.errors import InputError, OptionError


def test_a_drawn_table_comes_back_filled_in(tmp_path: Path) -> None:
    names = ["a,b.png", 'say "hi".png', "two\nlines.png", "-rf.png", "ü.png", "x/y.png", "z.png"]
    photos = write_photos(tmp_path / "photos", names)
    table = draw(photos, 6, seed=1)
    assert table.columns.tolist() == ["path", "label"]
    assert set(table["path"]) <= set(names)
    assert len(set(table["path"])) == 6
    table["label"] = ["cat", "dog", "cat", "dog", "", ""]
    write_draw(table, tmp_path / "elsewhere" / "labels.csv")
    catalog = build_catalog(
        photos, tmp_path / "elsewhere" / "labels.csv", seed=0, cache=tmp_path / "c"
    )
    assert int((catalog.labels >= 0).sum()) == 4


def test_the_seed_decides_and_the_label_is_empty(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", [f"{i}.png" for i in range(30)])
    assert draw(photos, 9, seed=1).equals(draw(photos, 9, seed=1))
    assert not draw(photos, 9, seed=1).equals(draw(photos, 9, seed=2))
    assert set(draw(photos, 9, seed=1)["label"]) == {""}


def test_every_image_is_as_likely(tmp_path: Path) -> None:
    array = np.zeros((20, 4, 4), dtype=np.uint8)
    counts = dict.fromkeys([f"array:{i:05d}" for i in range(20)], 0)
    for seed in range(400):
        for path in draw(array, 5, seed=seed)["path"]:
            counts[path] += 1
    assert all(60 <= count <= 140 for count in counts.values())


def test_unreadable_images_are_passed_over(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", ["1.png", "2.png"])
    for i in range(20):
        write_text(photos / f"bad{i}.png", "")
    assert sorted(draw(photos, 5, seed=0)["path"]) == ["1.png", "2.png"]
    (photos / "1.png").unlink()
    (photos / "2.png").unlink()
    with pytest.raises(InputError, match="no image that can be read"):
        draw(photos, 5, seed=0)


def test_none_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="0 images cannot be drawn"):
        draw(tmp_path, 0, seed=0)


def test_certify_is_a_share_and_tables_are_text(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", ["1.png"])
    with pytest.raises(OptionError, match="certify is 60; it is the share"):
        draw(photos, 1, seed=0, certify=60)
    with pytest.raises(OptionError, match=r"ends in .csv or .tsv"):
        write_draw(draw(photos, 1, seed=0), tmp_path / "drawn.xlsx")


def test_answers_are_never_overwritten(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", ["1.png"])
    path = write_text(tmp_path / "labels.csv", "path,label\n1.png,cat\n")
    with pytest.raises(InputError, match="may hold labels"):
        write_draw(draw(photos, 1, seed=0), path)
    assert path.read_text() == "path,label\n1.png,cat\n"
    write_draw(draw(photos, 1, seed=0), tmp_path / "l.tsv")
    assert (tmp_path / "l.tsv").read_text() == "path\tlabel\n1.png\t\n"
