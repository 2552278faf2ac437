from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from surelabel.dataset.build import build_catalog
from surelabel.errors import OptionError
from surelabel.types import Progress
from surelabel_studies.use_by_dates.faults import Fault
from surelabel_studies.use_by_dates.records import COLUMNS, Settings, image_path
from surelabel_studies.use_by_dates.scene import render
from surelabel_studies.use_by_dates.sets import Like, counts
from surelabel_studies.use_by_dates.worker import encode
from surelabel_studies.use_by_dates.writer import write_use_by_dates

SMALL = Settings(Like.SET4, seed=3, scale=0.0035, size=299)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set made by one process."""
    out = tmp_path_factory.mktemp("dates") / "whole"
    seen: list[Progress] = []
    written = write_use_by_dates(out, SMALL, workers=1, on_progress=seen.append)
    assert (seen[0].done, seen[-1].done, seen[-1].total) == (0, SMALL.n_images, SMALL.n_images)
    assert written.n_made == written.n_images == SMALL.n_images
    return out


def test_the_folder_holds_images_labels_and_the_word_synthetic(whole: Path) -> None:
    names = {path.name for path in whole.iterdir()}
    assert names == {"images", "labels.csv", "README.md", "settings.json"}
    assert len(list((whole / "images").iterdir())) == SMALL.n_images
    assert "synthetic" in (whole / "README.md").read_text()
    assert '"synthetic": true' in (whole / "settings.json").read_text()


def test_the_table_has_the_truth_of_every_image(whole: Path) -> None:
    with (whole / "labels.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert Counter(row["category"] for row in rows) == {
        str(c): n for c, n in counts(Like.SET4, 0.0035).items()
    }
    for index in (0, 7, len(rows) - 1):
        image, record = render(index, Like.SET4, 3, scale=0.0035)
        row = rows[index]
        assert row["path"] == image_path(index)
        assert (row["label"], row["date"]) == (record.label, record.text)
        assert float(row["difficulty"]) == pytest.approx(record.difficulty, abs=1e-4)
        assert float(row["blur"]) == pytest.approx(record.difficulties[Fault.BLUR], abs=1e-4)
        assert (whole / row["path"]).read_bytes() == encode(image)


def test_the_bytes_do_not_depend_on_the_number_of_processes(whole: Path, tmp_path: Path) -> None:
    write_use_by_dates(tmp_path / "out", SMALL, workers=2)
    assert files(tmp_path / "out") == files(whole)


@pytest.mark.parametrize("below", ["", "images"])
def test_surelabel_reads_what_was_written(whole: Path, tmp_path: Path, below: str) -> None:
    catalog = build_catalog(whole / below, whole / "labels.csv", seed=0, cache=tmp_path)
    assert len(catalog.ids) == SMALL.n_images
    assert set(catalog.classes) == {"readable", "unreadable"}
    assert not catalog.skipped


def test_a_killed_call_leaves_whole_files_and_is_continued(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-m", "surelabel", "data", "use-by-dates", str(out)]
    command += ["--like", "set4", "--seed", "3", "--scale", "0.0035", "--workers", "2"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None and not any((out / "images").glob("*.jpg")):
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    images = list((out / "images").glob("*.jpg"))
    assert len(images) == SMALL.n_images or not (out / "labels.csv").exists()
    for path in images:
        with Image.open(path) as image:
            image.load()
    written = write_use_by_dates(out, SMALL, workers=1)
    assert written.n_images == SMALL.n_images
    assert files(out) == files(whole)


def test_what_is_missing_is_made_again_and_the_rest_is_left(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_use_by_dates(out, SMALL, workers=1)
    kept, gone = out / image_path(0), out / image_path(SMALL.n_images - 1)
    os.utime(kept, (1, 1))
    gone.unlink()
    written = write_use_by_dates(out, SMALL, workers=1)
    assert 0 < written.n_made < SMALL.n_images
    assert kept.stat().st_mtime == 1
    assert files(out) == files(whole)
    assert write_use_by_dates(out, SMALL).n_made == 0


def test_a_folder_of_other_settings_is_refused(whole: Path) -> None:
    before = files(whole)
    with pytest.raises(OptionError, match="made with seed 3, not 4"):
        write_use_by_dates(whole, Settings(Like.SET4, seed=4, scale=0.0035, size=299))
    assert files(whole) == before


def test_folders_that_hold_something_else_are_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(OptionError, match="mine"):
        write_use_by_dates(tmp_path / "mine", SMALL)
    with pytest.raises(OptionError, match="letter"):
        write_use_by_dates(tmp_path / "mine" / "letter.txt", SMALL)
    (tmp_path / "mine" / "settings.json").write_text("{}")
    with pytest.raises(OptionError, match="settings"):
        write_use_by_dates(tmp_path / "mine", SMALL)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


def test_no_workers_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="1 or more"):
        write_use_by_dates(tmp_path / "out", SMALL, workers=0)
    assert not (tmp_path / "out").exists()
