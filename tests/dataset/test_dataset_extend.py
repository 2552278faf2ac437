from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from dataset_files import labels_by_path, splits_by_path, write_photos, write_text

from surelabel.dataset.build import add_given_labels, build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.extend import Added, extend_catalog
from surelabel.dataset.labels import Labels
from surelabel.dataset.sources import Images
from surelabel.errors import InputError, LabelsError, TooFewLabelsError
from surelabel.types import Split
from surelabel.workflows.problem import build_problem

FOUR = "path,label\n0.png,cat\n1.png,cat\n2.png,dog\n3.png,dog\n"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    photos = write_photos(tmp_path / "photos", [f"{i}.png" for i in range(8)])
    table = write_text(tmp_path / "labels.csv", FOUR)
    return build_catalog(photos, table, seed=0, cache=tmp_path / "cache")


@pytest.fixture
def digits(tmp_path: Path) -> Catalog:
    array = np.random.default_rng(0).integers(0, 256, (400, 16, 16), dtype=np.uint8)
    labels = np.where(np.arange(400) < 300, np.arange(400) % 3, -1)
    return build_catalog(array, labels, seed=0, cache=tmp_path / "cache")


def grow(
    catalog: Catalog,
    tmp_path: Path,
    images: Images | None = None,
    labels: Labels | None = None,
    overwrite: bool = False,
    random_sample: bool = True,
) -> tuple[Catalog, Added]:
    cache = tmp_path / "cache"
    return extend_catalog(
        catalog,
        images,
        labels,
        seed=0,
        tune_share=0.2,
        cache=cache,
        overwrite=overwrite,
        random_sample=random_sample,
    )


def test_new_images_go_to_the_pool(tmp_path: Path, catalog: Catalog) -> None:
    write_photos(tmp_path / "more", ["new/9.png"], side=33, seed=5)
    grown, added = grow(catalog, tmp_path, tmp_path / "more")
    assert added == Added(images=1, labels=0, changed=0, classes=())
    assert len(grown.in_split(Split.POOL)) == 5
    assert grown.size == 20
    assert grown.ids[: len(catalog)].tolist() == catalog.ids.tolist()


def test_known_images_change_nothing(tmp_path: Path, catalog: Catalog) -> None:
    grown, added = grow(catalog, tmp_path, tmp_path / "photos")
    assert added == Added(0, 0, 0, ())
    assert grown.digest == catalog.digest
    shutil.copytree(tmp_path / "photos", tmp_path / "backup")
    assert grow(catalog, tmp_path, tmp_path / "backup")[0].digest == catalog.digest


def test_the_folder_above_knows_its_images(tmp_path: Path, catalog: Catalog) -> None:
    write_photos(tmp_path / "photos" / "new", ["0.png"], seed=7)
    write_photos(tmp_path / "other", ["0.png"], seed=8)
    grown, added = grow(catalog, tmp_path, tmp_path)
    assert added.images == 2
    assert "other/0.png" in grown.paths


def test_another_image_of_the_same_name_is_refused(tmp_path: Path, catalog: Catalog) -> None:
    write_photos(tmp_path / "more", ["0.png", "1.png"], seed=5)
    with pytest.raises(InputError, match=r"'0.png' and 1 more is in the run already, with other"):
        grow(catalog, tmp_path, tmp_path / "more")


def test_new_labels_for_old_images(tmp_path: Path, catalog: Catalog) -> None:
    text = "path,label\n4.png,dog\n0.png,cat\nphotos/5.png,cat\n"
    grown, added = grow(catalog, tmp_path, labels=write_text(tmp_path / "l2.csv", text))
    assert added == Added(images=0, labels=2, changed=0, classes=())
    assert labels_by_path(grown)["5.png"] == "cat"
    assert splits_by_path(grown)["4.png"] == "train"


def test_a_new_class_goes_to_the_end(tmp_path: Path, catalog: Catalog) -> None:
    text = "path,label\n4.png,ape\n5.png,ape\n"
    grown, added = grow(catalog, tmp_path, labels=write_text(tmp_path / "l2.csv", text))
    assert grown.classes == ("cat", "dog", "ape")
    assert added.classes == ("ape",)
    assert grown.labels[:4].tolist() == catalog.labels[:4].tolist()


def test_one_label_makes_no_class(tmp_path: Path, catalog: Catalog) -> None:
    table = write_text(tmp_path / "l2.csv", "path,label\n4.png,ape\n5.png,cow\n")
    with pytest.raises(TooFewLabelsError, match=r"'ape' has 1, 'cow' has 1"):
        grow(catalog, tmp_path, labels=table)


