"""``surelabel doctor`` and ``surelabel backup`` on real run folders."""

from __future__ import annotations

import json
import shutil
import threading
from pathlib import Path

import pandas as pd
import pytest
from certify_data import finish_round, label_rows, make_run
from typer.testing import CliRunner
from workflow_data import photos_and_labels, tiny

import surelabel
from surelabel.cli.main import build_app
from surelabel.runs.backup import back_up
from surelabel.runs.folder import RunFolder
from surelabel.runs.lock import run_lock
from surelabel.workflows.label import write_result


def surelabel_says(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(build_app(), [str(word) for word in words])
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.exit_code, result.output


@pytest.fixture(name="run")
def fixture_run(tmp_path: Path) -> Path:
    folder = make_run(tmp_path, label_rows(range(8, 28)))
    finish_round(folder, held=30)
    finish_round(folder, held=30, number=2)
    with folder.lock():
        write_result(folder)
    folder.answers.add(str(folder.catalog.ids[30]), "label", "bee", reviewer="ann")
    folder.answers.close()
    return folder.path


def flip_last_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-9] ^= 4
    path.write_bytes(content)


def test_a_sound_run_is_called_sound(run: Path) -> None:
    code, text = surelabel_says("doctor", run)
    assert code == 0
    assert "BAD" not in text
    code, text = surelabel_says("doctor", run, "--json")
    assert code == 0
    values = json.loads(text)
    assert values["sound"]
    assert {"people's answers", "config.toml", "round 2"} <= {f["what"] for f in values["findings"]}


@pytest.mark.parametrize(
    "name",
    ["run.json", "config.toml", "catalog.parquet", "answers.sqlite", "rounds/001/tune.parquet"],
)
def test_damage_is_named_and_a_lost_document_is_not_invented(run: Path, name: str) -> None:
    (run / name).write_bytes(b"\x00" * 10)
    code, text = surelabel_says("doctor", run, "--repair")
    if name.startswith("rounds"):
        assert code == 0
        return
    assert code == 3
    assert name in text


def test_a_damaged_plan_is_named(run: Path) -> None:
    RunFolder.open(run).write_plan({"classes": ["bee", "wasp"]})
    path = run / "plan.json"
    path.write_bytes(path.read_bytes().replace(b"wasp", b"gasp"))
    code, text = surelabel_says("doctor", run)
    assert code == 3
    assert "plan.json was changed" in " ".join(text.split())


def test_what_can_be_made_again_is_repaired(run: Path) -> None:
    labels = surelabel.open_run(run).annotations
    flip_last_byte(run / "annotations.parquet")
    (run / ".config.toml.0123456789abcdef.tmp").touch()
    (run / "digests.json").unlink()
    assert surelabel_says("doctor", run)[0] == 3
    code, text = surelabel_says("doctor", run, "--repair")
    assert code == 0, text
    assert not list(run.glob(".*tmp"))
    pd.testing.assert_frame_equal(surelabel.open_run(run).annotations, labels)


def test_a_damaged_round_and_those_after_it_are_set_aside(run: Path) -> None:
    flip_last_byte(run / "rounds" / "001" / "scores.parquet")
    code, text = surelabel_says("doctor", run)
    assert code == 3
    assert "scores.parquet" in text
    assert "--repair" in text
    assert surelabel_says("doctor", run, "--repair")[0] == 0
    assert sorted(p.name for p in (run / "rounds").iterdir()) == ["001.damaged", "002.damaged"]
    assert RunFolder.open(run).last_round() is None


def test_a_run_in_training_is_not_repaired(run: Path) -> None:
    (run / "digests.json").unlink()
    with run_lock(run / "lock"):
        code, text = surelabel_says("doctor", run, "--repair")
    assert code == 3
    assert "training" in text


def test_images_that_moved_are_reported(tmp_path: Path) -> None:
    photos, table = photos_and_labels(tmp_path)
    config = tiny(tmp_path / "cache", max_rounds=1)
    run = surelabel.label(photos, table, tmp_path / "run", config=config).path
    photos.rename(tmp_path / "elsewhere")
    code, text = surelabel_says("doctor", run)
    assert code == 3
    assert "40 of 40" in text
    assert "--images" in text


def test_a_backup_is_a_run_that_trains_again(tmp_path: Path) -> None:
    photos, table = photos_and_labels(tmp_path)
    config = tiny(tmp_path / "cache", max_rounds=1)
    run = surelabel.label(photos, table, tmp_path / "run", config=config)
    answered = str(run.folder.catalog.ids[-1])
    run.folder.answers.add(answered, "label", "down", reviewer="ann")
    run.folder.write_plan({"classes": ["across", "down", "knot"]})
    expected = run.resume().annotations.set_index("id")
    assert back_up(run.path, tmp_path / "copy") == 1
    assert RunFolder.open(tmp_path / "copy").read_plan() == run.folder.read_plan()
    shutil.rmtree(run.path)
    again = surelabel.resume(tmp_path / "copy").annotations.set_index("id")
    assert again.loc[answered, "label"] == "down"
    people = expected["source"].isin(["given", "reviewed"])
    pd.testing.assert_series_equal(again["label"][people], expected["label"][people])


def test_a_backup_beside_a_writer_has_every_answer_that_was_there(
    run: Path, tmp_path: Path
) -> None:
    folder = RunFolder.open(run)
    ids = [str(i) for i in folder.catalog.ids]
    stop = threading.Event()
    given: list[int] = []

    def write() -> None:
        while not stop.is_set():
            given.append(folder.answers.add(ids[len(given) % 100], "label", "bee"))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for n in range(5):
            before = given[-1] if given else 0
            copied = back_up(run, tmp_path / f"copy{n}")
            assert copied >= before
            assert surelabel_says("doctor", tmp_path / f"copy{n}")[0] == 0
    finally:
        stop.set()
        writer.join()
    code, text = surelabel_says("backup", run, "--out", tmp_path / "copy0")
    assert code == 2
    assert "--out" in text


def test_the_machine_is_described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SURELABEL_CACHE", str(tmp_path / "cache"))
    code, text = surelabel_says("doctor", "--json")
    values = json.loads(text)
    assert code == 0
    assert values["versions"]["surelabel"]
    assert values["device"].startswith(("cpu", "cuda", "mps"))
    assert str(tmp_path / "cache") in {place["path"] for place in values["places"]}
    assert {"photos", "review", "report"} <= {extra["name"] for extra in values["extras"]}
    assert [extra["name"] for extra in values["extras"] if not extra["gives"]] == []


def test_each_extra_has_its_row_and_the_last_line_says_how_to_add_one() -> None:
    text = surelabel_says("doctor")[1]
    values = json.loads(surelabel_says("doctor", "--json")[1])
    for extra in values["extras"]:
        (row,) = [line for line in text.splitlines() if line.startswith(f"{extra['name']} ")]
        assert row.split()[1] == ("no" if extra["missing"] else "yes")
    missing = [extra["name"] for extra in values["extras"] if extra["missing"]]
    assert not missing or f"surelabel[{missing[-1]}]" in text
