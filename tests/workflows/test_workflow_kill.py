"""Real processes, killed with SIGKILL while they read, train, score and write."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from workflow_data import photos_and_labels, tiny

import surelabel
from surelabel.dataset.items import item_id
from surelabel.errors import RunLockedError
from surelabel.runs.folder import RunFolder

HERE = Path(__file__).parent
MOST_STEPS = 5
"""Reports that a worker may get through before it is killed; a round makes eleven."""


def start(script: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "error", str(HERE / script), *map(str, arguments)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def worker(place: Path, out: Path, n_rounds: int = 2) -> subprocess.Popen[str]:
    return start("workflow_worker.py", place, out, n_rounds)


def let_go(process: subprocess.Popen[str], steps: int | None = None) -> int:
    """Let the worker go on over so many reports, or to its end; returns how many there were."""
    assert process.stdin is not None
    assert process.stdout is not None
    done = 0
    while done != steps and process.stdout.readline():
        process.stdin.write("\n")
        process.stdin.flush()
        done += 1
    return done


def end(process: subprocess.Popen[str]) -> str:
    """Kill the process; returns what it still had to say."""
    process.kill()
    rest, _ = process.communicate()
    return rest


def kill_until_done(place: Path, out: Path, *, seed: int, n_kills: int, n_rounds: int) -> list[int]:
    """Kill the worker again and again, then let it end; returns the finished rounds at each."""
    rng, seen = random.Random(seed), []
    for _ in range(n_kills):
        process = worker(place, out, n_rounds)
        let_go(process, rng.randint(1, MOST_STEPS))
        time.sleep(rng.uniform(0, 0.15))
        assert process.poll() is None, "the worker was killed at work"
        end(process)
        assert process.returncode == -9
        seen.append(len(list(out.glob("rounds/0??"))))
    process = worker(place, out, n_rounds)
    let_go(process)
    process.communicate()
    assert process.returncode == 0
    return seen


def expected(place: Path, n_rounds: int) -> surelabel.Run:
    config = tiny(place / "cache-of-its-own", max_rounds=n_rounds, consistency=1.0)
    return surelabel.label(place / "photos", place / "labels.csv", place / "whole", config=config)


def check_same(one: surelabel.Run, other: surelabel.Run) -> None:
    assert_frame_equal(one.annotations, other.annotations)
    first, second = (pd.read_parquet(run.path / "annotations.parquet") for run in (one, other))
    assert_frame_equal(first, second)
    for a, b in zip(one.rounds, other.rounds, strict=True):
        assert (a.inputs, a.threshold, a.n_changed) == (b.inputs, b.threshold, b.n_changed)
    for a_round, b_round in zip(
        one.folder.finished_rounds(), other.folder.finished_rounds(), strict=True
    ):
        for a_file, b_file in zip(a_round.weights(), b_round.weights(), strict=True):
            assert a_file.read_bytes() == b_file.read_bytes()


def check_nothing_left_over(out: Path) -> None:
    names = [p.name for p in out.rglob("*")] + [p.name for p in out.parent.iterdir()]
    assert not [n for n in names if n.endswith((".partial", ".tmp")) or n == "checkpoints"]


def test_a_killed_run_ends_with_the_same_labels_and_no_answer_is_lost(tmp_path: Path) -> None:
    photos_and_labels(tmp_path)
    out = tmp_path / "run"
    ids = [item_id(f"down-{n:02d}.png") for n in range(5, 20)]
    writer = start("workflow_writer.py", out / "answers.sqlite", "unsure", *ids)
    try:
        seen = kill_until_done(tmp_path, out, seed=5, n_kills=4, n_rounds=2)
    finally:
        printed = [line.split()[:2] for line in end(writer).splitlines()]
    run = surelabel.open_run(out)
    check_same(run, expected(tmp_path, 2))
    assert seen[-1] < 2, "there was work left after every kill"
    assert len(printed) >= 5
    kept = {(str(a.seq), a.item_id) for i in ids for a in run.folder.answers.history(i)}
    assert {(seq, item) for seq, item in printed} <= kept
    check_nothing_left_over(out)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_many_kills_change_no_label(tmp_path: Path, seed: int) -> None:
    photos_and_labels(tmp_path)
    out = tmp_path / "run"
    kill_until_done(tmp_path, out, seed=seed, n_kills=12, n_rounds=6)
    check_same(surelabel.open_run(out), expected(tmp_path, 6))
    check_nothing_left_over(out)


@pytest.mark.slow
def test_labels_that_people_give_between_kills_are_all_in_the_result(tmp_path: Path) -> None:
    photos_and_labels(tmp_path)
    out, rng = tmp_path / "run", random.Random(11)
    names = [f"down-{n:02d}.png" for n in range(5, 20)]
    ids = [item_id(name) for name in names]
    writer = start("workflow_writer.py", out / "answers.sqlite", "label", *ids)
    try:
        for steps in (8, *(rng.randint(1, MOST_STEPS) for _ in range(3))):
            process = worker(tmp_path, out)
            let_go(process, steps)
            end(process)
    finally:
        printed = [line.split() for line in end(writer).splitlines()]
    run = surelabel.resume(out)
    assert len(printed) >= 5
    table = run.annotations.set_index("id")
    standing = RunFolder.open(out).answers.standing()
    for item in {item for _, item, _ in printed}:
        assert table.loc[item, "source"] == "reviewed"
        assert table.loc[item, "label"] == standing[item].label
    assert run.rounds[-1].answers_upto >= int(printed[-1][0])
    given = table[table["source"] == "given"]
    assert (given["label"] == given["path"].str.split("-").str[0]).all()


def test_two_processes_cannot_train_one_run_but_anybody_may_look_and_answer(
    tmp_path: Path,
) -> None:
    photos_and_labels(tmp_path)
    out = tmp_path / "run"
    process = worker(tmp_path, out)
    try:
        assert process.stdout is not None
        assert process.stdin is not None
        while process.stdout.readline() == "reading\n":
            process.stdin.write("\n")
            process.stdin.flush()
        with pytest.raises(RunLockedError, match=f"{process.pid}"):
            surelabel.resume(out)
        run = surelabel.open_run(out)
        with pytest.raises(RunLockedError):
            run.add(labels=tmp_path / "labels.csv")
        run.folder.answers.add(item_id("down-10.png"), "label", "down")
        table = run.annotations.set_index("path")
        assert table.loc["down-10.png", "source"] == "reviewed"
        assert not run.summary.is_finished
    finally:
        end(process)
    with run.folder.lock():
        holder = (out / "lock.pid").read_text().strip()
        assert holder == str(os.getpid()), "the dead hold no lock"
