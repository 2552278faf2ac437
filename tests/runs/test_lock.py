from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from surelabel.errors import RunLockedError
from surelabel.files.locks import acquire, release
from surelabel.runs.lock import holder_file, is_locked, run_lock

HOLD = """
import sys, time
from pathlib import Path
from surelabel.runs.lock import run_lock
with run_lock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""

FORK_AND_HOLD = """
import os, sys, time
from pathlib import Path
from surelabel.runs.lock import run_lock
with run_lock(Path(sys.argv[1])):
    if os.fork() == 0:
        print("held", os.getpid(), flush=True)
        time.sleep(60)
        os._exit(0)
    time.sleep(60)
"""


@pytest.fixture(name="path")
def fixture_path(tmp_path: Path) -> Path:
    return tmp_path / "lock"


def hold(program: str, path: Path) -> tuple[subprocess.Popen[bytes], list[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    return process, process.stdout.readline().split()


@pytest.fixture(name="holder")
def fixture_holder(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    process, printed = hold(HOLD, path)
    assert printed == [b"held"]
    with process:
        yield process
        process.kill()


def test_the_lock_can_be_taken_again_after_release(path: Path) -> None:
    for _ in range(2):
        with run_lock(path):
            assert holder_file(path).read_text() == f"{os.getpid()}\n"
            assert is_locked(path)
        assert not holder_file(path).exists()
        assert not is_locked(path)


def test_the_error_names_the_holder(path: Path, holder: subprocess.Popen[bytes]) -> None:
    with pytest.raises(RunLockedError, match=str(holder.pid)), run_lock(path):
        pass


def test_the_lock_is_free_when_its_holder_was_killed(
    path: Path, holder: subprocess.Popen[bytes]
) -> None:
    assert is_locked(path)
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert holder_file(path).exists()
    assert not is_locked(path)
    with run_lock(path):
        pass


def test_it_is_held_within_one_process_too(path: Path) -> None:
    with run_lock(path), pytest.raises(RunLockedError, match=str(os.getpid())), run_lock(path):
        pass


def test_it_is_released_after_an_error(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), run_lock(path):
        raise ZeroDivisionError
    with run_lock(path):
        pass


def test_a_worker_that_outlives_a_killed_trainer_does_not_keep_the_lock(path: Path) -> None:
    process, (_, worker) = hold(FORK_AND_HOLD, path)
    with process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        try:
            with run_lock(path):
                os.kill(int(worker), 0)
        finally:
            os.kill(int(worker), signal.SIGKILL)


def test_asking_whether_it_is_held_does_not_stop_a_process_that_takes_it(path: Path) -> None:
    held = acquire(path)
    threading.Timer(0.1, release, (held,), {"keep": True}).start()
    with run_lock(path):
        assert is_locked(path)
