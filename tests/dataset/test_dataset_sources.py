from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import numpy as np
import pytest
from dataset_files import write_photos, write_text

from surelabel.dataset import sources
from surelabel.dataset.items import Skipped
from surelabel.dataset.sources import (
    class_folders,
    find_images,
    refuse_unclear_folders,
    walk_images,
)
from surelabel.errors import InputError, LabelsError


def folder_labels(folder: Path, known: tuple[str, ...] = ()) -> dict[str, str]:
    return {m.key: m.label for m in class_folders(find_images(folder), known).label_rows}


def test_class_folders_with_unlabeled_beside_them(tmp_path: Path) -> None:
    write_photos(tmp_path, ["cat/1.png", "cat/deep/2.png", "Unlabeled/3.png", "4.png"])
    assert folder_labels(tmp_path) == {"cat/1.png": "cat", "cat/deep/2.png": "cat"}


def test_two_folders_are_classes(tmp_path: Path) -> None:
    write_photos(tmp_path, ["cat/1.png", "dog/2.png", "3.png"])
    assert folder_labels(tmp_path) == {"cat/1.png": "cat", "dog/2.png": "dog"}


@pytest.mark.parametrize("names", [["1.png"], ["cat/1.png", "2.png"], ["unlabeled/1.png"]])
def test_other_folders_are_no_classes(tmp_path: Path, names: list[str]) -> None:
    write_photos(tmp_path, names)
    assert folder_labels(tmp_path) == {}


def test_folders_that_may_be_albums_are_refused_and_clear_ones_are_not(tmp_path: Path) -> None:
    write_photos(tmp_path, ["1.png", "batch 2/2.png", "from_phone/3.png"])
    with pytest.raises(InputError, match=r"2 of the 3 .*batch 2 \(1\).*--class-folders"):
        refuse_unclear_folders(find_images(tmp_path))
    write_photos(tmp_path, ["Unlabeled/4.png"])
    refuse_unclear_folders(find_images(tmp_path))


def test_a_run_with_classes_does_not_learn_new_ones_from_any_folder(tmp_path: Path) -> None:
    write_photos(tmp_path, ["cat/1.png", "2024-05/2.png"])
    assert folder_labels(tmp_path, ("cat", "dog")) == {}
    assert folder_labels(tmp_path, ("cat", "2024-05"))["cat/1.png"] == "cat"
    write_photos(tmp_path, ["unlabeled/3.png"])
    assert folder_labels(tmp_path, ("cat", "dog"))["2024-05/2.png"] == "2024-05"


def test_a_table_lists_images_relative_to_itself(tmp_path: Path) -> None:
    write_photos(tmp_path / "data", ["a/1.png", "2.png", "other.png"])
    path = write_text(tmp_path / "data" / "t.tsv", "path\tlabel\na/1.png\tcat\n2.png\t\n")
    source = find_images(path)
    assert source.keys == ("a/1.png", "2.png")
    assert [row.label for row in source.label_rows] == ["cat", ""]
    write_text(path, "path\tlabel\nnone.png\tcat\n")
    with pytest.raises(LabelsError, match=r"t.tsv:2: 'none.png'"):
        find_images(path)


def test_rows_of_an_array_have_stable_keys(tmp_path: Path) -> None:
    array = np.zeros((2, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "d.npz", images=array, labels=np.array([-1, 7]))
    assert find_images(array).keys == ("array:00000", "array:00001")
    source = find_images(tmp_path / "d.npz")
    assert source.keys == ("d.npz:00000", "d.npz:00001")
    assert [(m.key, m.label) for m in source.label_rows] == [("d.npz:00001", "7")]


def test_what_holds_no_images_is_explained(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "phone").mkdir()
    write_text(tmp_path / "phone" / "a.nef", "a photograph")
    write_photos(tmp_path, ["one.png"])
    write_text(tmp_path / "i.csv", "index,label\n0,cat\n")
    write_text(tmp_path / "e.csv", "path,label\n")
    for name, sentence in [
        ("empty", "holds no images. Is it the right folder"),
        ("phone", r"a.nef: NEF files cannot be decoded"),
        ("nothing", "there is no such folder or file"),
        ("one.png", "To label one image, give the folder"),
        ("i.csv", "has no column 'path'"),
        ("e.csv", "lists no images"),
    ]:
        with pytest.raises(InputError, match=sentence):
            find_images(tmp_path / name)


def test_of_two_unicode_forms_of_a_name_one_is_skipped(tmp_path: Path) -> None:
    write_photos(tmp_path, ["caf\u00e9.png", "cafe\u0301.png"])
    if len(list(tmp_path.iterdir())) < 2:
        pytest.skip("this file system keeps one form")
    source = find_images(tmp_path)
    assert source.keys == ("caf\u00e9.png",)
    assert "Unicode" in source.skipped[0].reason


def test_images_in_a_list_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="of the type list: give a folder"):
        find_images([str(tmp_path / "a.png")])  # type: ignore[arg-type]


def test_images_are_found_at_any_depth_in_a_fixed_order(tmp_path: Path) -> None:
    names = ["b.png", "a/deep/er/1.PNG", "a/0.png"]
    write_photos(tmp_path, names)
    write_text(tmp_path / "notes.txt", "hello")
    assert walk_images(tmp_path) == (sorted(names), [])


def test_photographs_that_pillow_does_not_decode_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_photos(tmp_path, ["a.png"])
    for name in ("IMG_1.HEIC", "IMG_2.NEF"):
        write_text(tmp_path / name, "from a phone")
    monkeypatch.setattr(sources, "readable_suffixes", lambda: frozenset({".png"}))
    names, skipped = walk_images(tmp_path)
    assert names == ["a.png"]
    assert [skip.path for skip in skipped] == ["IMG_1.HEIC", "IMG_2.NEF"]
    assert all("save it as JPEG" in skip.reason for skip in skipped)
    assert ["surelabel[heic]" in skip.reason for skip in skipped] == [True, False]


def test_files_of_other_kinds_are_named_but_for_what_lies_beside_images(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.png"])
    for name in ("scan.dcm", "no-ending", "labels.csv", "README.md"):
        write_text(tmp_path / name, "something")
    assert sorted(skip.path for skip in walk_images(tmp_path)[1]) == ["no-ending", "scan.dcm"]


def test_unusual_names_are_kept(tmp_path: Path) -> None:
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


def test_of_two_unicode_forms_of_a_name_the_composed_one_is_kept(tmp_path: Path) -> None:
    """A table that names it means it; macOS cannot even hold both."""
    composed, decomposed = (unicodedata.normalize(form, "é.png") for form in ("NFC", "NFD"))
    write_photos(tmp_path, [composed, decomposed, unicodedata.normalize("NFD", "ü.png")])
    if len(list(tmp_path.iterdir())) < 3:
        pytest.skip("this file system takes both forms for one name")
    source = find_images(tmp_path)
    assert dict(zip(source.keys, source.files, strict=True)) == {
        composed: str(tmp_path / composed),
        "ü.png": str(tmp_path / unicodedata.normalize("NFD", "ü.png")),
    }
    assert [each.path for each in source.skipped] == [decomposed]


def test_a_name_that_is_no_unicode_is_skipped_with_a_reason(tmp_path: Path) -> None:
    write_photos(tmp_path, ["good.png"])
    (tmp_path / "good.png").rename(tmp_path / os.fsdecode(b"b\xff.png"))
    names, skipped = walk_images(tmp_path)
    assert names == []
    assert skipped == [Skipped("b\\udcff.png", "its name is not valid Unicode: rename it")]