def test_a_contradiction_is_refused_unless_overwriting(tmp_path: Path, catalog: Catalog) -> None:
    text = "path,label\n4.png,dog\n5.png,cat\n0.png,dog\n"
    table = write_text(tmp_path / "l2.csv", text)
    with pytest.raises(
        LabelsError, match=r"l2.csv:4: '0.png' has the label 'dog' here and already"
    ):
        grow(catalog, tmp_path, labels=table)
    grown, added = grow(catalog, tmp_path, labels=table, overwrite=True)
    assert added == Added(images=0, labels=2, changed=1, classes=())
    assert labels_by_path(grown)["0.png"] == "dog"


def test_new_images_with_labels_from_folders_or_a_table(tmp_path: Path, catalog: Catalog) -> None:
    write_photos(tmp_path / "more", ["cat/a.png", "dog/b.png"], seed=5)
    grown, added = grow(catalog, tmp_path, tmp_path / "more")
    assert (added.images, added.labels) == (2, 2)
    assert labels_by_path(grown)["dog/b.png"] == "dog"
    write_photos(tmp_path / "single", ["c.png"], seed=6)
    table = write_text(tmp_path / "l3.csv", "path,label\nsingle/c.png,cat\n")
    grown, added = grow(grown, tmp_path, labels=table)
    assert (added.images, added.labels) == (1, 1)


def test_enough_labels_end_cross_fitting(tmp_path: Path, catalog: Catalog) -> None:
    assert catalog.cross_fit
    write_photos(tmp_path / "more", [f"cat/{i}.png" for i in range(120)], seed=5)
    write_photos(tmp_path / "more", [f"dog/{i}.png" for i in range(120)], seed=6)
    grown, _ = grow(catalog, tmp_path, tmp_path / "more")
    assert not grown.cross_fit
    assert len(grown.in_split(Split.TUNE)) == 48


