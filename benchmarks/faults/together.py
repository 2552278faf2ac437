"""Several programs and people at once, a program that sleeps, a clock that jumps."""

from __future__ import annotations

import asyncio
import datetime as clocks
import json
import os
import random
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import surelabel
import surelabel.runs.answers
from faults.crashes import Trials
from faults.inject import Child, Ended, FaultPlan, run_child
from faults.reviewers import Connection
from faults.scene import (
    CLASSES,
    Outcome,
    command,
    finished_run,
    label_command,
    make_scene,
    scratch,
    serving,
    wait_for,
)
from surelabel.runs.folder import LOCK, RunFolder
from surelabel.runs.lock import is_locked

_LOCKED = 3
"""Exit code of a program that is refused because another one is at work."""


def two_programs(n: int, seed: int) -> Outcome:
    """A second program on a run that is being trained: refused, or it waits its turn."""
    rng, failures, refused = random.Random(seed), [], 0
    with scratch() as place:
        trials = Trials(place, ("resume",))
        others = ("resume", "add", "audit", "export")
        for number in range(n):
            run, other = trials.prepare("resume"), others[number % len(others)]
            first = Child(trials.argv("resume", run))
            wait_for(lambda lock=run / LOCK: is_locked(lock))
            time.sleep(rng.uniform(0, 0.5 * trials.seconds["resume"]))
            ended = run_child(trials.argv(other, run))
            refused += ended.code == _LOCKED
            if ended.code not in (0, _LOCKED) or "Traceback" in ended.output:
                failures.append(f"{other}: exit {ended.code}: {ended.output[-300:]}")
            failures += _ended_well(first.wait(), f"resume beside {other}")
            if other != "add":  # new labels change the result
                failures += trials.judge("resume", run, f"resume beside {other}")
    return Outcome("two programs on one run", n, tuple(failures), f"{refused} refused")


def stopped_and_continued(n: int, seconds: float, seed: int) -> Outcome:
    """SIGSTOP, as when a laptop sleeps: others are refused meanwhile, and it goes on after."""
    rng, failures = random.Random(seed), []
    with scratch() as place:
        trials = Trials(place, ("resume",))
        for number in range(n):
            run = trials.prepare("resume")
            child = Child(trials.argv("resume", run))
            wait_for(lambda lock=run / LOCK: is_locked(lock))
            time.sleep(rng.uniform(0, 0.5 * trials.seconds["resume"]))
            child.send(signal.SIGSTOP)
            second = run_child(trials.argv("resume", run))
            if second.code not in (0, _LOCKED):
                failures.append(f"{number}: the second: {second.code} {second.output[-300:]}")
            time.sleep(seconds)
            child.send(signal.SIGCONT)
            failures += _ended_well(child.wait(), f"{number}: after the pause")
            failures += trials.judge("resume", run, f"{number}: after the pause")
    return Outcome(f"stopped for {seconds:g} s", n, tuple(failures))


def clock_set_back(n: int, seed: int) -> Outcome:
    """A clock that is a day to a year behind: files of the run, cache and photos are newer."""
    rng, failures = random.Random(seed), []
    with scratch() as place:
        trials = Trials(place, ("resume", "add"))
        for number in range(n):
            name = ("resume", "add")[number % 2]
            run = trials.prepare(name)
            ahead = rng.uniform(86_400, 365 * 86_400)
            for path in (
                p for folder in ("photos", "cache", "trial") for p in _files(place / folder)
            ):
                os.utime(path, (time.time() + ahead,) * 2)
            ended = run_child(trials.argv(name, run), FaultPlan(first=partial(_go_back, ahead)))
            failures += _ended_well(ended, f"{name}, {ahead:.0f} s behind")
            failures += trials.judge(name, run, f"{name}, {ahead:.0f} s behind")
    return Outcome("clock set back", n, tuple(failures))


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def _go_back(seconds: float) -> None:
    """Set the clock of this process back, twice as far from the third question on."""
    real, asked = time.time, [0]

    def now() -> float:
        asked[0] += 1
        return real() - seconds * (2 if asked[0] > 2 else 1)

    class Slow(clocks.datetime):
        @classmethod
        def now(cls, tz: clocks.tzinfo | None = None) -> Slow:
            return cls.fromtimestamp(now(), tz)

    replaced: Any = time
    replaced.time = now
    module: Any = surelabel.runs.answers
    module.datetime = Slow


