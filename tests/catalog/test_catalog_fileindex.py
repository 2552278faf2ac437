from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from catalog_files import write_photos, write_text
from PIL import Image

from surelabel.catalog.fileindex import Header, content_digest, read_headers
from surelabel.errors import InputError
from surelabel.types import Progress, no_progress

_LONG_AGO = 10**18


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
    tmp_path: Path, settled: bool
) -> None:
    path = tmp_path / "a.bmp"
    first, second = (Image.fromarray(np.full((8, 8), v, dtype=np.uint8)) for v in (1, 2))
    first.save(path)
    if settled:
        os.utime(path, ns=(_LONG_AGO, _LONG_AGO))
    stamp = path.stat().st_mtime_ns
    before = read_headers([str(path)], tmp_path / "cache", no_progress)
    second.save(path)
    os.utime(path, ns=(stamp, stamp))
    unnoticed = read_headers([str(path)], tmp_path / "cache", no_progress)
    assert (unnoticed == before) is settled
    os.utime(path, ns=(stamp + 1, stamp + 1))
    assert read_headers([str(path)], tmp_path / "cache", no_progress) != before


def test_a_damaged_index_is_begun_anew(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.png"])
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / "files.sqlite").write_bytes(b"this is no database" * 100)
    assert read_headers([str(tmp_path / "a.png")], cache, no_progress)[0].width == 20


def test_a_cache_that_cannot_be_written_gets_a_sentence(tmp_path: Path) -> None:
    write_photos(tmp_path, ["a.png"])
    with pytest.raises(InputError, match="SURELABEL_CACHE"):
        read_headers([str(tmp_path / "a.png")], tmp_path / "a.png" / "cache", no_progress)


def test_progress_reaches_the_total(tmp_path: Path) -> None:
    heard: list[Progress] = []
    write_photos(tmp_path, ["a.png", "b.png"])
    files = [str(tmp_path / name) for name in ("a.png", "b.png")]
    read_headers(files, tmp_path / "cache", heard.append)
    assert heard[-1] == Progress("checking files", 2, 2)
