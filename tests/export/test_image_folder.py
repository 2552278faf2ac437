from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from surelabel.dataset.array_store import PixelStore
from surelabel.export.image_folder import Missing, place, write_class_map, write_image_folder
from surelabel.runs.folder import RunFolder
from surelabel.types import Progress

MakeRun = Callable[[Sequence[str], Sequence[str]], RunFolder]


@pytest.fixture(name="out")
def fixture_out(tmp_path: Path) -> Path:
    out = tmp_path / "out"
    out.mkdir()
    return out


def write(run: RunFolder, labels: Sequence[str], out: Path) -> list[Missing]:
    catalog = run.catalog
    store = PixelStore(Path(run.config.cache), catalog.size, catalog.channels)
    return write_image_folder(out, place(catalog, catalog.ids.tolist(), labels), store)


def files_in(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_each_image_is_in_the_folder_of_its_label(photo_run: MakeRun, out: Path) -> None:
    labels = ["cat", "dog", "", "cat"]
    run = photo_run(["1.png", "2.png", "lot/3.png", "lot/1.png"], labels)
    assert write(run, labels, out) == []
    assert files_in(out) == ["cat/1.png", "cat/lot_1.png", "dog/2.png", "unlabeled/3.png"]
    for row, name in enumerate(["cat/1.png", "dog/2.png", "unlabeled/3.png", "cat/lot_1.png"]):
        assert (out / name).read_bytes() == Path(run.catalog.files[row]).read_bytes()


def test_no_folder_is_empty(photo_run: MakeRun, out: Path) -> None:
    labels = ["cat", "dog"]
    write(photo_run(["1.png", "2.png"], labels), labels, out)
    assert sorted(path.name for path in out.iterdir()) == ["cat", "dog"]


def test_copies_are_no_links(photo_run: MakeRun, out: Path) -> None:
    run = photo_run(["1.png"], ["cat"])
    write(run, ["cat"], out)
    (out / "cat" / "1.png").write_bytes(b"")
    assert Path(run.catalog.files[0]).stat().st_size > 0


def test_rows_of_an_array_become_png(array_run: MakeRun, out: Path) -> None:
    labels = ["cat", ""]
    run = array_run(["train/0", "train:1"], labels)
    assert write(run, labels, out) == []
    assert files_in(out) == ["cat/0.png", "unlabeled/train%3A1.png"]
    catalog = run.catalog
    store = PixelStore(Path(run.config.cache), catalog.size, catalog.channels)
    for pixels, name in zip(store.gather(catalog.digests), files_in(out), strict=True):
        with Image.open(out / name) as image:
            assert image.format == "PNG"
            assert np.array_equal(np.asarray(image).reshape(pixels.shape), pixels)


def test_a_missing_source_is_listed(photo_run: MakeRun, out: Path) -> None:
    run = photo_run(["1.png", "2.png"], ["cat", "cat"])
    Path(run.catalog.files[0]).unlink()
    gone = Missing("1.png", "the file is not there any more")
    assert write(run, ["cat", "cat"], out) == [gone]
    assert files_in(out) == ["cat/2.png", "missing.csv"]
    with (out / "missing.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["path", "reason"], [gone.path, gone.reason]]


def test_a_source_that_changed_is_listed_and_not_copied(photo_run: MakeRun, out: Path) -> None:
    run = photo_run(["1.png", "2.png"], ["cat", "dog"])
    one, two = (Path(file) for file in run.catalog.files)
    one.write_bytes(two.read_bytes())
    (missing,) = write(run, ["cat", "dog"], out)
    assert missing == Missing("1.png", "the file has changed since the run read it")
    assert files_in(out) == ["dog/2.png", "missing.csv"]


def test_a_source_that_became_a_folder_is_listed(photo_run: MakeRun, out: Path) -> None:
    run = photo_run(["1.png"], ["cat"])
    Path(run.catalog.files[0]).unlink()
    Path(run.catalog.files[0]).mkdir()
    assert [each.path for each in write(run, ["cat"], out)] == ["1.png"]


def test_pixels_that_left_the_cache_are_listed(array_run: MakeRun, out: Path) -> None:
    run = array_run(["0", "1"], ["cat", "cat"])
    for file in (Path(run.config.cache)).rglob("*"):
        if file.is_file():
            file.unlink()
    assert [each.path for each in write(run, ["cat", "cat"], out)] == ["0", "1"]


def test_an_error_of_the_target_is_not_a_missing_source(photo_run: MakeRun, out: Path) -> None:
    run = photo_run(["1.png"], ["cat"])
    (out / "cat").mkdir()
    (out / "cat" / "1.png").touch()
    with pytest.raises(FileExistsError):
        write(run, ["cat"], out)


def test_progress_ends_at_the_total(photo_run: MakeRun, out: Path) -> None:
    run = photo_run([f"{n}.png" for n in range(300)], [""] * 300)
    seen: list[Progress] = []
    placements = place(run.catalog, run.catalog.ids.tolist(), [""] * 300)
    store = PixelStore(Path(run.config.cache), 8, 1)
    write_image_folder(out, placements, store, seen.append)
    assert [(each.done, each.total) for each in seen] == [(256, 300), (300, 300)]


def test_the_class_map_is_there_when_it_is_needed(out: Path) -> None:
    write_class_map(out, ["cat", "", "dog"])
    assert files_in(out) == []
    write_class_map(out, ["cat", "a/b", ""])
    with (out / "classes.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["folder", "label"], ["a%2Fb", "a/b"], ["cat", "cat"]]
