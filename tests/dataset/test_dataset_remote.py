from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dataset_files import labels_by_path, write_photos
from remote_store import BUCKET, Store, running_store
from test_dataset_tar_shards import png, write_shards

from surelabel.dataset import file_index, remote
from surelabel.dataset.build import build_catalog
from surelabel.dataset.items import item_ids
from surelabel.dataset.labels import attach_labels
from surelabel.dataset.pixels import open_pixels, restore_pixels
from surelabel.dataset.sources import find_images
from surelabel.errors import InputError, LabelsError
from surelabel.files.atomic import remove_folder

fsspec = pytest.importorskip("fsspec")
NAMES = [f"{kind}/{i}.png" for kind in ("cat", "dog") for i in range(3)] + ["unlabeled/7.png"]


@pytest.fixture(scope="module", name="server")
def fixture_server() -> Iterator[Store]:
    pytest.importorskip("s3fs")
    pytest.importorskip("moto")
    with running_store() as store:
        yield store


@pytest.fixture(name="store")
def fixture_store(server: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    fsspec.filesystem("s3").clear_instance_cache()
    yield server
    server.refuse_after(float("inf"))
    fsspec.filesystem("s3").clear_instance_cache()


@pytest.fixture(name="memory")
def fixture_memory() -> Iterator[str]:
    """The address of an empty folder in memory."""
    yield "memory://surelabel/photos"
    fsspec.filesystem("memory").store.clear()


def to_memory(folder: Path, address: str) -> None:
    system = fsspec.filesystem("memory")
    for path in (p for p in folder.rglob("*") if p.is_file()):
        system.pipe_file(f"{address}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def write_parquet(path: Path, first: int, n: int = 4) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    images = [{"bytes": png(i), "path": f"{i}.png"} for i in range(first, first + n)]
    pq.write_table(pa.table({"image": images, "label": ["a", "b"] * (n // 2)}), path)
    return path


def test_a_folder_in_memory_is_read_as_the_same_folder_on_disk(tmp_path: Path, memory: str) -> None:
    photos = write_photos(tmp_path / "photos", NAMES)
    to_memory(photos, memory)
    here = build_catalog(photos, seed=0, cache=tmp_path / "a")
    there = build_catalog(memory, seed=0, cache=tmp_path / "b")
    assert there.digest == here.digest, "ids, labels, splits and content are the same"
    assert labels_by_path(there)["cat/1.png"] == "cat"
    assert open_pixels(there, tmp_path / "b").gather(here.digests).shape[0] == len(NAMES)


def test_an_address_of_a_local_file_is_its_path(tmp_path: Path) -> None:
    photos = write_photos(tmp_path / "photos", NAMES)
    assert find_images(f"file://{photos}") == find_images(str(photos))


def test_a_bucket_is_read_as_the_same_folder_on_disk(tmp_path: Path, store: Store) -> None:
    photos = write_photos(tmp_path / "photos", [*NAMES, ".hidden/a.png"])
    (photos / "notes.xyz").write_text("no image")
    address = store.put_folder(photos, "a-folder")
    here = build_catalog(photos, seed=0, cache=tmp_path / "a")
    there = build_catalog(address, seed=0, cache=tmp_path / "b")
    assert there.digest == here.digest
    assert there.skipped == here.skipped
    assert all(file.startswith(f"{address}/") for file in there.files.tolist())


def test_remote_objects_are_read_again_only_if_they_changed(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    photos = write_photos(tmp_path / "photos", NAMES)
    address = store.put_folder(photos, "read-once")
    first = build_catalog(address, seed=0, cache=tmp_path / "cache")
    read: list[str] = []
    fetch = remote.fetch

    def recorded(wanted: list[tuple[str, int, int | None]]) -> list[bytes | OSError]:
        read.extend(where for where, _, _ in wanted)
        return fetch(wanted)

    monkeypatch.setattr(remote, "fetch", recorded)
    assert build_catalog(address, seed=0, cache=tmp_path / "cache").digest == first.digest
    assert read == []
    store.put("read-once/cat/1.png", png(99))
    changed = build_catalog(address, seed=0, cache=tmp_path / "cache")
    assert set(read) == {f"{address}/cat/1.png"}
    assert changed.digest != first.digest
    remove_folder(tmp_path / "cache")
    restored = restore_pixels(changed, cache=tmp_path / "cache")
    assert not len(restored.missing(changed.digests)), "an emptied cache is filled again"


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_shards_in_a_bucket_are_read_as_on_disk(tmp_path: Path, store: Store, kind: str) -> None:
    if kind == "tar":
        folder = write_shards(tmp_path / "shards")
    else:
        folder = tmp_path / "shards"
        for number in range(3):
            write_parquet(folder / f"part-{number}.parquet", 10 * number)
    address = store.put_folder(folder, f"{kind}-shards")
    here = build_catalog(folder, seed=0, cache=tmp_path / "a")
    there = build_catalog(address, seed=0, cache=tmp_path / "b")
    assert len(there) == 12
    assert there.digest == here.digest
    single = find_images(f"{address}/{sorted(p.name for p in folder.iterdir())[0]}", tmp_path / "c")
    assert len(single.keys) == 4


def test_a_stream_of_a_shard_holds_a_part_of_it(store: Store) -> None:
    address = store.put("large.tar", b"x" * (40 * 2**20))
    with remote.open_stream(address) as stream:
        assert stream.read(10) == b"x" * 10
        cached = getattr(stream, "cache").cache  # noqa: B009 - not part of the type
        assert len(cached) < 20 * 2**20


def test_parquet_that_is_broken_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "shards"
    for number in range(3):
        write_parquet(folder / f"part-{number}.parquet", 10 * number)
    whole = find_images(folder, tmp_path / "cache")
    for number in (0, 1):
        bad = folder / f"part-{number}.parquet"
        bad.write_bytes(bad.read_bytes()[: 100 + 200 * number])
    source = find_images(folder, tmp_path / "cache")
    assert [item.path for item in source.skipped] == ["part-0.parquet", "part-1.parquet"]
    assert all(item.unread for item in source.skipped)
    assert set(source.keys) == {f"{i}.png" for i in range(20, 24)} < set(whole.keys)
    assert len(list((tmp_path / "cache" / "unpacked").iterdir())) == 3, "one file for each shard"


def test_labels_in_a_bucket_name_images_in_it(tmp_path: Path, store: Store) -> None:
    photos = write_photos(tmp_path / "photos", [f"{i}.png" for i in range(6)])
    address = store.put_folder(photos, "with-labels")
    rows = ["path,label", "0.png,a", f"{address}/1.png,b", "2.png,a", "3.png,b"]
    table = store.put("tables/labels.csv", "\n".join(rows).encode())
    catalog = build_catalog(address, table, seed=0, cache=tmp_path / "cache")
    assert labels_by_path(catalog) == {"0.png": "a", "1.png": "b", "2.png": "a", "3.png": "b"}
    wrong = store.put("tables/wrong.csv", b"path,label\n0.png,a\nnowhere.png,b\n")
    with pytest.raises(LabelsError, match=r"tables/wrong\.csv:3"):
        attach_labels(find_images(address, tmp_path / "cache"), wrong)


def test_a_table_may_list_images_by_address(tmp_path: Path, store: Store) -> None:
    photos = write_photos(tmp_path / "photos", [f"{i}.png" for i in range(4)])
    address = store.put_folder(photos, "listed")
    store.put("listed/table.csv", b"path,label\n0.png,a\n1.png,b\n2.png,a\n3.png,b\ngone.png,a\n")
    catalog = build_catalog(f"{address}/table.csv", seed=0, cache=tmp_path / "cache")
    assert catalog.paths.tolist() == ["0.png", "1.png", "2.png", "3.png"]
    (missing,) = catalog.skipped
    assert (missing.path, missing.unread) == ("gone.png", True)
    assert "no such object" in missing.reason
    (tmp_path / "table.csv").write_text(f"path,label\n{address}/0.png,a\n{address}/3.png,b\n")
    local = find_images(tmp_path / "table.csv")
    assert local.keys == (f"{address}/0.png", f"{address}/3.png")


def test_what_is_not_there_gets_a_sentence(tmp_path: Path, store: Store) -> None:
    for address in (f"s3://{BUCKET}/nothing", "s3://no-such-bucket/a", f"s3://{BUCKET}/x.npy"):
        with pytest.raises(InputError) as caught:
            find_images(address, tmp_path / "cache")
        assert address in str(caught.value)
    for address in ("http://[::1/a", "simplecache://a", "memory://nothing", "reference://a"):
        with pytest.raises(InputError) as told:
            find_images(address, tmp_path / "cache")
        assert address in str(told.value)
    with pytest.raises(InputError, match="nosuchscheme"):
        find_images("nosuchscheme://a/b")
    with pytest.raises(InputError) as refused:
        find_images("https://somebody:secret@example.com/a")
    assert "secret" not in str(refused.value)


def test_refused_access_is_told_apart_from_a_damaged_image(tmp_path: Path, store: Store) -> None:
    photos = write_photos(tmp_path / "photos", [f"{i:02d}.png" for i in range(40)])
    (photos / "39.png").write_bytes(b"no image")
    source = find_images(store.put_folder(photos, "refused"), tmp_path / "cache")
    store.refuse_after(0)
    with pytest.raises(InputError, match="access was refused"):
        find_images(source.name, tmp_path / "cache")
    headers = file_index.read_headers(
        source.files, tmp_path / "cache", lambda _: None, source.stamps
    )
    assert all(header.unread and "refused" in header.problem for header in headers)
    store.refuse_after(float("inf"))
    headers = file_index.read_headers(
        source.files, tmp_path / "cache", lambda _: None, source.stamps
    )
    assert [i for i, header in enumerate(headers) if header.problem] == [39]
    assert not headers[39].unread


def test_a_web_server_is_a_source(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    photos = write_photos(tmp_path / "photos", NAMES)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(photos))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        source = find_images(f"http://127.0.0.1:{server.server_port}/", tmp_path / "cache")
        here = build_catalog(photos, seed=0, cache=tmp_path / "a")
        there = build_catalog(source, seed=0, cache=tmp_path / "b")
        server.shutdown()
    assert there.digest == here.digest
    assert np.array_equal(there.ids, item_ids(sorted(NAMES)))


@pytest.mark.parametrize("scheme", ["", "file://", "FILE://", "local://"])
def test_a_table_from_elsewhere_cannot_name_files_of_this_machine(
    tmp_path: Path, memory: str, scheme: str
) -> None:
    photos = write_photos(tmp_path / "photos", NAMES)
    other = write_photos(tmp_path / "other", ["a.png"]) / "a.png"
    table = f"path,label\n{scheme}{other},cat\n"
    fsspec.filesystem("memory").pipe_file(f"{memory}/labels.csv", table.encode())
    with pytest.raises(LabelsError, match=r"other/a\.png"):
        attach_labels(find_images(photos), f"{memory}/labels.csv")
    with pytest.raises(LabelsError, match=r"other/a\.png"):
        find_images(f"{memory}/labels.csv", tmp_path / "cache")
    (tmp_path / "labels.csv").write_text(table)
    assert str(other) in attach_labels(find_images(photos), tmp_path / "labels.csv").files
