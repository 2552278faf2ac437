"""Kills and full disks at chosen and random moments: nothing is lost, labels end the same."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import random
import re
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

import surelabel
from faults.inject import Child, Ended, FaultPlan, disk_full, kill_myself, run_child
from faults.reviewers import Connection
from faults.scene import CLASSES, Outcome, copy_run, label_command, make_scene, scratch
from surelabel.cli.main import run as run_command
from surelabel.runs.folder import RunFolder

COMMANDS = ("label", "resume", "export", "add", "audit")


class Trials:
    """A finished run, and what each command makes of a copy of it when nothing goes wrong."""

    def __init__(self, place: Path, commands: Sequence[str] = COMMANDS) -> None:
        self.place = place
        self.out = make_scene(place)
        self.whole = place / "whole"
        must(run_child(self.argv("label", self.whole)))
        # In this process, so that children find the figures' fonts and modules loaded.
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run_command(["report", str(self.whole)])
        self.expected: dict[str, tuple[pd.DataFrame, int]] = {}
        self.n_steps: dict[str, int] = {}
        self.seconds: dict[str, float] = {}
        for name in commands:
            self._undisturbed(name)

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
        return run_child(argv)

    def result(self, run: Path) -> tuple[pd.DataFrame, int]:
        opened = surelabel.open_run(run)
        return opened.annotations, opened.folder.answers.last_seq()

    def _undisturbed(self, name: str) -> None:
        run, began = self.prepare(name), time.monotonic()
        self.n_steps[name] = must(run_child(self.argv(name, run))).n_steps
        self.seconds[name] = time.monotonic() - began
        self.expected[name] = self.result(run)

    def judge(self, name: str, run: Path, what: str) -> Iterator[str]:
        """What is wrong after a fault and a second, undisturbed try."""
        if name != "label" and RunFolder.open(run).answers.last_seq() < 2:
            yield f"{what}: answers were lost"
        ended = self.end_well(name, run)
        if ended.code != 0:
            yield f"{what}: it does not go on: {ended.output[-300:]}"
            return
        table, n_answers = self.result(run)
        expected, n_expected = self.expected[name]
        if not table.equals(expected) or n_answers != n_expected:
            yield f"{what}: the labels are not those of the undisturbed run"


def must(ended: Ended) -> Ended:
    if ended.code != 0:
        raise RuntimeError(f"without any fault: {ended.code} {ended.output}")
    return ended


def kills_between_steps(n: int, seed: int, commands: Sequence[str] = COMMANDS) -> Outcome:
    """SIGKILL between write, fsync and rename, at steps drawn at random."""
    return _faults("killed between write, fsync and rename", n, seed, commands, kill=True)


def full_disk(n: int, seed: int, commands: Sequence[str] = COMMANDS) -> Outcome:
    """ENOSPC at a step drawn at random and at every later one; then there is room again."""
    return _faults("disk full", n, seed, commands, kill=False)


def _is_told(ended: Ended) -> bool:
    """Whether the reason was told; a run whose report alone is missing has not failed."""
    only_report = ended.code == 0 and "report" in ended.output
    return (ended.code > 0 or only_report) and "space" in ended.output


def _faults(title: str, n: int, seed: int, commands: Sequence[str], *, kill: bool) -> Outcome:
    rng, failures, began = random.Random(seed), [], time.monotonic()
    with scratch() as place:
        trials = Trials(place, commands)
        for number in range(n):
            name = commands[number % len(commands)]
            step = rng.randint(1, trials.n_steps[name])
            run = trials.prepare(name)
            plan = FaultPlan(step, kill_myself if kill else disk_full, lasting=not kill)
            ended = run_child(trials.argv(name, run), plan)
            what = f"{name} at step {step} of {trials.n_steps[name]}"
            if kill and ended.code != -9:
                failures.append(f"{what}: it was not killed ({ended.code})")
            if not kill and not _is_told(ended):
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
    with scratch() as place:
        trials = Trials(place)
        killed = 0
        for number in range(n):
            name = COMMANDS[number % len(COMMANDS)]
            run = trials.prepare(name)
            seconds = rng.uniform(0.02, 0.9 * trials.seconds[name])
            child = Child(trials.argv(name, run))
            time.sleep(seconds)
            child.send(signal.SIGKILL)
            killed += child.wait().code == -9
            failures += trials.judge(name, run, f"{name} after {seconds:.2f} s")
    return Outcome("killed at a random moment", n, tuple(failures), f"{killed} while at work")


class _ForkedServer:
    """The review page of a run in a forked process, and a cookie for it."""

    def __init__(self, run: Path) -> None:
        self.child = Child(["review", str(run), "--no-browser"])
        self.printed = b""
        link = None
        while link is None:
            line = self.child.output.readline()
            self.printed += line
            link = re.search(rb"http://([^/]+)/\?token=(\S+)", line)
            if not line:
                raise RuntimeError(f"the server printed no link: {self.printed!r}")
        self.host, self.token = link[1].decode(), link[2].decode()
        self.origin, self.cookie = f"http://{self.host}", ""


async def _answer_until_killed(
    server: _ForkedServer, ids: Sequence[str], seconds: float, rng: random.Random
) -> dict[int, tuple[str, str]]:
    """Six people answer as fast as they can until the server is killed: what it acknowledged."""
    stored: dict[int, tuple[str, str]] = {}
    door = Connection(server)
    await door.open()
    server.cookie = await door.log_in(server.token)
    door.close()

    async def person(number: int) -> None:
        page = Connection(server)
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await page.open()
            for item_id in ids[number::6]:
                label = rng.choice(CLASSES)
                one = {"id": item_id, "kind": "label", "label": label, "expected_seq": 0}
                body = {"reviewer": f"r{number}", "client": f"c{number}", "answers": [one]}
                status, text = await page.request("POST", "/api/answers", json.dumps(body).encode())
                result = json.loads(text)["results"][0] if status == 200 else {}
                if "answer" in result:
                    stored[result["answer"]["seq"]] = (item_id, label)
        page.close()

    async def kill() -> None:
        await asyncio.sleep(seconds)
        server.child.send(signal.SIGKILL)

    await asyncio.gather(kill(), *(person(number) for number in range(6)))
    return stored


def kills_of_review(n: int, seed: int) -> Outcome:
    """SIGKILL of the review server while people answer: what was acknowledged is on disk."""
    rng, failures, n_answers = random.Random(seed), [], 0
    with scratch() as place:
        make_scene(place, 150, accept="q1", max_rounds=1)
        whole = place / "whole"
        must(run_child(label_command(place, whole)[3:]))
        for number in range(n):
            run = copy_run(whole, place / "trial")
            ids = [str(i) for i in RunFolder.open(run).catalog.ids[10:]]
            server = _ForkedServer(run)
            seconds = rng.uniform(0.05, 0.5)
            stored = asyncio.run(_answer_until_killed(server, ids, seconds, rng))
            ended = server.child.wait(server.printed)
            if ended.code != -9 or "Traceback" in ended.output:
                failures.append(f"{number}: exit {ended.code}: {ended.output[-300:]}")
            n_answers += len(stored)
            standing = RunFolder.open(run).answers.standing()
            on_disk = {answer.seq: (i, answer.label) for i, answer in standing.items()}
            failures += [f"{number}: answer {k} lost" for k in stored if stored[k] != on_disk[k]]
            if list(on_disk) != list(range(1, len(on_disk) + 1)):
                failures.append(f"{number}: numbers of answers are missing or doubled")
            # Each of six people waits for one answer: no more can be stored unacknowledged.
            if len(on_disk) > len(stored) + 6:
                failures.append(f"{number}: {len(on_disk)} stored, {len(stored)} acknowledged")
    return Outcome("review killed while people answer", n, tuple(failures), f"{n_answers} answers")
