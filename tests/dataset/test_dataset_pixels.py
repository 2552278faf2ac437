from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from dataset_files import write_photos, write_text
from PIL import Image

from surelabel.dataset import pixels
from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.build import build_catalog
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.file_index import Header, read_headers
from surelabel.dataset.pixels import (
    median_side,
    relocate_files,
    restore_pixels,
    source_contents,
    store_images,
    with_headers,
)
from surelabel.dataset.sources import array_source, find_images
from surelabel.errors import InputError
from surelabel.types import OnProgress, Progress, no_progress


def test_sizes_and_channels_come_from_readable_images(tmp_path: Path) -> None:
    write_photos(tmp_path / "p", ["a.png", "b.png"], side=32)
    write_text(tmp_path / "p" / "c.png", "hello")
    contents = source_contents(find_images(tmp_path / "p"), tmp_path / "c", no_progress)
    assert (contents.rows.tolist(), contents.size, contents.channels) == ([0, 1], 32, 3)
    assert [item.path for item in contents.skipped] == ["c.png"]
    Image.new("L", (32, 32)).save(tmp_path / "p" / "d.png")
    assert source_contents(find_images(tmp_path / "p"), tmp_path / "c", no_progress).channels == 3


def test_equal_files_are_decoded_once_and_progress_counts_all(tmp_path: Path) -> None:
    write_photos(tmp_path / "p", ["a.png", "b.png"])
    (tmp_path / "p" / "c.png").write_bytes((tmp_path / "p" / "a.png").read_bytes())
    source = find_images(tmp_path / "p")
    contents = source_contents(source, tmp_path / "c", no_progress)
    store = PixelStore(tmp_path / "c", 20, 3)
    reports: list[Progress] = []
    assert store_images(store, source, contents, reports.append) == {}
    assert reports[-1] == Progress("reading images", 3, 3)
    assert (store.folder / "pixels.u8").stat().st_size == 2 * 20 * 20 * 3


def test_a_file_that_cannot_be_decoded_is_reported_by_its_content(tmp_path: Path) -> None:
    write_photos(tmp_path / "p", ["a.png"])
    whole = (tmp_path / "p" / "a.png").read_bytes()
    (tmp_path / "p" / "b.png").write_bytes(whole[:300])
    source = find_images(tmp_path / "p")
    contents = source_contents(source, tmp_path / "c", no_progress)
    store = PixelStore(tmp_path / "c", 20, 3)
    problems = store_images(store, source, contents, no_progress)
    assert problems == {contents.digests[1]: "the file ends too early"}


def test_rows_of_an_array_differ_by_content_and_shape(tmp_path: Path) -> None:
    array = np.zeros((2, 4, 6), dtype=np.uint8)
    wide = source_contents(array_source(array, "x", "x"), tmp_path, no_progress)
    high = source_contents(array_source(array.reshape(2, 6, 4), "x", "x"), tmp_path, no_progress)
    assert wide.digests[0] == wide.digests[1]
    assert wide.digests[0] != high.digests[0]
    assert (wide.size, wide.channels) == (24, 1)


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
    there = relocate_files(catalog, tmp_path / "moved", tmp_path / "cache", no_progress)
    folders = [Path(file).parent.name for file in there.files.tolist()]
    assert folders == ["moved"] * 4 + ["photos"]
    assert there.digest == catalog.digest


def test_images_that_are_alike_keep_their_own_files(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", [f"{i}.png" for i in range(4)])
    shutil.copy(photos / "0.png", photos / "z.png")
    table = write_text(tmp_path / "labels.csv", FOUR)
    catalog = build_catalog(photos, table, seed=0, cache=tmp_path / "cache")
    there = relocate_files(catalog, photos, tmp_path / "cache", no_progress)
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


def test_headers_are_read_once_and_only_for_files_that_lack_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def recorded(
        files: Sequence[str], cache: Path, on_progress: OnProgress, stamps: Mapping[str, str]
    ) -> list[Header]:
        read.extend(files)
        return read_headers(files, cache, on_progress, stamps)

    monkeypatch.setattr(pixels, "read_headers", recorded)
    photos = write_photos(tmp_path / "photos", [f"{i}.png" for i in range(4)], side=40)
    write_photos(tmp_path / "more", ["4.png"], side=70)
    source = with_headers(find_images(photos), tmp_path / "cache")
    assert median_side(source) == 40
    assert median_side(find_images(photos)) == 0
    table = write_text(tmp_path / "labels.csv", FOUR + "more/4.png,cat\n")
    catalog = build_catalog(source, table, seed=0, cache=tmp_path / "cache")
    assert len(catalog) == 5
    assert sorted(Path(file).name for file in read) == [f"{i}.png" for i in range(5)]


def test_the_median_side_of_an_array_is_that_of_its_rows() -> None:
    assert median_side(array_source(np.zeros((2, 12, 30), dtype=np.uint8), "x", "x")) == 12
