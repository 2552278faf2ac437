"""Disks that are really full, folders that may not be used, a run that is deleted at work."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from faults.crashes import Trials, must
from faults.inject import FaultPlan, run_child
from faults.scene import Outcome, copy_run, label_command, scratch

_NOBODY = 65534
_DISK_BYTES = 64 * 2**20


@contextlib.contextmanager
def small_disk() -> Iterator[Path | None]:
    """A file system of its own, in memory; None where this user may not mount one."""
    with tempfile.TemporaryDirectory(prefix="surelabel-disk-") as folder:
        size = f"size={_DISK_BYTES}"
        mount = ["mount", "-t", "tmpfs", "-o", size, "surelabel-faults", folder]
        if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
            yield None
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=True)


def _fill(disk: Path, left: int) -> Path:
    """Leave ``left`` bytes on ``disk``; the file in the way is returned."""
    ballast = disk / "ballast"
    ballast.unlink(missing_ok=True)
    free = shutil.disk_usage(disk).free
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, free - left))
    return ballast


def full_disk(n: int, seed: int) -> Outcome:
    """A small disk fills up under the run, the caches or the export; then there is room again."""
    rng, failures, stopped = random.Random(seed), [], 0
    with scratch() as place, small_disk() as disk:
        if disk is None:
            return Outcome("a real disk is full", 0, ("mounting a small disk is not allowed",))
        trials = _DiskTrials(place, disk)
        for number in range(n):
            name = list(trials.needs)[number % len(trials.needs)]
            left = rng.randrange(trials.needs[name])
            what = f"{name} with {left:,} of {trials.needs[name]:,} bytes left"
            trials.clear(name)
            ballast = _fill(disk, left)
            ended = run_child(trials.argv(name))
            if ended.code:
                stopped += 1
                told = any(word in ended.output.lower() for word in ("space", "full"))
                if ended.code < 0 or not told or "Traceback" in ended.output:
                    failures.append(f"{what}: exit {ended.code}: {ended.output[-300:]}")
            ballast.unlink()
            failures += trials.judge(name, what)
    return Outcome("a real disk is full", n, tuple(failures), f"{stopped} stopped, others had room")


class _DiskTrials:
    """Commands whose run, cache or target is on the small disk, and what they make of it."""

    def __init__(self, place: Path, disk: Path) -> None:
        self.trials, self.disk = Trials(place, ("label", "resume")), disk
        self.photos, self.labels = place / "photos", place / "labels.csv"
        self.needs: dict[str, int] = {}
        """Bytes that each leaves on the disk when there is room."""
        self.expected: dict[str, object] = {}
        for name in ("run", "resume", "pixels", "features", "folder", "csv", "parquet"):
            self.clear(name)
            before = shutil.disk_usage(disk).used
            must(run_child(self.argv(name)))
            self.needs[name] = shutil.disk_usage(disk).used - before
            self.expected[name] = self._result(name)

    def argv(self, name: str) -> list[str]:
        place, disk = self.trials.place, self.disk
        if name in ("folder", "csv", "parquet"):
            words = ["export", self.trials.whole, "--to", name, "--out", disk / "out"]
        elif name == "resume":
            words = ["resume", disk / "run", "--max-rounds", "3", "--quiet"]
        else:
            words = [*label_command(place, self._run(name))[3:]]
            if name != "run":
                words += ["--cache", disk / "cache"]
            if name == "features":
                words += ["--net", "lite0", "--tail", "linear", "--max-rounds", "1"]
        return [str(word) for word in words]

    def _run(self, name: str) -> Path:
        on_disk = name in ("run", "resume")
        return (self.disk if on_disk else self.trials.place) / f"{'run' if on_disk else name}"

    def clear(self, name: str) -> None:
        """What the command needs and nothing of what it makes."""
        for path in (*self.disk.iterdir(), self.trials.place / name):
            shutil.rmtree(path, ignore_errors=True)
            path.unlink(missing_ok=True)
        if name == "resume":
            copy_run(self.trials.whole, self.disk / "run")

    def judge(self, name: str, what: str) -> Iterator[str]:
        """What is wrong when it is done again, with room."""
        argv = self.argv(name)
        if "label" in argv and (self._run(name) / "run.json").exists():
            argv = ["resume", str(self._run(name)), "--quiet"]
        elif (self.disk / "out").exists():
            argv.append("--overwrite")
        ended = run_child(argv)
        if ended.code:
            yield f"{what}: it does not go on: {ended.output[-300:]}"
        elif self._result(name) != self.expected[name]:
            yield f"{what}: not the labels of the undisturbed run"

    def _result(self, name: str) -> object:
        out = self.disk / "out"
        if name in ("folder", "csv", "parquet"):
            files = [out] if out.is_file() else sorted(p for p in out.rglob("*") if p.is_file())
            return [(str(p.relative_to(self.disk)), p.read_bytes()) for p in files]
        table, _ = self.trials.result(self._run(name))
        return table.to_json()


def _become_nobody() -> None:
    """Root may write everywhere: be somebody who may not."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(_NOBODY)
        os.setuid(_NOBODY)


