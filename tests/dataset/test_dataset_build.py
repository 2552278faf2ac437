from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_files import labels_by_path, splits_by_path, write_photos, write_text
from PIL import Image

from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.build import build_catalog, catalog_like, label_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.decode import Decoding
from surelabel.dataset.items import LabelRow, item_id
from surelabel.dataset.pixels import read_catalog
from surelabel.dataset.sources import array_source
from surelabel.errors import InputError, LabelsError, TooFewLabelsError
from surelabel.types import Progress, Split, no_progress

FOUR = "path,label\n0.png,cat\n1.png,cat\n2.png,dog\n3.png,dog\n"


def names(n: int) -> list[str]:
    return [f"{i}.png" for i in range(n)]


def test_a_folder_and_a_table(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", names(6))
    table = write_text(tmp_path / "labels.csv", FOUR)
    catalog = build_catalog(photos, table, seed=0, cache=tmp_path / "cache")
    assert catalog.classes == ("cat", "dog")
    assert labels_by_path(catalog) == {
        "0.png": "cat",
        "1.png": "cat",
        "2.png": "dog",
        "3.png": "dog",
    }
    assert catalog.cross_fit
    assert (catalog.size, catalog.channels) == (20, 3)
    assert catalog.ids.tolist() == [item_id(path) for path in catalog.paths]
    assert catalog.files.tolist() == [str(photos / path) for path in catalog.paths]
    assert len(catalog.in_split(Split.POOL)) == 2
    stored = PixelStore(tmp_path / "cache", 20, 3).gather(catalog.digests)
    for file, pixels in zip(catalog.files, stored, strict=True):
        with Image.open(file) as image:
            assert (np.asarray(image) == pixels).all()


def test_ids_do_not_depend_on_the_machine_or_the_order(tmp_path: Path) -> None:
    one = write_photos(tmp_path / "one", names(6))
    shutil.copytree(one, tmp_path / "two" / "deep")
    table = write_text(tmp_path / "labels.csv", FOUR)
    first = build_catalog(one, table, seed=0, cache=tmp_path / "c")
    lines = FOUR.splitlines()
    write_text(table, "\n".join([lines[0], *reversed(lines[1:])]))
    second = build_catalog(tmp_path / "two" / "deep", table, seed=0, cache=tmp_path / "d")
    assert first.digest == second.digest


def test_class_folders_need_no_table(tmp_path: Path) -> None:
    write_photos(tmp_path / "p", ["cat/0.png", "cat/1.png", "dog/2.png", "dog/3.png"])
    write_photos(tmp_path / "p", ["unlabeled/4.png"], seed=1)
    catalog = build_catalog(tmp_path / "p", seed=0, cache=tmp_path / "cache")
    assert labels_by_path(catalog)["dog/2.png"] == "dog"
    assert catalog.in_split(Split.POOL).tolist() == [item_id("unlabeled/4.png")]


def test_a_table_wins_over_folders(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "p", ["may/0.png", "may/1.png", "june/2.png", "june/3.png"])
    text = "path,label\nmay/0.png,a\njune/2.png,a\nmay/1.png,b\njune/3.png,b\n"
    table = write_text(tmp_path / "labels.csv", text)
    assert build_catalog(photos, table, seed=0, cache=tmp_path / "c").classes == ("a", "b")


def test_enough_labels_are_split(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 256, (400, 8, 8), dtype=np.uint8)
    labels = np.where(np.arange(400) < 300, np.arange(400) % 3, -1)
    catalog = build_catalog(array, labels, seed=3, cache=tmp_path / "c")
    assert not catalog.cross_fit
    assert catalog.classes == ("0", "1", "2")
    assert (catalog.size, catalog.channels) == (24, 1)
    assert len(catalog.in_split(Split.TUNE)) == 60
    assert len(catalog.in_split(Split.POOL)) == 100
    again = build_catalog(array, labels, seed=3, cache=tmp_path / "c")
    assert again.digest == catalog.digest
    assert build_catalog(array, labels, seed=4, cache=tmp_path / "c").digest != catalog.digest


def test_given_splits_and_groups_are_obeyed(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "p", names(8))
    text = (
        "path,label,split,group\n0.png,cat,tune,\n1.png,cat,,\n2.png,dog,,a\n3.png,dog,train,a\n"
        "4.png,cat,certify,\n5.png,dog,,b\n6.png,dog,certify,b\n7.png,,certify,\n"
    )
    table = write_text(tmp_path / "labels.csv", text)
    catalog = build_catalog(photos, table, seed=0, cache=tmp_path / "c")
    assert list(splits_by_path(catalog).values()) == [
        *("tune", "train", "train", "train", "certify", "certify", "certify", "pool")
    ]
    assert not catalog.cross_fit
    assert catalog.groups[2] == "a"


def test_bad_files_are_skipped_and_counted_and_never_fatal(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "p", names(6))
    whole = (photos / "5.png").read_bytes()
    (photos / "cut.png").write_bytes(whole[: len(whole) // 2])
    write_text(photos / "empty.png", "")
    write_text(photos / "text.jpg", "hello")
    write_text(photos / "notes.txt", "hello")
    write_text(photos / "unlisted.txt", "hello")
    table = write_text(tmp_path / "l.csv", FOUR + "cut.png,cat\nnotes.txt,dog\n")
    catalog = build_catalog(photos, table, seed=0, cache=tmp_path / "c")
    assert sorted(catalog.paths.tolist()) == names(6)
    assert {item.path: item.reason for item in catalog.skipped} == {
        "cut.png": "the file ends too early",
        "empty.png": "the file is empty",
        "text.jpg": "the file is not an image of a known format",
        "notes.txt": "the file is not an image of a known format",
    }


def test_a_class_of_unreadable_images_is_missed(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "p", names(4))
    write_text(photos / "a.png", "")
    write_text(photos / "b.png", "")
    table = write_text(tmp_path / "l.csv", FOUR + "a.png,fox\nb.png,fox\n")
    with pytest.raises(TooFewLabelsError, match="'fox' has 0"):
        build_catalog(photos, table, seed=0, cache=tmp_path / "c")


def test_nothing_readable_is_explained(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    write_text(tmp_path / "p" / "a.png", "")
    with pytest.raises(InputError, match=r"1 were skipped, the first, a.png, because the file is"):
        build_catalog(tmp_path / "p", seed=0, cache=tmp_path / "c")


def test_no_labels_point_to_draw(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "p", names(4))
    with pytest.raises(TooFewLabelsError, match=r"There are no labels.*surelabel draw"):
        build_catalog(photos, seed=0, cache=tmp_path / "c")


def test_copies_of_labeled_images_get_their_label(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "p", names(8))
    for original in ("0", "2", "4", "6"):
        shutil.copy(photos / f"{original}.png", photos / f"copy of {original}.png")
    text = FOUR + "4.png,cat,\n6.png,cat,certify\n"
    table = write_text(tmp_path / "l.csv", text.replace("path,label\n", "path,label,split\n"))
    catalog = build_catalog(photos, table, seed=0, cache=tmp_path / "c")
    labels = labels_by_path(catalog)
    assert labels["copy of 0.png"] == "cat"
    assert labels["copy of 2.png"] == "dog"
    assert "copy of 6.png" not in labels
    assert len(catalog.copied) == 3
    assert not set(catalog.copied) & set(catalog.in_split(Split.POOL))
    assert splits_by_path(catalog)["copy of 0.png"] == "pool"


def test_copies_that_people_labeled_differently_are_not_copied(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "p", names(4))
    for name in ("a.png", "b.png"):
        shutil.copy(photos / "0.png", photos / name)
    table = write_text(tmp_path / "l.csv", FOUR + "a.png,dog\n")
    catalog = build_catalog(photos, table, seed=0, cache=tmp_path / "c")
    assert labels_by_path(catalog)["a.png"] == "dog"
    assert "b.png" not in labels_by_path(catalog)


def test_gray_images_have_one_channel_and_size_can_be_asked_for(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    for i in range(4):
        Image.new("L", (30, 40), 50 * i).save(tmp_path / "p" / f"{i}.png")
    table = write_text(tmp_path / "l.csv", FOUR)
    catalog = build_catalog(tmp_path / "p", table, seed=0, cache=tmp_path / "c")
    assert (catalog.size, catalog.channels) == (64, 1)
    enlarged = build_catalog(
        tmp_path / "p", table, seed=0, decoding=Decoding(48), cache=tmp_path / "c"
    )
    assert enlarged.size == 48


def test_the_second_time_nothing_is_decoded(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "p", names(5))
    table = write_text(tmp_path / "l.csv", FOUR)
    build_catalog(photos, table, seed=0, cache=tmp_path / "c")
    before = (tmp_path / "c/pixels-20x20x3/pixels.u8").stat().st_size
    reports: list[Progress] = []
    build_catalog(photos, table, seed=0, cache=tmp_path / "c", on_progress=reports.append)
    assert reports[-1] == Progress("reading images", 5, 5)
    assert (tmp_path / "c/pixels-20x20x3/pixels.u8").stat().st_size == before


def test_contradicting_rows_are_refused_with_both_lines(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "p", names(4))
    table = write_text(tmp_path / "l.csv", FOUR + "./0.png,dog\n")
    with pytest.raises(
        LabelsError, match=r"l.csv:6: '0.png' has the label 'dog', and 'cat' in .*l.csv:2"
    ):
        build_catalog(photos, table, seed=0, cache=tmp_path / "c")


def test_new_images_are_read_like_the_old(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "p", names(4))
    table = write_text(tmp_path / "l.csv", FOUR)
    catalog = build_catalog(photos, table, seed=0, cache=tmp_path / "c")
    other = write_photos(tmp_path / "q", ["x/1.png", "y/2.png"], side=50, seed=9)
    like = catalog_like(catalog, other, cache=tmp_path / "c")
    assert (like.size, like.channels, like.classes) == (20, 3, ("cat", "dog"))
    assert like.in_split(Split.POOL).tolist() == like.ids.tolist()
    assert PixelStore(tmp_path / "c", 20, 3).gather(like.digests).shape == (2, 20, 20, 3)


@pytest.fixture
def blank(tmp_path: Path) -> Catalog:
    array = np.random.default_rng(0).integers(0, 256, (6, 16, 16), dtype=np.uint8)
    array[5] = array[0]
    return read_catalog(array_source(array, "x", "x"), tmp_path, no_progress)


def label_rows(labels: list[str], **more: Any) -> dict[str, LabelRow]:
    keys = [f"x:{i:05d}" for i in range(len(labels))]
    pairs = zip(keys, labels, strict=True)
    return {k: LabelRow(k, f"t:{k}", label, **more) for k, label in pairs if label}


def test_labels_sources_and_copies_follow_from_given_labels(blank: Catalog) -> None:
    catalog = label_catalog(blank, label_rows(["b", "a", "b", "a"]), seed=0, tune_share=0.2)
    assert catalog.classes == ("a", "b")
    assert catalog.labels.tolist() == [1, 0, 1, 0, -1, 1]
    assert catalog.sources.tolist() == ["given"] * 4 + ["", "copied"]
    assert catalog.splits.tolist() == ["train"] * 4 + ["pool"] * 2
    assert catalog.cross_fit


def test_the_same_labels_again_change_nothing(blank: Catalog) -> None:
    rows = label_rows(["b", "a", "b", "a"])
    once = label_catalog(blank, rows, seed=0, tune_share=0.2)
    assert label_catalog(once, rows, seed=0, tune_share=0.2).digest == once.digest
    assert label_catalog(once, {}, seed=0, tune_share=0.2).digest == once.digest


def test_a_copied_label_yields_to_a_person(blank: Catalog) -> None:
    once = label_catalog(blank, label_rows(["b", "a", "b", "a"]), seed=0, tune_share=0.2)
    own = {"x:00005": LabelRow("x:00005", "t:9", "a")}
    twice = label_catalog(once, own, seed=0, tune_share=0.2)
    assert (twice.labels[5], twice.sources[5]) == (0, "given")


def test_certify_labels_are_kept_and_not_copied(blank: Catalog) -> None:
    rows = label_rows(["", "a", "b", "a", "b"]) | {
        "x:00000": LabelRow("x:00000", "t", "b", "certify")
    }
    catalog = label_catalog(blank, rows, seed=0, tune_share=0.2)
    assert (catalog.splits[0], catalog.labels[0]) == ("certify", 1)
    assert (catalog.sources[5], catalog.labels[5]) == ("", -1)


def test_a_label_changes_only_when_asked_to(blank: Catalog) -> None:
    once = label_catalog(blank, label_rows(["b", "a", "b", "a", "b"]), seed=0, tune_share=0.2)
    other = {"x:00000": LabelRow("x:00000", "t:9", "a")}
    with pytest.raises(LabelsError, match=r"t:9: 'x:00000' has the label 'a' here and already 'b'"):
        label_catalog(once, other, seed=0, tune_share=0.2)
    changed = label_catalog(once, other, seed=0, tune_share=0.2, overwrite=True)
    assert changed.labels[0] == 0
