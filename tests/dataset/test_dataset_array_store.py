from __future__ import annotations

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from surelabel.dataset.array_store import Pixels, PixelStore, default_cache
from surelabel.dataset.items import string_array
from surelabel.errors import InputError
from surelabel.types import Ids


def test_the_environment_names_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "c"))
    assert default_cache() == tmp_path / "c"


def test_otherwise_it_is_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SURELABEL_CACHE", " ")
    assert default_cache().name == "surelabel"
    assert default_cache().is_absolute()


def names(numbers: list[int]) -> Ids:
    return string_array(f"{number:032x}" for number in numbers)


def pictures(numbers: list[int], size: int = 4, channels: int = 3) -> Pixels:
    """Pixels that depend on the number that they belong to."""
    rows = [np.random.default_rng(n).integers(0, 256, (size, size, channels)) for n in numbers]
    return np.array(rows, dtype=np.uint8).reshape(-1, size, size, channels)


def test_what_is_added_comes_back_in_the_given_order(tmp_path: Path) -> None:
    PixelStore(tmp_path, 4, 3).add(names([5, 1, 9]), pictures([5, 1, 9]))
    PixelStore(tmp_path, 4, 3).add(names([2, 9]), pictures([2, 9]))
    for numbers in ([9, 2, 5, 5], [5, 1, 9], [1], []):
        stored = PixelStore(tmp_path, 4, 3).gather(names(numbers))
        assert stored.tolist() == pictures(numbers).tolist()


def test_missing_names_each_lacking_digest_once(tmp_path: Path) -> None:
    store = PixelStore(tmp_path, 4, 3)
    assert store.missing(names([8, 7, 8])).tolist() == names([8, 7]).tolist()
    store.add(names([7]), pictures([7]))
    assert store.missing(names([8, 7, 3, 8])).tolist() == names([8, 3]).tolist()
    assert store.missing(names([])).tolist() == []


def test_sizes_do_not_mix(tmp_path: Path) -> None:
    PixelStore(tmp_path, 4, 3).add(names([1]), pictures([1]))
    assert len(PixelStore(tmp_path, 4, 1).missing(names([1]))) == 1
    assert len(PixelStore(tmp_path, 5, 3).missing(names([1]))) == 1


def test_threads_that_share_a_store_find_everything(tmp_path: Path) -> None:
    digests = names(list(range(16_000)))
    values = np.arange(len(digests), dtype=np.uint16).view(np.uint8).reshape(-1, 1, 1, 2)
    PixelStore(tmp_path, 1, 2).add(digests, values)
    parts = np.arange(len(digests)).reshape(8, -1)
    for _ in range(20):
        store = PixelStore(tmp_path, 1, 2)
        with ThreadPoolExecutor(len(parts)) as pool:
            gathered = list(pool.map(lambda part, store=store: store.gather(digests[part]), parts))
        assert (np.concatenate(gathered) == values).all()


def test_an_open_store_sees_what_another_adds(tmp_path: Path) -> None:
    reader, writer = PixelStore(tmp_path, 4, 3), PixelStore(tmp_path, 4, 3)
    writer.add(names([1]), pictures([1]))
    assert reader.gather(names([1])).tolist() == pictures([1]).tolist()
    writer.add(names([2]), pictures([2]))
    assert reader.gather(names([2, 1])).tolist() == pictures([2, 1]).tolist()


def test_gathered_pixels_belong_to_the_caller(tmp_path: Path) -> None:
    store = PixelStore(tmp_path, 4, 3)
    store.add(names([1, 2]), pictures([1, 2]))
    for numbers in ([1, 2], [2, 1]):
        store.gather(names(numbers))[:] = 0
        assert store.gather(names(numbers)).tolist() == pictures(numbers).tolist()


def test_lacking_pixels_get_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="lacks the pixels of 2 images"):
        PixelStore(tmp_path, 4, 3).gather(names([1, 2]))


