from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from dataset_files import write_photos, write_text

from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.build import build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.pixels import moved_to, restore_pixels
from surelabel.errors import InputError
from surelabel.types import no_progress

FOUR = "path,label\n0.png,cat\n1.png,cat\n2.png,dog\n3.png,dog\n"


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    photos = write_photos(tmp_path / "photos", [f"{i}.png" for i in range(5)])
    table = write_text(tmp_path / "labels.csv", FOUR)
    return build_catalog(photos, table, seed=0, cache=tmp_path / "cache")


def test_an_emptied_cache_is_filled_again(tmp_path: Path, catalog: Catalog) -> None:
    before = PixelStore(tmp_path / "cache", 20, 3).gather(catalog.digests)
    shutil.rmtree(tmp_path / "cache")
    store = restore_pixels(catalog, cache=tmp_path / "cache")
    assert (store.gather(catalog.digests) == before).all()


def test_moved_images_are_found_where_they_are_now(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "photos").rename(tmp_path / "moved")
    with pytest.raises(InputError, match=r"pixels of 5 images.*0.png: the file cannot be read"):
        restore_pixels(catalog, cache=tmp_path / "other")
    store = restore_pixels(catalog, cache=tmp_path / "other", images=tmp_path / "moved")
    assert len(store.gather(catalog.digests)) == 5


def test_moved_images_have_their_new_place(tmp_path: Path, catalog: Catalog) -> None:
    (tmp_path / "photos").rename(tmp_path / "moved")
    (tmp_path / "moved" / "4.png").unlink()
    there = moved_to(catalog, tmp_path / "moved", tmp_path / "cache", no_progress)
    folders = [Path(file).parent.name for file in there.files.tolist()]
    assert folders == ["moved"] * 4 + ["photos"]
    assert there.digest == catalog.digest


def test_images_that_are_alike_keep_their_own_files(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", [f"{i}.png" for i in range(4)])
    shutil.copy(photos / "0.png", photos / "z.png")
    table = write_text(tmp_path / "labels.csv", FOUR)
    catalog = build_catalog(photos, table, seed=0, cache=tmp_path / "cache")
    there = moved_to(catalog, photos, tmp_path / "cache", no_progress)
    assert there.files.tolist() == catalog.files.tolist()


def test_a_changed_image_is_never_taken_for_the_old(tmp_path: Path, catalog: Catalog) -> None:
    write_photos(tmp_path / "photos", ["0.png"], seed=9)
    with pytest.raises(InputError, match=r"pixels of 1 images.*has changed since"):
        restore_pixels(catalog, cache=tmp_path / "other")


def test_arrays_have_to_be_given_again(tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 256, (6, 16, 16), dtype=np.uint8)
    catalog = build_catalog(array, [0, 0, 1, 1, -1, -1], seed=0, cache=tmp_path / "cache")
    with pytest.raises(InputError, match="array:00000: it came in an array"):
        restore_pixels(catalog, cache=tmp_path / "other")
    store = restore_pixels(catalog, cache=tmp_path / "other", images=array)
    assert (store.gather(catalog.digests)[..., 0] == array).all()


@pytest.mark.parametrize("gone", ["0.png", "copy.png"])
def test_of_equal_files_one_will_do(tmp_path: Path, gone: str) -> None:
    photos = write_photos(tmp_path / "photos", [f"{i}.png" for i in range(5)])
    shutil.copy(photos / "0.png", photos / "copy.png")
    table = write_text(tmp_path / "labels.csv", FOUR)
    catalog = build_catalog(photos, table, seed=0, cache=tmp_path / "cache")
    (photos / gone).unlink()
    store = restore_pixels(catalog, cache=tmp_path / "other")
    assert len(store.gather(catalog.digests)) == 6