def _ended_well(ended: Ended, what: str) -> list[str]:
    bad = ended.code != 0 or "Traceback" in ended.output
    return [f"{what}: exit {ended.code}: {ended.output[-300:]}"] if bad else []


def two_runs_on_one_cache(n: int, seed: int) -> Outcome:
    """Two programs that fill one cache at the same time give the labels of one alone.

    Every other time it is the cache of features.
    """
    failures: list[str] = []
    features = ["--net", "lite0", "--tail", "linear", "--max-rounds", "1"]
    with scratch() as scene:
        for number in range(n):
            place = scene / str(number)
            make_scene(place, n=10 + (seed + number) % 5)
            more = ["--no-report", *(features if number % 2 else [])]
            names = [place / name for name in ("one", "two", "alone")]
            both = [Child(label_command(place, out)[3:] + more) for out in names[:2]]
            for child in both:
                failures += _ended_well(child.wait(), f"{number}: two at once")
            (place / "cache").rename(place / "both")
            failures += _ended_well(run_child(label_command(place, names[2])[3:] + more), "alone")
            tables = [surelabel.open_run(name).annotations for name in names]
            if not (tables[0].equals(tables[2]) and tables[1].equals(tables[2])):
                failures.append(f"{number}: the labels differ")
    return Outcome("two runs on one cache at once", n, tuple(failures))


def two_reviewers_on_one_image(n: int, seed: int) -> Outcome:
    """Two people answer the same image at the same moment: one answer stands, the other is told."""
    failures: list[str] = []
    with scratch() as place:
        run = finished_run(place, n=max(20, n // 2 + 20), accept="q1", max_rounds=1)
        with serving(run) as server:
            ids = server.get("/api/queue")["ids"][:n]

            async def race() -> None:
                pages = [Connection(server), Connection(server)]
                for page in pages:
                    await page.open()
                for item_id in ids:
                    bodies = [_answer(item_id, person) for person in range(2)]
                    sent = (
                        page.request("POST", "/api/answers", body)
                        for page, body in zip(pages, bodies, strict=True)
                    )
                    results = [
                        json.loads(text)["results"][0] for _, text in await asyncio.gather(*sent)
                    ]
                    stored = [result for result in results if "answer" in result]
                    told = [result for result in results if result.get("conflict")]
                    if len(stored) != 1 or len(told) != 1:
                        failures.append(f"{item_id}: {results}")
                    elif told[0]["conflict"]["seq"] != stored[0]["answer"]["seq"]:
                        failures.append(f"{item_id}: told of another answer: {results}")

            asyncio.run(race())
        if RunFolder.open(run).answers.last_seq() != len(ids):
            failures.append(
                f"{RunFolder.open(run).answers.last_seq()} answers of {len(ids)} stored"
            )
    return Outcome("two reviewers on one image", len(ids), tuple(failures))


def _answer(item_id: str, person: int) -> bytes:
    one = {"id": item_id, "kind": "label", "label": CLASSES[person], "expected_seq": 0}
    who = {"reviewer": f"reviewer {person}", "client": f"c{person}"}
    return json.dumps({**who, "answers": [one]}).encode()


def review_beside_resume(seconds: float, seed: int) -> Outcome:
    """People answer on the page while another program resumes the run again and again."""
    failures: list[str] = []
    given: dict[str, str] = {}
    rng = random.Random(seed)
    with scratch() as place:
        run = finished_run(place, n=400, accept="q1")
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