@pytest.mark.parametrize(
    ("digests", "pixels"),
    [
        (names([1]), pictures([1, 2])),
        (names([1]), pictures([1], size=5)),
        (names([1]), pictures([1]).astype(np.int64)),
        (string_array(["short"]), pictures([1])),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, digests: Ids, pixels: Pixels) -> None:
    with pytest.raises(ValueError, match=r"pixels are|digest"):
        PixelStore(tmp_path, 4, 3).add(digests, pixels)


def test_rows_that_the_file_lost_are_missing_and_can_be_added_again(tmp_path: Path) -> None:
    store = PixelStore(tmp_path, 4, 3)
    store.add(names([1, 2, 3]), pictures([1, 2, 3]))
    os.truncate(store.folder / "pixels.u8", 48 + 10)
    fresh = PixelStore(tmp_path, 4, 3)
    assert fresh.missing(names([1, 2, 3])).tolist() == names([2, 3]).tolist()
    fresh.add(names([3, 2]), pictures([3, 2]))
    assert (
        PixelStore(tmp_path, 4, 3).gather(names([1, 2, 3])).tolist() == pictures([1, 2, 3]).tolist()
    )


def test_a_damaged_index_names_the_folder_to_delete(tmp_path: Path) -> None:
    store = PixelStore(tmp_path, 4, 3)
    store.folder.mkdir(parents=True)
    (store.folder / "index.sqlite").write_bytes(b"this is no database" * 100)
    with pytest.raises(InputError, match="delete the folder"):
        store.missing(names([1]))
    with pytest.raises(InputError, match="delete the folder"):
        store.add(names([1]), pictures([1]))


def test_a_cache_that_cannot_be_written_is_explained(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="SURELABEL_CACHE"):
        PixelStore(tmp_path / "file", 4, 3).add(names([1]), pictures([1]))


def test_writers_take_turns(tmp_path: Path) -> None:
    def write(first: int) -> None:
        for n in range(first, first + 30, 3):
            PixelStore(tmp_path, 4, 3).add(names([n, n + 1, n + 2]), pictures([n, n + 1, n + 2]))

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 15, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = list(range(60))
    assert (
        PixelStore(tmp_path, 4, 3).gather(names(everything)).tolist()
        == pictures(everything).tolist()
    )


_WRITER = """
import sys
from pathlib import Path
import numpy as np
from surelabel.dataset.array_store import PixelStore
from surelabel.dataset.items import string_array

store, start = PixelStore(Path(sys.argv[1]), 32, 3), int(sys.argv[2])
print("ready", flush=True)
for first in range(start, start + 100_000, 7):
    numbers = range(first, first + 7)
    rows = [np.random.default_rng(n).integers(0, 256, (32, 32, 3)) for n in numbers]
    store.add(string_array(f"{n:032x}" for n in numbers), np.array(rows, dtype=np.uint8))
"""


def test_a_writer_killed_at_any_moment_leaves_a_valid_store(tmp_path: Path) -> None:
    moments = random.Random(0)
    for attempt in range(6):
        start = attempt * 100_000
        command = [sys.executable, "-c", _WRITER, str(tmp_path), str(start)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            time.sleep(0.05 + 0.3 * moments.random())
            writer.send_signal(signal.SIGKILL)
        tried = list(range(start, start + 7 * 400))
        store = PixelStore(tmp_path, 32, 3)
        lost = set(store.missing(names(tried)).tolist())
        kept = [n for n in tried if f"{n:032x}" not in lost]
        assert kept == tried[: len(kept)]
        assert len(kept) % 7 == 0
        assert (store.gather(names(kept)) == pictures(kept, 32, 3)).all()
    one = [10**6]
    PixelStore(tmp_path, 32, 3).add(names(one), pictures(one, 32, 3))
    assert (PixelStore(tmp_path, 32, 3).gather(names(one)) == pictures(one, 32, 3)).all()


def flip_bits(path: Path, n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    content = np.fromfile(path, dtype=np.uint8)
    at = rng.choice(len(content), n, replace=False)
    content[at] ^= np.uint8(1) << rng.integers(0, 8, n, dtype=np.uint8)
    content.tofile(path)


def test_damaged_rows_are_missing_until_they_are_made_again(tmp_path: Path) -> None:
    numbers = list(range(40))
    PixelStore(tmp_path, 4, 3).add(names(numbers), pictures(numbers))
    file = tmp_path / "pixels-4x4x3" / "pixels.u8"
    flip_bits(file, 5, seed=1)
    store = PixelStore(tmp_path, 4, 3)
    missing = store.missing(names(numbers))
    assert 1 <= len(missing) <= 5
    with pytest.raises(InputError, match=f"pixels of {len(missing)} images"):
        store.gather(names(numbers))
    again = [int(digest, 16) for digest in missing.tolist()]
    store.add(missing, pictures(again))
    for each in (store, PixelStore(tmp_path, 4, 3)):
        assert each.gather(names(numbers)).tolist() == pictures(numbers).tolist()


def test_a_damaged_index_gives_no_wrong_pixels(tmp_path: Path) -> None:
    numbers = list(range(40))
    PixelStore(tmp_path, 4, 3).add(names(numbers), pictures(numbers))
    index = tmp_path / "pixels-4x4x3" / "index.sqlite"
    sound = index.read_bytes()
    for seed in range(30):
        index.write_bytes(sound)
        flip_bits(index, 20, seed)
        store = PixelStore(tmp_path, 4, 3)
        try:
            gone = set(store.missing(names(numbers)).tolist())
        except InputError:
            continue
        kept = [n for n in numbers if f"{n:032x}" not in gone]
        assert store.gather(names(kept)).tolist() == pictures(kept).tolist()


def test_a_store_of_an_earlier_version_is_used_and_checked_from_now_on(tmp_path: Path) -> None:
    PixelStore(tmp_path, 4, 3).add(names([1]), pictures([1]))
    index = tmp_path / "pixels-4x4x3" / "index.sqlite"
    with contextlib.closing(sqlite3.connect(index)) as database, database:
        database.execute("ALTER TABLE pixels DROP COLUMN checksum")
    assert PixelStore(tmp_path, 4, 3).gather(names([1])).tolist() == pictures([1]).tolist()
    PixelStore(tmp_path, 4, 3).add(names([2]), pictures([2]))
    assert PixelStore(tmp_path, 4, 3).gather(names([1, 2])).tolist() == pictures([1, 2]).tolist()
    flip_bits(index.with_name("pixels.u8"), 90, seed=0)
    assert PixelStore(tmp_path, 4, 3).missing(names([2])).tolist() == names([2]).tolist()
