from __future__ import annotations

from pathlib import Path

import numpy as np
from dataset_files import write_photos, write_text
from PIL import Image

from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.pixels import measure, store_images
from surelabel.dataset.sources import array_source, find_images
from surelabel.types import Progress, no_progress


def test_sizes_and_channels_come_from_readable_images(tmp_path: Path) -> None:
    write_photos(tmp_path / "p", ["a.png", "b.png"], side=32)
    write_text(tmp_path / "p" / "c.png", "hello")
    measured = measure(find_images(tmp_path / "p"), tmp_path / "c", no_progress)
    assert (measured.rows, measured.size, measured.channels) == ((0, 1), 32, 3)
    assert [item.path for item in measured.skipped] == ["c.png"]
    Image.new("L", (32, 32)).save(tmp_path / "p" / "d.png")
    assert measure(find_images(tmp_path / "p"), tmp_path / "c", no_progress).channels == 3


def test_equal_files_are_decoded_once_and_progress_counts_all(tmp_path: Path) -> None:
    write_photos(tmp_path / "p", ["a.png", "b.png"])
    (tmp_path / "p" / "c.png").write_bytes((tmp_path / "p" / "a.png").read_bytes())
    source = find_images(tmp_path / "p")
    measured = measure(source, tmp_path / "c", no_progress)
    store = PixelStore(tmp_path / "c", 20, 3)
    heard: list[Progress] = []
    assert store_images(store, source, measured, heard.append) == {}
    assert heard[-1] == Progress("reading images", 3, 3)
    assert (store.folder / "pixels.u8").stat().st_size == 2 * 20 * 20 * 3


def test_a_file_that_cannot_be_decoded_is_reported_by_its_content(tmp_path: Path) -> None:
    write_photos(tmp_path / "p", ["a.png"])
    whole = (tmp_path / "p" / "a.png").read_bytes()
    (tmp_path / "p" / "b.png").write_bytes(whole[:300])
    source = find_images(tmp_path / "p")
    measured = measure(source, tmp_path / "c", no_progress)
    store = PixelStore(tmp_path / "c", 20, 3)
    problems = store_images(store, source, measured, no_progress)
    assert problems == {measured.digests[1]: "the file ends too early"}


def test_rows_of_an_array_differ_by_content_and_shape(tmp_path: Path) -> None:
    array = np.zeros((2, 4, 6), dtype=np.uint8)
    wide = measure(array_source(array, "x", "x"), tmp_path, no_progress)
    high = measure(array_source(array.reshape(2, 6, 4), "x", "x"), tmp_path, no_progress)
    assert wide.digests[0] == wide.digests[1]
    assert wide.digests[0] != high.digests[0]
    assert (wide.size, wide.channels) == (24, 1)
