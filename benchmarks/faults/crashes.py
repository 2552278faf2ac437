"""Kills and full disks at chosen and random moments: nothing is lost, labels end the same."""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pandas as pd

import surelabel
from faults.inject import Ended, disk_full, kill_myself, run_with_fault
from faults.scene import (
    CLASSES,
    Outcome,
    command,
    copy_run,
    finished_run,
    label_command,
    make_scene,
    serving,
)
from surelabel.runs.folder import RunFolder

COMMANDS = ("label", "resume", "export", "add", "audit")


class _Trials:
    """A finished run, and what each command makes of a copy of it when nothing goes wrong."""

    def __init__(self, place: Path, commands: Sequence[str] = COMMANDS) -> None:
        self.place = place
        self.out = make_scene(place)
        self.whole = place / "whole"
        _must(run_with_fault(self.argv("label", self.whole), -1, kill_myself))
        self.expected = {name: self._result(name) for name in commands}
        self.n_steps = {name: self._count(name) for name in commands}

    def argv(self, name: str, run: Path) -> list[str]:
        """The words of a command on ``run``."""
        place = self.place
        if name == "label":
            return label_command(place, run)[3:]
        words: dict[str, list[object]] = {
            "resume": ["resume", run, "--max-rounds", 3, "--quiet"],
            "export": ["export", run, "--to", "folder", "--out", f"{run}-labeled", "--overwrite"],
            "add": ["add", run, "--labels", place / "more.csv", "--quiet"],
            "audit": ["audit", run, "--checks", 5, "--out", f"{run}-audit.csv", "--overwrite"],
        }
        return [str(word) for word in words[name]]

    def prepare(self, name: str) -> Path:
        """A fresh copy of the finished run, or nothing for ``label``; with two answers."""
        run = self.place / "trial"
        for path in (run, Path(f"{run}-labeled")):
            shutil.rmtree(path, ignore_errors=True)
        Path(f"{run}-audit.csv").unlink(missing_ok=True)
        if name != "label":
            copy_run(self.whole, run)
            store = RunFolder.open(run).answers
            for row in (-1, -2):
                store.add(str(RunFolder.open(run).catalog.ids[row]), "label", "down", "ann")
            store.close()
        return run

    def end_well(self, name: str, run: Path) -> Ended:
        """Do again, undisturbed, what a fault interrupted."""
        again = "resume" if name == "label" and (run / "run.json").exists() else name
        argv = self.argv(again, run)
        if name == "label" and again == "resume":
            argv = ["resume", str(run), "--quiet"]
        return run_with_fault(argv, -1, kill_myself)

    def result(self, name: str, run: Path) -> tuple[pd.DataFrame, int]:
        opened = surelabel.open_run(run)
        return opened.annotations, opened.folder.answers.last_seq()

    def _result(self, name: str) -> tuple[pd.DataFrame, int]:
        run = self.prepare(name)
        _must(run_with_fault(self.argv(name, run), -1, kill_myself))
        return self.result(name, run)

    def _count(self, name: str) -> int:
        return _must(run_with_fault(self.argv(name, self.prepare(name)), -1, kill_myself)).n_steps

    def judge(self, name: str, run: Path, what: str) -> Iterator[str]:
        """What is wrong after a fault and a second, undisturbed try."""
        if name != "label" and RunFolder.open(run).answers.last_seq() < 2:
            yield f"{what}: answers were lost"
        ended = self.end_well(name, run)
        if ended.code != 0:
            yield f"{what}: it does not go on: {ended.output[-300:]}"
            return
        table, n_answers = self.result(name, run)
        expected, n_expected = self.expected[name]
        if not table.equals(expected) or n_answers != n_expected:
            yield f"{what}: the labels are not those of the undisturbed run"


def _must(ended: Ended) -> Ended:
    if ended.code != 0:
        raise RuntimeError(f"without any fault: {ended.code} {ended.output}")
    return ended


def kills_between_steps(n: int, seed: int, commands: Sequence[str] = COMMANDS) -> Outcome:
    """SIGKILL between write, fsync and rename, at steps drawn at random."""
    return _faults("killed between write, fsync and rename", n, seed, commands, kill=True)


def full_disk(n: int, seed: int, commands: Sequence[str] = COMMANDS) -> Outcome:
    """ENOSPC at a step drawn at random and at every later one; then there is room again."""
    return _faults("disk full", n, seed, commands, kill=False)


