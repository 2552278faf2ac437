from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dataset_files import write_photos, write_text
from PIL import Image

from surelabel.dataset import file_index
from surelabel.dataset.file_index import Header, content_digest, read_headers
from surelabel.errors import InputError
from surelabel.types import Progress, no_progress


def test_headers_tell_content_size_and_color(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.png"], side=9)
    Image.new("L", (5, 7)).save(tmp_path / "b.jpg")
    files = [str(tmp_path / "b.jpg"), str(tmp_path / "a.png")]
    gray, color = read_headers(files, tmp_path / "cache", no_progress)
    assert gray == Header(content_digest((tmp_path / "b.jpg").read_bytes()), 5, 7, True)
    assert color == Header(content_digest((tmp_path / "a.png").read_bytes()), 9, 9, False)


def test_what_is_no_image_has_a_reason(tmp_path: Path) -> None:
    write_text(tmp_path / "empty.png", "")
    write_text(tmp_path / "text.jpg", "hello")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "link.png").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.png")
    names = ["empty.png", "text.jpg", "folder.png", "link.png", "pipe.png", "gone.png"]
    headers = read_headers([str(tmp_path / n) for n in names], tmp_path / "cache", no_progress)
    assert [header.problem for header in headers] == [
        "the file is empty",
        "the file is not an image of a known format",
        "it is not a file",
        "the link points to no file",
        "it is not a file",
        "there is no such file",
    ]


@pytest.mark.parametrize("settled", [True, False])
def test_a_file_is_hashed_again_only_when_it_may_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settled: bool
) -> None:
    path = tmp_path / "a.bmp"
    first, second = (Image.fromarray(np.full((8, 8), v, dtype=np.uint8)) for v in (1, 2))
    first.save(path)
    monkeypatch.setattr(file_index, "_SETTLED_NS", 0 if settled else 10**18)
    looked: list[str] = []
    inspect = file_index._inspect_all

    def inspect_all(paths: Sequence[str], stamps: Mapping[str, str]) -> list[Any]:
        looked.extend(paths)
        return list(inspect(paths, stamps))

    monkeypatch.setattr(file_index, "_inspect_all", inspect_all)
    before = read_headers([str(path)], tmp_path / "cache", no_progress)
    assert read_headers([str(path)], tmp_path / "cache", no_progress) == before
    assert len(looked) == (1 if settled else 2)
    stamp = path.stat().st_mtime_ns
    second.save(path)
    os.utime(path, ns=(stamp, stamp))
    assert path.stat().st_mtime_ns == stamp
    assert read_headers([str(path)], tmp_path / "cache", no_progress) != before


def test_a_damaged_index_is_begun_anew(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.png"])
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "files.sqlite").write_bytes(b"this is no database" * 100)
    assert read_headers([str(tmp_path / "a.png")], cache, no_progress)[0].width == 20


def test_an_index_that_is_damaged_inside_is_removed_and_the_next_call_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_photos(tmp_path, [f"{i}.png" for i in range(200)])
    files, cache = [str(tmp_path / f"{i}.png") for i in range(200)], tmp_path / "cache"
    monkeypatch.setattr(file_index, "_SETTLED_NS", 0)
    read_headers(files, cache, no_progress)
    index = cache / "files.sqlite"
    content = index.read_bytes()
    index.write_bytes(content[:4096] + b"\xff" * (len(content) - 4096))
    with pytest.raises(InputError, match="was damaged"):
        read_headers(files, cache, no_progress)
    assert read_headers(files, cache, no_progress)[7].width == 20


def test_a_cache_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.png"])
    with pytest.raises(InputError, match="SURELABEL_CACHE"):
        read_headers([str(tmp_path / "a.png")], tmp_path / "a.png" / "cache", no_progress)


def test_progress_reaches_the_total(tmp_path: Path) -> None:
    reports: list[Progress] = []
    write_photos(tmp_path, ["a.png", "b.png"])
    files = [str(tmp_path / name) for name in ("a.png", "b.png")]
    read_headers(files, tmp_path / "cache", reports.append)
    assert reports[-1] == Progress("checking files", 2, 2)


def test_a_flipped_bit_in_the_index_gives_no_other_header(tmp_path: Path) -> None:
    paths = [str(tmp_path / f"{n}.png") for n in range(8)]
    for n, path in enumerate(paths):
        Image.new("L", (5 + n, 6)).save(path)
        os.utime(path, (1e9, 1e9))
    time.sleep(2.1)  # a file that has just changed is not indexed
    cache = tmp_path / "cache"
    expected = read_headers(paths, cache, no_progress)
    index = cache / "files.sqlite"
    sound = index.read_bytes()
    for seed in range(30):
        damaged = bytearray(sound)
        rng = random.Random(seed)
        for _ in range(20):
            damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        index.write_bytes(damaged)
        with contextlib.suppress(InputError):
            assert read_headers(paths, cache, no_progress) == expected
