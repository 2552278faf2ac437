from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from surelabel.files.atomic import (
    atomic_folder,
    atomic_path,
    atomic_write_bytes,
    atomic_write_many,
    atomic_write_with,
    fsync_tree,
    remove_leftovers,
)

WRITE_FOREVER = """
import sys
from pathlib import Path
from surelabel.files.atomic import atomic_write_bytes
print("ready", flush=True)
for n in range(10**9):
    atomic_write_bytes(Path(sys.argv[1]), b"%d" % (n % 10) * 500_000)
"""

FOLDERS_FOREVER = """
import sys
from pathlib import Path
from surelabel.files.atomic import atomic_folder
print("ready", flush=True)
for n in range(10**9):
    with atomic_folder(Path(sys.argv[1]), replace=True) as folder:
        for name in range(20):
            (folder / str(name)).write_text(str(n))
"""


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def run_and_kill(program: str, path: Path, after: float) -> None:
    command = [sys.executable, "-c", program, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(after)
        process.send_signal(signal.SIGKILL)


def test_many_files_are_written_together(tmp_path: Path) -> None:
    (tmp_path / "1").write_bytes(b"old")
    atomic_write_many({tmp_path / str(n): b"%d" % n for n in range(3)})
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [b"0", b"1", b"2"]


def test_of_many_files_none_is_half_written_when_one_fails(tmp_path: Path) -> None:
    (tmp_path / "1").mkdir()
    with pytest.raises(IsADirectoryError):
        atomic_write_many({tmp_path / str(n): b"whole" for n in range(3)})
    assert names(tmp_path) == ["0", "1"]
    assert (tmp_path / "0").read_bytes() == b"whole"


def test_a_write_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    atomic_write_bytes(path, b"old")
    atomic_write_with(path, lambda temporary: temporary.write_text("new"))
    assert path.read_text() == "new"
    assert names(tmp_path) == ["file"]


def test_permissions_are_those_of_an_ordinary_file(tmp_path: Path) -> None:
    (tmp_path / "ordinary").touch()
    atomic_write_bytes(tmp_path / "file", b"")
    assert (tmp_path / "file").stat().st_mode == (tmp_path / "ordinary").stat().st_mode


def fail(path: Path) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text("half")
        raise ZeroDivisionError


def fail_folder(path: Path) -> None:
    with atomic_folder(path, replace=True) as folder:
        (folder / "half").touch()
        raise ZeroDivisionError


def test_an_error_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        fail(path)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["file"]


def test_a_killed_writer_leaves_the_old_or_the_new_bytes(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for after in (0.02, 0.05, 0.11):
        run_and_kill(WRITE_FOREVER, path, after)
        data = path.read_bytes() if path.exists() else b""
        assert len(set(data)) <= 1
        assert len(data) in (0, 500_000)
    remove_leftovers(tmp_path)
    assert names(tmp_path) in ([], ["file"])


def test_a_killed_builder_leaves_a_whole_folder_or_none(tmp_path: Path) -> None:
    path = tmp_path / "built"
    for after in (0.02, 0.05, 0.11):
        run_and_kill(FOLDERS_FOREVER, path, after)
        if path.exists():
            assert len({file.read_text() for file in path.iterdir()}) == 1
            assert len(names(path)) == 20
    remove_leftovers(tmp_path)
    assert names(tmp_path) in ([], ["built"])


def test_what_another_process_is_writing_is_no_leftover(tmp_path: Path) -> None:
    with atomic_path(tmp_path / "file") as temporary, atomic_folder(tmp_path / "built") as folder:
        temporary.write_text("data")
        remove_leftovers(tmp_path)
        assert temporary.exists()
        assert folder.exists()
    assert names(tmp_path) == ["built", "file"]


def test_files_that_only_look_temporary_stay(tmp_path: Path) -> None:
    for name in (".tmp", ".notes.tmp", "x.0123456789abcdef.tmp", ".x.0123456789abcdeg.tmp"):
        (tmp_path / name).touch()
    before = names(tmp_path)
    remove_leftovers(tmp_path)
    assert names(tmp_path) == before


def test_leftovers_of_other_targets_stay(tmp_path: Path) -> None:
    (tmp_path / ".x.0123456789abcdef.tmp").touch()
    remove_leftovers(tmp_path, "y")
    assert names(tmp_path) == [".x.0123456789abcdef.tmp"]
    remove_leftovers(tmp_path, "x")
    assert names(tmp_path) == []


def test_a_folder_takes_over_an_empty_one_but_no_other(tmp_path: Path) -> None:
    path = tmp_path / "built"
    path.mkdir()
    with atomic_folder(path) as folder:
        (folder / "1").touch()
    assert names(path) == ["1"]
    with pytest.raises(OSError, match="not empty"), atomic_folder(path) as folder:
        (folder / "2").touch()
    assert names(path) == ["1"]
    assert names(tmp_path) == ["built"]


def test_replacing_a_folder_removes_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "built"
    for content in ("1", "2"):
        with atomic_folder(path, replace=True) as folder:
            (folder / content).touch()
    assert names(path) == ["2"]
    assert names(path.parent) == ["built"]


def test_an_error_keeps_the_old_folder(tmp_path: Path) -> None:
    path = tmp_path / "built"
    path.mkdir()
    (path / "old").touch()
    with pytest.raises(ZeroDivisionError):
        fail_folder(path)
    assert names(path) == ["old"]
    assert names(tmp_path) == ["built"]


def test_the_working_folder_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OSError, match="working folder"), atomic_folder(Path()):
        pass


def test_a_link_to_a_folder_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with atomic_folder(tmp_path / "link") as folder:
        (folder / "1").touch()
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "real") == ["1"]


def test_many_files_are_forced_to_disk_too(tmp_path: Path) -> None:
    for number in range(1100):
        (tmp_path / str(number)).touch()
    fsync_tree(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1100


def refuse_links(*_: object) -> None:
    raise PermissionError(errno.EPERM, "Operation not permitted")  # what exFAT says


@pytest.mark.parametrize("has_links", [True, False])
def test_without_replace_a_file_that_appears_meanwhile_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    path = tmp_path / "new" / "file"
    if not has_links:
        monkeypatch.setattr(os, "link", refuse_links)
    with atomic_path(path.with_name("first"), replace=False) as temporary:
        temporary.write_text("mine")
    assert path.with_name("first").read_text() == "mine"
    path.with_name("first").unlink()

    def race() -> None:
        with atomic_path(path, replace=False) as temporary:
            temporary.write_text("mine")
            path.write_text("theirs")

    with pytest.raises(FileExistsError):
        race()
    assert path.read_text() == "theirs"
    assert names(path.parent) == ["file"]


def test_two_processes_may_replace_the_same_folder(tmp_path: Path) -> None:
    path = tmp_path / "built"
    program = FOLDERS_FOREVER.replace("10**9", "40")
    command = [sys.executable, "-c", program, str(path)]
    writers = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    assert len(names(path)) == 20
    assert names(tmp_path) == ["built"]
