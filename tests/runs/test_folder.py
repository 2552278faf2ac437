from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.dataset.items import Skipped
from surelabel.errors import RunDamagedError, RunError, RunLockedError
from surelabel.runs.folder import RunFolder, add_skipped, read_skipped

CREATE_FOREVER = """
import shutil, sys
from pathlib import Path
from surelabel.config.settings import Config
from surelabel.dataset.catalog import Catalog
from surelabel.runs.folder import RunFolder
catalog = Catalog.from_parquet(Path(sys.argv[1]))
print("ready", flush=True)
for n in range(10**6):
    RunFolder.create(Path(sys.argv[2], f"run{n}"), config=Config(), catalog=catalog, about={})
"""

ROUNDS_FOREVER = """
import sys
from surelabel.runs.folder import RunFolder
run = RunFolder.open(sys.argv[1])
print("ready", flush=True)
with run.lock():
    for n in range(10**6):
        last = run.last_round()
        partial = run.begin_round(last.number + 1 if last else 1)
        for name in range(5):
            partial.write_json(f"{name}.json", [partial.number] * 1000)
        run.commit_round(partial)
"""


def kill_after(program: str, *arguments: object, seconds: float) -> None:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)


def finish(run: RunFolder, number: int) -> None:
    partial = run.begin_round(number)
    partial.write_json("metrics.json", {"round": number})
    run.commit_round(partial)


def test_a_new_run_has_all_its_files(make_run: Callable[..., RunFolder], catalog: Catalog) -> None:
    run = make_run(seed=3, torch="2.0", threads=2, source={"images": "photos/"})
    assert sorted(path.name for path in run.path.iterdir()) == [
        "answers.sqlite",
        "catalog.parquet",
        "config.toml",
        "digests.json",
        "lock",
        "rounds",
        "run.json",
        "skipped.csv",
    ]
    again = RunFolder.open(str(run.path))
    assert again.config == Config()
    assert again.catalog.digest == catalog.digest
    assert again.about == run.about
    assert again.about["source"] == {"images": "photos/"}
    assert again.about["format"] == 2
    assert again.about["created"].endswith("+00:00")
    assert read_skipped(again.skipped_path) == [("broken.png", "the file is empty")]
    assert again.answers.last_seq() == 0
    assert again.last_round() is None
    assert [path.name for path in run.path.parent.iterdir()] == ["run"]


def test_a_run_is_never_made_over_another_thing(
    make_run: Callable[..., RunFolder], tmp_path: Path
) -> None:
    make_run()
    with pytest.raises(RunError, match=f"surelabel resume {tmp_path / 'run'}"):
        make_run()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "photo.jpg").touch()
    with pytest.raises(RunError, match=r"full .* give another --out"):
        make_run("full")
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"file .* give another --out"):
        make_run("file")
    with pytest.raises(RunError, match="file/run"):
        make_run("file/run")
    (tmp_path / "empty").mkdir()
    make_run("empty")