def _faults(title: str, n: int, seed: int, commands: Sequence[str], *, kill: bool) -> Outcome:
    rng, failures, began = random.Random(seed), [], time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        trials = _Trials(Path(scratch), commands)
        for number in range(n):
            name = commands[number % len(commands)]
            step = rng.randint(1, trials.n_steps[name])
            run = trials.prepare(name)
            fault = kill_myself if kill else disk_full
            ended = run_with_fault(trials.argv(name, run), step, fault, lasting=not kill)
            what = f"{name} at step {step} of {trials.n_steps[name]}"
            if kill and ended.code != -9:
                failures.append(f"{what}: it was not killed ({ended.code})")
            if not kill and (ended.code <= 0 or "space" not in ended.output):
                failures.append(f"{what}: exit {ended.code}: {ended.output[-300:]}")
            if "Traceback" in ended.output:
                failures.append(f"{what}: {ended.output[-300:]}")
            failures += trials.judge(name, run, what)
        steps = ", ".join(f"{name} {k}" for name, k in trials.n_steps.items())
    return Outcome(title, n, tuple(failures), f"steps: {steps}; {time.monotonic() - began:.0f} s")


def kills_at_random(n: int, seed: int) -> Outcome:
    """SIGKILL after a random time."""
    rng = random.Random(seed)
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        trials = _Trials(Path(scratch))
        killed = 0
        for number in range(n):
            name = COMMANDS[number % len(COMMANDS)]
            run = trials.prepare(name)
            seconds = rng.uniform(0.02, 1.5 if name in ("label", "resume") else 0.4)
            ended = run_with_fault(trials.argv(name, run), -1, kill_myself, kill_after=seconds)
            killed += ended.code == -9
            failures += trials.judge(name, run, f"{name} after {seconds:.2f} s")
    return Outcome("killed at a random moment", n, tuple(failures), f"{killed} while at work")


def folder_removed(n: int, seed: int) -> Outcome:
    """The run folder is deleted while it is trained."""
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        trials = _Trials(Path(scratch))
        rng = random.Random(seed)
        for _ in range(n):
            run = trials.prepare("resume")
            step = rng.randint(2, max(2, trials.n_steps["resume"] - 8))
            ended = run_with_fault(trials.argv("resume", run), step, partial(_delete, run))
            if ended.code <= 0 or "Traceback" in ended.output:
                failures.append(f"step {step}: exit {ended.code}: {ended.output[-200:]}")
            if run.exists():
                failures.append(f"step {step}: it came back with {sorted(run.rglob('*'))[:3]}")
    return Outcome("run folder deleted under training", n, tuple(failures))


def _delete(run: Path) -> None:
    shutil.rmtree(run, ignore_errors=True)


def two_runs_on_one_cache(n: int, seed: int) -> Outcome:
    """Two programs that fill one cache at the same time give the labels of one alone."""

    failures: list[str] = []
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(n):
            place = Path(scratch) / str(number)
            make_scene(place, n=20 + seed % 5)
            names = [place / name for name in ("one", "two")]
            both = [
                subprocess.Popen(label_command(place, out), stderr=subprocess.PIPE) for out in names
            ]
            codes = [each.wait(300) for each in both]
            if codes != [0, 0]:
                failures.append(f"exit codes {codes}")
                continue
            shutil.rmtree(place / "cache")
            subprocess.run(label_command(place, place / "alone"), check=True)
            tables = [
                surelabel.open_run(place / name).annotations for name in ("one", "two", "alone")
            ]
            if not (tables[0].equals(tables[2]) and tables[1].equals(tables[2])):
                failures.append("the labels differ")
    return Outcome("two runs on one cache at once", n, tuple(failures))


def review_beside_resume(seconds: float, seed: int) -> Outcome:
    """People answer on the page while another program resumes the run again and again."""

    failures: list[str] = []
    given: dict[str, str] = {}
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as scratch:
        run = finished_run(Path(scratch), n=400, accept="q1")
        with serving(run) as server:
            ids = server.get("/api/queue")["ids"]
            end, rounds = time.monotonic() + seconds, 2
            training: subprocess.Popen[bytes] | None = None
            n_trainings = 0
            for item_id in ids:
                if time.monotonic() > end:
                    break
                if training is None or training.poll() is not None:
                    if training is not None and training.returncode != 0:
                        failures.append(f"resume ended with {training.returncode}")
                    rounds += 1
                    n_trainings += 1
                    training = subprocess.Popen(
                        command("resume", run, "--max-rounds", rounds, "--quiet")
                    )
                label = rng.choice(CLASSES)
                status, body = server.answer(item_id, label)
                if status != 200 or "answer" not in body["results"][0]:
                    failures.append(f"{item_id}: {status} {body}")
                else:
                    given[item_id] = label
                time.sleep(0.05)
            if training is not None:
                training.wait(300)
        standing = RunFolder.open(run).answers.standing()
        lost = [i for i, label in given.items() if standing[i].label != label]
        failures += [f"{i}: lost" for i in lost]
        table = surelabel.open_run(run).annotations.set_index("id")["label"]
        failures += [f"{i}: not in the result" for i, label in given.items() if table[i] != label]
    figures = f"{n_trainings} trainings beside it"
    return Outcome("review beside a running resume", len(given), tuple(failures), figures)