def no_permission(n: int, seed: int) -> Outcome:
    """Folders that may not be written to, or not be read: a reason, and all is as before."""
    rng, failures = random.Random(seed), []
    with scratch() as place:
        place.chmod(0o755)
        trials = Trials(place, ("label", "resume"))
        names = ("label", "resume", "export", "add", "audit", "label to cache")
        for number in range(n):
            name, mode = names[number % len(names)], rng.choice((0o555, 0o000))
            command = name.split()[0]
            run = trials.prepare(command)
            closed = {"label": run.parent / "new", "label to cache": place / "cache"}.get(name, run)
            closed.mkdir(exist_ok=True)
            argv = [str(closed / "run") if a == str(run) else a for a in trials.argv(command, run)]
            if name == "label to cache":
                shutil.rmtree(closed)
                closed.mkdir()
                argv = trials.argv(command, run)
            elif name != "label":
                argv = trials.argv(command, run)
            before = _content(closed)
            with _modes(place, closed, mode):
                ended = run_child(argv, FaultPlan(first=_become_nobody))
            what = f"{name}, mode {mode:o}"
            may_work = name == "export" and mode == 0o555  # it only reads the run
            if (ended.code <= 0 and not (may_work and ended.code == 0)) or (
                "Traceback" in ended.output or not ended.output.strip()
            ):
                failures.append(f"{what}: exit {ended.code}: {ended.output[-300:]}")
            if _content(closed) != before:
                failures.append(f"{what}: something has changed")
            failures += trials.judge(command, run, what) if command in trials.expected else []
    return Outcome("folders without permission", n, tuple(failures))


def _content(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@contextlib.contextmanager
def _modes(place: Path, closed: Path, mode: int) -> Iterator[None]:
    """Everything is open to all but ``closed``, which has ``mode``."""
    for path in (place, *place.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o666)
    for path in closed.rglob("*"):
        path.chmod(0o555 if path.is_dir() else 0o444)
    closed.chmod(mode)
    try:
        yield
    finally:
        closed.chmod(0o777)
        for path in closed.rglob("*"):
            path.chmod(0o777 if path.is_dir() else 0o666)


def folder_removed(n: int, seed: int) -> Outcome:
    """The run folder is deleted while it is trained."""
    failures: list[str] = []
    with scratch() as place:
        trials = Trials(place, ("resume",))
        rng = random.Random(seed)
        for _ in range(n):
            run = trials.prepare("resume")
            step = rng.randint(2, max(2, trials.n_steps["resume"] - 8))
            plan = FaultPlan(step, partial(shutil.rmtree, run, ignore_errors=True))
            ended = run_child(trials.argv("resume", run), plan)
            if ended.code <= 0 or "Traceback" in ended.output:
                failures.append(f"step {step}: exit {ended.code}: {ended.output[-200:]}")
            if run.exists():
                failures.append(f"step {step}: it came back with {sorted(run.rglob('*'))[:3]}")
    return Outcome("run folder deleted under training", n, tuple(failures))