def test_whether_a_place_is_free_can_be_asked_first(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    RunFolder.check_free(tmp_path / "free")
    with pytest.raises(RunError, match="surelabel resume"):
        RunFolder.check_free(run.path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(RunError, match="--out"):
        RunFolder.check_free(".")


def test_a_killed_create_leaves_a_whole_run_or_none(tmp_path: Path, catalog: Catalog) -> None:
    catalog.to_parquet(tmp_path / "catalog.parquet")
    for number, seconds in enumerate((0.02, 0.1, 0.25)):
        out = tmp_path / str(number)
        out.mkdir()
        kill_after(CREATE_FOREVER, tmp_path / "catalog.parquet", out, seconds=seconds)
        for path in out.glob("run*"):
            assert len(RunFolder.open(path).catalog) == 3
            assert RunFolder.open(path).answers.last_seq() == 0


def test_what_is_not_a_run_is_refused(run: RunFolder, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="nothing"):
        RunFolder.open(tmp_path / "nothing")
    with pytest.raises(RunError, match=r"run\.json"):
        RunFolder.open(tmp_path)
    (run.path / "answers.sqlite").unlink()
    with pytest.raises(RunDamagedError, match=r"answers\.sqlite"):
        RunFolder.open(run.path)


def test_a_folder_of_an_earlier_development_version_is_refused(run: RunFolder) -> None:
    (run.path / "run.json").write_text(json.dumps({"format": 1, "surelabel": "0.1.0"}))
    with pytest.raises(RunError, match=r"format 1.*[Ee]xport its human labels.*label again"):
        RunFolder.open(run.path)


def test_a_newer_format_is_refused(run: RunFolder) -> None:
    (run.path / "run.json").write_text(json.dumps({"format": 9, "surelabel": "8.0"}))
    with pytest.raises(RunError, match=r"surelabel 8\.0 .*9.*install a newer surelabel"):
        RunFolder.open(run.path)
    for text in ("{}", "[]", "{"):
        (run.path / "run.json").write_text(text)
        with pytest.raises(RunDamagedError, match=r"run\.json"):
            RunFolder.open(run.path)


def test_only_one_process_trains(run: RunFolder) -> None:
    with run.lock():
        with pytest.raises(RunLockedError, match=str(os.getpid())), RunFolder.open(run.path).lock():
            pass
        run.answers.add("id-a", "none")


def test_the_lock_removes_what_a_killed_trainer_left(run: RunFolder) -> None:
    leftover = run.path / ".annotations.parquet.0123456789abcdef.tmp"
    leftover.touch()
    with run.lock():
        assert not leftover.exists()


def test_rounds_come_in_order(run: RunFolder) -> None:
    finish(run, 1)
    finish(run, 2)
    last = run.last_round()
    assert last is not None
    assert (last.number, last.metrics) == (2, {"round": 2})
    assert [done.number for done in run.finished_rounds()] == [1, 2]
    last.verify()
    for number in (1, 2, 4):
        with pytest.raises(RunError, match=f"round {number} .* round 2"):
            run.begin_round(number)


def test_a_missing_round_is_noticed(run: RunFolder) -> None:
    for number in (1, 2, 3):
        finish(run, number)
    (run.path / "rounds" / "002").rename(run.path / "elsewhere")
    with pytest.raises(RunDamagedError, match="round 2"):
        run.finished_rounds()


def test_an_unfinished_round_is_reopened_and_does_not_count(run: RunFolder) -> None:
    finish(run, 1)
    run.begin_round(2).write_json("metrics.json", {})
    assert [done.number for done in run.finished_rounds()] == [1]
    assert run.begin_round(2).has("metrics.json")


def test_unfinished_rounds_of_other_numbers_are_removed(run: RunFolder) -> None:
    run.begin_round(1).write_json("metrics.json", {})
    stale = run.path / "rounds" / "007.partial"
    stale.mkdir()
    assert run.begin_round(1).has("metrics.json")
    assert not stale.exists()


def test_checkpoints_end_with_the_round(run: RunFolder) -> None:
    partial = run.begin_round(1)
    (partial.checkpoints / "step.bin").write_bytes(b"x")
    done = run.commit_round(partial)
    assert [path.name for path in done.path.iterdir()] == ["digests.json"]
    (done.path / "checkpoints").mkdir()
    run.begin_round(2)
    assert not (done.path / "checkpoints").exists()


def test_what_a_killed_trainer_left_half_written_is_removed(run: RunFolder) -> None:
    partial = run.begin_round(1)
    for folder in (partial.path, partial.checkpoints):
        (folder / ".step.bin.0123456789abcdef.tmp").touch()
    again = run.begin_round(1)
    assert [path.name for path in again.path.rglob("*")] == ["checkpoints"]


def test_a_round_is_finished_once(run: RunFolder) -> None:
    partial = run.begin_round(1)
    run.commit_round(partial)
    with pytest.raises(RunError, match="round 1"):
        run.commit_round(partial)


def test_killed_between_rounds_every_finished_round_is_whole(run: RunFolder) -> None:
    seconds = 0.05
    while run.last_round() is None or seconds < 0.4:
        kill_after(ROUNDS_FOREVER, run.path, seconds=seconds)
        for done in RunFolder.open(run.path).finished_rounds():
            done.verify()
            assert len(done.digests()) == 5
            assert done.read_json("4.json") == [done.number] * 1000
        assert seconds < 60, "no round was ever finished"
        seconds *= 2


def test_the_catalog_can_be_replaced(run: RunFolder, catalog: Catalog) -> None:
    labels, skipped = np.array([0, 1, -1]), (Skipped("new.png", "it is truncated"),)
    labeled = dataclasses.replace(catalog, labels=labels, skipped=skipped)
    run.replace_catalog(labeled)
    assert run.catalog is labeled
    again = RunFolder.open(run.path)
    assert again.catalog.labels.tolist() == [0, 1, -1]
    assert [path for path, _ in read_skipped(again.skipped_path)] == ["broken.png", "new.png"]


def test_the_config_can_be_replaced(run: RunFolder) -> None:
    run.replace_config(Config(max_rounds=7))
    assert run.config.max_rounds == 7
    assert RunFolder.open(run.path).config.max_rounds == 7


def test_a_stored_result_counts_while_its_inputs_are_the_same(run: RunFolder) -> None:
    inputs = run.result_inputs()
    assert run.read_annotations(inputs) is None
    table = pd.DataFrame({"id": ["a", "b"], "label": ["cat", ""]})
    run.write_annotations(table, inputs)
    stored = RunFolder.open(run.path).read_annotations(run.result_inputs())
    assert stored is not None
    pd.testing.assert_frame_equal(stored, table)
    assert stored.attrs == table.attrs == {}


def test_whatever_the_result_is_made_from_makes_it_outdated(
    run: RunFolder, catalog: Catalog
) -> None:
    seen = [run.result_inputs()]
    run.answers.add("id-b", "label", "cat")
    seen.append(run.result_inputs())
    run.answers.add("id-b", "undo")
    seen.append(run.result_inputs())
    run.replace_catalog(dataclasses.replace(catalog, labels=np.array([1, -1, -1])))
    seen.append(run.result_inputs())
    finish(run, 1)
    seen.append(run.result_inputs())
    run.write_certifications([{"round": 1, "at": "2026-01-01"}])
    seen.append(run.result_inputs())
    run.replace_config(run.config.replace(max_error="0.05"))
    seen.append(run.result_inputs())
    assert len(set(seen)) == len(seen)
    assert RunFolder.open(run.path).result_inputs() == seen[-1]


def test_skipped_images_are_listed_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "skipped.csv"
    assert read_skipped(path) == []
    add_skipped(path, [("b.png", "it is empty"), ("a, b.png", 'it says "no"\nand stops')])
    add_skipped(path, [("b.png", "it is empty"), ("c.png", "it is truncated")])
    assert read_skipped(path) == [
        ("b.png", "it is empty"),
        ("a, b.png", 'it says "no"\nand stops'),
        ("c.png", "it is truncated"),
    ]
    assert path.read_bytes().startswith(b"path,reason\nb.png,it is empty\n")


def test_a_run_knows_its_own_files(run: RunFolder) -> None:
    for name in (".", "run.json", "rounds/001/x", "annotations.parquet"):
        assert run.owns(run.path / name)
    for path in (run.path / "export.csv", run.path.parent, run.path.parent / "run.json"):
        assert not run.owns(path)


def test_a_folder_deleted_under_a_run_is_not_made_again(run: RunFolder) -> None:
    def delete_and_go_on() -> None:
        with run.lock():
            partial = run.begin_round(1)
            shutil.rmtree(run.path)
            partial.write_json("metrics.json", {})

    with pytest.raises(RunError, match=r"deleted or moved"):
        delete_and_go_on()
    assert not run.path.exists()
    with pytest.raises(FileNotFoundError):
        run.note({"x": 1})
    with pytest.raises(FileNotFoundError):
        run.write_certifications([])
    with pytest.raises(FileNotFoundError):
        add_skipped(run.skipped_path, [("a", "b")])
    assert not run.path.exists()


def test_a_full_disk_while_a_run_is_made_is_a_sentence(
    make_run: Callable[..., RunFolder], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object, **__: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.raises(RunError, match=r"disk is full.*--out"):
        make_run()
    assert list(tmp_path.iterdir()) == []
