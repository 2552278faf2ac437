from __future__ import annotations

import os
from pathlib import Path

from dataset_files import write_photos, write_text

from surelabel.dataset.items import Skipped
from surelabel.dataset.sources import walk_images


def test_images_are_found_at_any_depth_in_a_fixed_order(tmp_path: Path) -> None:
    names = ["b.png", "a/deep/er/1.PNG", "a/0.png"]
    write_photos(tmp_path, names)
    write_text(tmp_path / "notes.txt", "hello")
    assert walk_images(tmp_path) == (sorted(names), [])


def test_photographs_that_pillow_does_not_decode_are_named(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.png"])
    write_text(tmp_path / "IMG_1.HEIC", "from a phone")
    names, skipped = walk_images(tmp_path)
    assert names == ["a.png"]
    assert [skip.path for skip in skipped] == ["IMG_1.HEIC"]
    assert "save it as JPEG" in skipped[0].reason


def test_files_of_other_kinds_are_named_but_for_what_lies_beside_images(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.png"])
    for name in ("scan.dcm", "no-ending", "labels.csv", "README.md"):
        write_text(tmp_path / name, "something")
    assert sorted(skip.path for skip in walk_images(tmp_path)[1]) == ["no-ending", "scan.dcm"]


def test_odd_names_are_names(tmp_path: Path) -> None:
    names = sorted(["a,b.png", 'say "hi".png', "two\nlines.png", "-rf.png", "日本/ü.png", " .png"])
    write_photos(tmp_path, names)
    assert walk_images(tmp_path)[0] == names


def test_hidden_files_are_left_alone(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.png", "._a.png", ".thumbnails/a.png", "__MACOSX/a.png"])
    assert walk_images(tmp_path) == (["a.png"], [])


def test_links_are_followed_without_loops_or_repeats(tmp_path: Path) -> None:
    root = write_photos(tmp_path / "root", ["a/1.png"])
    outside = write_photos(tmp_path / "outside", ["2.png"])
    (root / "a" / "up").symlink_to(root)
    (root / "again").symlink_to(root / "a")
    (root / "above").symlink_to(tmp_path)
    (root / "out").symlink_to(outside)
    (root / "out2").symlink_to(outside)
    (outside / "back").symlink_to(root)
    (outside / "self").symlink_to(outside)
    (root / "one.png").symlink_to(outside / "2.png")
    assert walk_images(root)[0] == ["a/1.png", "one.png", "out/2.png"]


def test_a_name_that_is_no_unicode_is_skipped_with_a_reason(tmp_path: Path) -> None:
    write_photos(tmp_path, ["good.png"])
    (tmp_path / "good.png").rename(tmp_path / os.fsdecode(b"b\xff.png"))
    names, skipped = walk_images(tmp_path)
    assert names == []
    assert skipped == [Skipped("b\\udcff.png", "its name is not valid Unicode: rename it")]
