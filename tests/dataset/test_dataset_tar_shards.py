from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from dataset_files import labels_by_path, write_photos
from PIL import Image

from surelabel.dataset import tar_shards
from surelabel.dataset.build import build_catalog
from surelabel.dataset.decode import decode_image
from surelabel.dataset.items import Source, item_id
from surelabel.dataset.locations import Location, read_content
from surelabel.dataset.pixels import open_pixels, read_catalog
from surelabel.dataset.sources import find_images
from surelabel.errors import InputError
from surelabel.types import no_progress


def png(seed: int, side: int = 20) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    return content.getvalue()


def write_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write_shards(folder: Path, n_shards: int = 3, each: int = 4) -> Path:
    """Shards as WebDataset writes them: the first half of each has a label."""
    for number in range(n_shards):
        files = {}
        for i in range(each):
            seed = number * each + i
            files[f"{seed:05d}.png"] = png(seed)
            if i < each // 2:
                files[f"{seed:05d}.cls"] = str(seed % 2).encode()
        write_tar(folder / f"train-{number:03d}.tar", files)
    return folder


def labels_of(source: Source) -> dict[str, str]:
    return {row.key: row.label for row in source.label_rows}


def test_shards_become_a_catalog_without_being_unpacked(tmp_path: Path) -> None:
    shards = write_shards(tmp_path / "shards")
    cache = tmp_path / "cache"
    catalog = build_catalog(shards, seed=0, cache=cache)
    assert len(catalog) == 12
    assert catalog.classes == ("0", "1")
    assert labels_by_path(catalog)["train-001.tar/00005.png"] == "1"
    assert catalog.ids.tolist() == [item_id(path) for path in catalog.paths.tolist()]
    row = catalog.paths.tolist().index("train-002.tar/00009.png")
    assert read_content(str(catalog.files[row])) == png(9)
    stored = open_pixels(catalog, cache).gather(catalog.digests[row : row + 1])[0]
    assert (stored == decode_image(png(9), catalog.size, 3)).all()
    kept = [path.name for path in cache.rglob("*.png")]
    assert not kept, "no image is unpacked"


def test_labels_come_from_files_of_the_same_sample(tmp_path: Path) -> None:
    files = {
        "a/1.left.png": png(1),
        "a/1.right.png": png(2),
        "a/1.json": json.dumps({"label": "cat", "other": [1]}).encode(),
        "./a/2.png": png(3),
        "a/2.cls": b"-1\n",
        "b/1.png": png(4),
        "b/1.txt": b"a caption",
        "c/1.png": png(5),
        "c/1.json": b"not json",
        "d/1.png": png(6),
        "d/1.json": json.dumps({"cls": 7}).encode(),
    }
    source = find_images(write_tar(tmp_path / "a.tar", files), tmp_path / "cache")
    assert labels_of(source) == {"a/1.left.png": "cat", "a/1.right.png": "cat", "d/1.png": "7"}
    assert set(source.keys) >= {"a/2.png", "b/1.png", "c/1.png"}


def test_names_that_lead_elsewhere_or_are_hidden_are_passed_over(tmp_path: Path) -> None:
    names = ["../up.png", "x/../../up.png", "__MACOSX/a.png", "x/._a.png", "/abs.png", "ok.png"]
    tar = write_tar(tmp_path / "a.tar", {name: png(i) for i, name in enumerate(names)})
    assert set(find_images(tar, tmp_path / "cache").keys) == {"abs.png", "ok.png"}


def test_long_and_unicode_names_are_found_at_their_offsets(tmp_path: Path) -> None:
    names = [f"{'long/' * 40}{i}.png" for i in range(3)] + ["grün/ä.png"]
    tar = write_tar(tmp_path / "a.tar", {name: png(i) for i, name in enumerate(names)})
    source = find_images(tar, tmp_path / "cache")
    assert [read_content(file) for file in source.files] == [png(i) for i in range(4)]


def test_a_second_look_reads_no_shard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shards = write_shards(tmp_path / "shards")
    first = find_images(shards, tmp_path / "cache")

    def refuse(file: str) -> None:
        raise AssertionError(f"{file} was read again")

    monkeypatch.setattr(tar_shards, "open_stream", refuse)
    assert find_images(shards, tmp_path / "cache") == first
    os.utime(shards / "train-000.tar", ns=(1, 1))
    with pytest.raises(InputError, match="holds no images"):
        find_images(shards / "train-000.tar", tmp_path / "cache")


