from __future__ import annotations

import dataclasses
import json
import os
import random
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
from surelabel.errors import OptionError, RunDamagedError, RunError, RunLockedError
from surelabel.runs.embedding import Embedding, read_embedding
from surelabel.runs.folder import RunFolder, add_skipped, read_skipped, refuse_run_file
from surelabel.workflows.doctor import examine

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
        with pytest.raises(OptionError, match="run"):
            refuse_run_file(run.path / name)
    for path in (run.path / "export.csv", run.path.parent, run.path.parent / "run.json"):
        refuse_run_file(path)
    link = run.path.parent / "link"
    link.symlink_to(run.path, target_is_directory=True)
    with pytest.raises(OptionError):
        refuse_run_file(link / "catalog.parquet")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no named pipes in folders")
@pytest.mark.parametrize("name", ["config.toml", "answers.sqlite", "digests.json", "plan.json"])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(run: RunFolder, name: str) -> None:
    (run.path / name).unlink(missing_ok=True)
    os.mkfifo(run.path / name)
    with pytest.raises(RunDamagedError, match=f"{name} is not a file"):
        RunFolder.open(run.path)


@pytest.mark.parametrize(
    "name",
    [
        "rounds",
        "report",
        "answers.sqlite",
        "answers.sqlite-wal",
        "rounds/002",
        "rounds/003.partial",
    ],
)
def test_a_link_in_a_run_does_not_lead_its_writers_elsewhere(
    run: RunFolder, tmp_path: Path, name: str
) -> None:
    run.commit_round(run.begin_round(1))
    (run.path / "report").mkdir()
    elsewhere = tmp_path / "elsewhere"
    if (run.path / name).exists():
        (run.path / name).rename(elsewhere)
    else:
        elsewhere.mkdir()
    (run.path / name).symlink_to(elsewhere, target_is_directory=elsewhere.is_dir())
    with pytest.raises(RunDamagedError, match=f"{name} is a link"):
        RunFolder.open(run.path)
    with pytest.raises(RunDamagedError, match=f"{name} is a link"):
        examine(run.path)


def test_a_run_may_itself_be_a_link(run: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(run.path, target_is_directory=True)
    assert len(RunFolder.open(tmp_path / "link").catalog) == 3


def test_only_names_that_rounds_are_given_count_as_rounds(run: RunFolder) -> None:
    run.commit_round(run.begin_round(1))
    for name in ("²", "\u0661\u0661\u0661", "1", "0002", "002.damaged"):
        (run.path / "rounds" / name).mkdir()
    assert [each.number for each in run.finished_rounds()] == [1]


def test_a_damaged_plan_is_named_and_one_without_checksum_is_read(run: RunFolder) -> None:
    plan = {"classes": ["cat", "döner"], "wish": {"max_error": 0.02, "n": 30}}
    run.write_plan(plan)
    assert run.read_plan() == plan
    path = run.path / "plan.json"
    whole = path.read_bytes()
    for changed in (whole.replace(b"0.02", b"0.12"), whole.replace(b"cat", b"bat"), b"[]", b"{"):
        path.write_bytes(changed)
        with pytest.raises(RunDamagedError, match=r"plan\.json"):
            run.read_plan()
    path.write_text(json.dumps(plan))
    assert run.read_plan() == plan
    for malformed in ({"classes": "cat"}, {"classes": [1]}, {"wish": 1}, {"wish": {"n": "x"}}):
        path.write_text(json.dumps(malformed))
        with pytest.raises(RunDamagedError, match=r"plan\.json"):
            run.read_plan()


def test_damage_to_the_embedding_is_noticed_and_it_is_made_again(run: RunFolder) -> None:
    rng = np.random.default_rng(0)
    made = Embedding(
        ids=np.array([f"{i:016x}" for i in range(40)]),
        vectors=rng.normal(size=(40, 8)).astype(np.float16),
        xy=rng.normal(size=(40, 2)).astype(np.float32),
        n_landmarks=10,
        key="k" * 64,
    )
    made.save(run)
    path = run.path / "embedding.npz"
    whole = path.read_bytes()
    n_noticed = 0
    for number in range(400):
        chance = random.Random(number)
        changed = bytearray(whole)
        # Half of them in the names and flags of the archive, which no checksum covers.
        part = range(len(whole) - 600, len(whole)) if number % 2 else range(len(whole))
        changed[chance.choice(part)] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
        found = read_embedding(run)
        n_noticed += found is None
        if found is not None:
            np.testing.assert_array_equal(found.ids, made.ids)
            np.testing.assert_array_equal(found.vectors, made.vectors)
            np.testing.assert_array_equal(found.xy, made.xy)
            assert (found.n_landmarks, found.key) == (made.n_landmarks, made.key)
    assert n_noticed > 200


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