def test_picked_labels_and_given_splits_are_never_held_out(
    tmp_path: Path,
) -> None:
    images = np.random.default_rng(8).integers(0, 256, (700, 6, 6), dtype=np.uint8)
    few = build_catalog(
        images,
        np.where(np.arange(700) < 30, np.arange(700) % 2, -1),
        seed=0,
        cache=tmp_path / "cache",
    )
    table = pd.DataFrame({"path": few.paths[100:400], "label": [str(i % 2) for i in range(300)]})
    hard, _ = grow(few, tmp_path, labels=table, random_sample=False)
    table = table.assign(path=few.paths[400:700], split="train")
    given, _ = grow(hard, tmp_path, labels=table)
    for before in (hard, given):
        again, _ = grow(before, tmp_path, images[:3] // 2)
        certified = add_given_labels(
            before, {str(few.ids[50]): "1"}, seed=0, tune_share=0.2, split="certify"
        )
        for after in (again, certified):
            assert after.cross_fit
            assert not len(after.in_split(Split.TUNE))
        assert certified.training_digest == before.training_digest
        problem = build_problem(before, {}, 0)
        assert sorted(problem.tune_ids) == sorted(few.ids[:30])


def test_old_splits_stay_and_new_labels_are_divided(tmp_path: Path, digits: Catalog) -> None:
    labels = np.where(np.arange(400) >= 300, np.arange(400) % 3, -1)
    grown, added = grow(digits, tmp_path, labels=labels)
    assert added.labels == 100
    old = digits.labels >= 0
    assert (grown.splits[old] == digits.splits[old]).all()
    assert len(grown.in_split(Split.TUNE)) == 81


def test_arrays_are_numbered_on(tmp_path: Path, digits: Catalog) -> None:
    more = np.random.default_rng(1).integers(0, 256, (5, 16, 16), dtype=np.uint8)
    grown, added = grow(digits, tmp_path, more, np.array([0, -1, 1, -1, 2]))
    assert added == Added(images=5, labels=3, changed=0, classes=())
    assert grown.paths[-1] == "array:00404"


def test_a_split_never_changes(tmp_path: Path, digits: Catalog) -> None:
    trained = str(digits.paths[digits.rows(digits.in_split(Split.TRAIN)[:1])[0]])
    label = labels_by_path(digits)[trained]
    table = write_text(tmp_path / "l.csv", f"path,label,split\n{trained},{label},tune\n")
    with pytest.raises(LabelsError, match="is in the split train and cannot change to tune"):
        grow(digits, tmp_path, labels=table)


def test_a_group_follows_its_old_members(tmp_path: Path, catalog: Catalog) -> None:
    text = "path,label,split,group\n4.png,cat,certify,lot\n6.png,dog,certify,\n"
    grown, _ = grow(catalog, tmp_path, labels=write_text(tmp_path / "a.csv", text))
    table = write_text(tmp_path / "b.csv", "path,label,group\n5.png,cat,lot\n")
    grown, _ = grow(grown, tmp_path, labels=table)
    assert splits_by_path(grown)["5.png"] == "certify"
    table = write_text(tmp_path / "b.csv", "path,label,group\n5.png,cat,other\n")
    with pytest.raises(LabelsError, match="is in the group 'lot' and cannot change"):
        grow(grown, tmp_path, labels=table)


def test_copies_follow_the_labels(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "more").mkdir()
    shutil.copy(tmp_path / "photos" / "0.png", tmp_path / "more" / "copy.png")
    grown, _ = grow(catalog, tmp_path, tmp_path / "more")
    assert labels_by_path(grown)["copy.png"] == "cat"
    table = write_text(tmp_path / "l.csv", "path,label\n0.png,dog\n4.png,cat\n")
    grown, _ = grow(grown, tmp_path, labels=table, overwrite=True)
    assert labels_by_path(grown)["copy.png"] == "dog"


def test_unreadable_new_images_are_skipped(tmp_path: Path, catalog: Catalog) -> None:
    write_photos(tmp_path / "more", ["good.png"], seed=5)
    write_text(tmp_path / "more" / "bad.png", "")
    grown, added = grow(catalog, tmp_path, tmp_path / "more")
    assert added.images == 1
    assert [item.path for item in grown.skipped] == ["bad.png"]


def test_the_label_of_an_unreadable_image_goes_to_no_other(
    tmp_path: Path, catalog: Catalog
) -> None:
    write_photos(tmp_path / "more", ["good.png"], seed=5)
    write_text(tmp_path / "more" / "5.png", "")
    table = write_text(tmp_path / "more" / "l.csv", "path,label\n5.png,cat\ngood.png,dog\n")
    grown, added = grow(catalog, tmp_path, tmp_path / "more", table)
    assert added == Added(images=1, labels=1, changed=0, classes=())
    assert splits_by_path(grown)["5.png"] == "pool"


def test_images_are_known_through_a_link_too(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "link").symlink_to(tmp_path / "photos")
    write_photos(tmp_path / "place" / "new", ["9.png"], seed=9)
    _, added = grow(catalog, tmp_path, tmp_path / "place")
    assert added.images == 1


def test_none_of_these_can_become_a_class(tmp_path: Path, catalog: Catalog) -> None:
    none = write_text(tmp_path / "n.csv", "path,label\n4.png,none of these\n")
    grown, _ = grow(catalog, tmp_path, labels=none)
    assert splits_by_path(grown)["4.png"] == "pool"
    table = write_text(tmp_path / "l.csv", "path,label,split\n4.png,cat,train\n")
    grown, added = grow(grown, tmp_path, labels=table, overwrite=True)
    assert added.changed == 1
    assert splits_by_path(grown)["4.png"] == "train"


def test_two_names_of_one_file_are_no_fault(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "place" / "link").symlink_to(tmp_path / "photos")
    listed = pd.DataFrame({"path": ["photos/0.png", "place/link/0.png"]})
    grown, _ = grow(catalog, tmp_path, write_text(tmp_path / "all.csv", listed.to_csv(index=False)))
    assert len(set(grown.ids.tolist())) == len(grown)
    write_photos(tmp_path / "place", ["0.png"], seed=9)
    with pytest.raises(InputError, match=r"'0.png' is in the run already, with other content"):
        grow(catalog, tmp_path, tmp_path / "place")


def test_none_of_these_that_became_a_class_is_not_held_out(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 256, (400, 16, 16), dtype=np.uint8)
    table = pd.DataFrame({"index": range(400), "label": [str(i % 3) for i in range(400)]})
    table.loc[300:359, "label"] = "none of these"
    before = build_catalog(array, table[:360], seed=0, cache=tmp_path / "cache")
    table.loc[300:359, "label"] = "1"
    grown, _ = grow(before, tmp_path, labels=table[300:360], overwrite=True, random_sample=False)
    number = [int(path.split(":")[1]) for path in grown.paths.tolist()]
    corrected = np.isin(number, range(300, 360))
    assert set(grown.splits[corrected].tolist()) == {"train"}