def test_a_damaged_index_is_made_again(tmp_path: Path) -> None:
    shards = write_shards(tmp_path / "shards")
    first = find_images(shards, tmp_path / "cache")
    for path in (tmp_path / "cache" / "shards").iterdir():
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert find_images(shards, tmp_path / "cache") == first


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.95])
def test_of_a_shard_that_ends_early_the_images_before_are_used(tmp_path: Path, keep: float) -> None:
    shards = write_shards(tmp_path / "shards")
    whole = find_images(shards, tmp_path / "cache")
    bad = shards / "train-001.tar"
    bad.write_bytes(bad.read_bytes()[: int(keep * 9216)])
    source = find_images(shards, tmp_path / "cache")
    names = [key for key in source.keys if key.startswith("train-001")]
    assert set(source.keys) == {k for k in whole.keys if "train-001" not in k} | set(names)
    (problem,) = source.skipped
    assert problem.path == "train-001.tar"
    assert problem.unread
    known = dict(zip(whole.keys, whole.files, strict=True))
    for name, file in zip(source.keys, source.files, strict=True):
        assert file == known[name]


def test_a_shard_that_ends_between_two_files_is_noticed(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", {"1.png": png(1), "2.png": png(2)})
    source = find_images(tar, tmp_path / "cache")
    second = Location.parse(source.files[1])
    tar.write_bytes(tar.read_bytes()[: second.start - 512])
    (problem,) = find_images(tar, tmp_path / "cache").skipped
    assert "too early" in problem.reason


def test_a_damaged_header_is_noticed(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "a.tar", {"1.png": png(1), "2.png": png(2)})
    second = Location.parse(find_images(tar, tmp_path / "cache").files[1])
    content = bytearray(tar.read_bytes())
    content[second.start - 512 : second.start - 400] = b"\xff" * 112
    tar.write_bytes(content)
    source = find_images(tar, tmp_path / "cache")
    assert source.keys == ("1.png",)
    assert "damaged at byte" in source.skipped[0].reason


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"no archive" * 1000)
    with pytest.raises(InputError, match=r"a\.tar"):
        find_images(tmp_path / "a.tar", tmp_path / "cache")
    (tmp_path / "a.tar.gz").write_bytes(b"")
    with pytest.raises(InputError, match="compressed"):
        find_images(tmp_path / "a.tar.gz", tmp_path / "cache")


def test_images_beside_an_archive_are_the_dataset(tmp_path: Path) -> None:
    folder = write_photos(tmp_path / "photos", ["a.png", "b.png"])
    write_tar(folder / "backup.tar", {"c.png": png(1)})
    assert find_images(folder, tmp_path / "cache").keys == ("a.png", "b.png")


def raw_member(name: str, content: bytes = b"", **facts: object) -> bytes:
    """A file of an archive, with a header that may lie."""
    info = tarfile.TarInfo(name)
    info.size = len(content)
    for fact, value in facts.items():
        setattr(info, fact, value)
    return info.tobuf(tarfile.PAX_FORMAT) + content + bytes(-len(content) % 512)


SPARSE = {
    "GNU.sparse.major": "1",
    "GNU.sparse.minor": "0",
    "GNU.sparse.name": "b.png",
    "GNU.sparse.realsize": str(2**40),
}


@pytest.mark.parametrize(
    ("member", "reason"),
    [
        (raw_member("b.png", type=tarfile.SYMTYPE, linkname="/etc/passwd"), "link"),
        (raw_member("b.png", type=tarfile.LNKTYPE, linkname="a.png"), "link"),
        (raw_member("b.png", type=tarfile.CHRTYPE), "device"),
        (raw_member("x", b"1\n0\n512\n".ljust(512, b"\0"), pax_headers=SPARSE), "holes"),
        (raw_member("b.png", size=2**34), "512 MB"),
    ],
)
def test_only_whole_files_of_an_archive_are_read_and_the_others_are_told(
    tmp_path: Path, member: bytes, reason: str
) -> None:
    (tmp_path / "a.tar").write_bytes(raw_member("a.png", png(1)) + member + bytes(1024))
    source = find_images(tmp_path / "a.tar", tmp_path / "cache")
    catalog = read_catalog(source, tmp_path / "cache", no_progress)
    assert catalog.paths.tolist() == ["a.png"]
    assert {each.path: each.reason for each in catalog.skipped}["b.png"].count(reason) == 1


def test_a_label_that_is_nested_too_deep_is_none(tmp_path: Path) -> None:
    files = {"a.png": png(1), "a.json": b"[" * 500_000, "b.png": png(2), "b.cls": b"cat"}
    source = find_images(write_tar(tmp_path / "a.tar", files), tmp_path / "cache")
    assert set(source.keys) == {"a.png", "b.png"}
    assert labels_of(source) == {"b.png": "cat"}
