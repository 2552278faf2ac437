from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import pytest
from cli_files import CLASSES, FAST, some, surelabel, write_dataset, write_labels

from surelabel.export.columns import COLUMNS


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``photos``, ``labels.csv`` and a finished run ``run``."""
    home = tmp_path_factory.mktemp("cli")
    truth = write_dataset(home / "photos", 40)
    (home / "photos" / "broken.png").write_bytes(b"not an image")
    write_labels(home / "labels.csv", some(truth, 20))
    label = ["label", "photos", "--labels", "labels.csv", "--out", "run", *FAST, "--report"]
    done = surelabel(*label, cwd=home)
    assert done.returncode == 0, done.stderr
    (home / "log").write_text(done.stderr)
    return home


def test_label_prints_what_was_done_and_what_to_do_next(finished: Path) -> None:
    log = (finished / "log").read_text()
    shown = json.loads(surelabel("show", "run", "--json", cwd=finished).stdout)
    assert f"{shown['n_labeled']} of the 60 images" in log
    assert "surelabel export run --out run-labeled.csv" in log
    assert "run/skipped.csv" in log
    assert "run/report.html" in log


def test_the_labels_are_right_and_given_ones_stay(finished: Path) -> None:
    surelabel("export", "run", "--to", "csv", "--out", "all.csv", cwd=finished)
    table = pd.read_csv(finished / "all.csv", keep_default_na=False)
    assert tuple(table.columns) == COLUMNS
    assert len(table) == 120
    truth = table["path"].str[3].astype(int).map(dict(enumerate(CLASSES)))
    given = table["source"] == "given"
    assert given.sum() == 60
    assert (table["label"][given] == truth[given]).all()
    by_run = table["source"] == "pseudo"
    assert by_run.sum() > 5
    assert (table["label"][by_run] == truth[by_run]).mean() > 0.9


def test_show_prints_rounds_and_classes_as_text_and_as_json(finished: Path) -> None:
    text = surelabel("show", "run", cwd=finished).stdout
    for fact in (*CLASSES, "60 of all 120 images", "after 2 rounds", "run/annotations.parquet"):
        assert fact in text
    shown = json.loads(surelabel("show", "run", "--json", cwd=finished).stdout)
    assert shown["n_images"] == 120
    assert shown["n_labeled"] + shown["n_left"] == 60
    assert shown["finished"] is True


def test_resuming_a_finished_run_changes_nothing(finished: Path) -> None:
    before = pd.read_parquet(finished / "run" / "annotations.parquet")
    done = surelabel("resume", "run", cwd=finished)
    assert done.returncode == 0, done.stderr
    pd.testing.assert_frame_equal(before, pd.read_parquet(finished / "run" / "annotations.parquet"))


def test_predict_writes_a_row_for_each_new_image(finished: Path) -> None:
    write_dataset(finished / "more", 5, seed=1)
    done = surelabel("predict", "run", "more", "--out", "new.csv", cwd=finished)
    assert done.returncode == 0, done.stderr
    table = pd.read_csv(finished / "new.csv", keep_default_na=False)
    assert len(table) == 15
    assert set(table["guess"]) <= set(CLASSES)
    whole = ["predict", "run", "more", "--out", "all.parquet", "--probabilities", "-q"]
    assert surelabel(*whole, cwd=finished).returncode == 0
    shares = pd.read_parquet(finished / "all.parquet")
    columns = [f"p_{name}" for name in sorted(CLASSES)]
    assert list(shares.columns) == [*COLUMNS, *columns]
    assert shares[columns].sum(axis=1).to_numpy() == pytest.approx(1)
    assert shares[columns].max(axis=1).to_numpy() == pytest.approx(shares["probability"])
    again = surelabel("predict", "run", "more", "--out", "new.csv", cwd=finished)
    assert again.returncode == 2
    assert "new.csv" in again.stderr
    assert "--overwrite" in again.stderr


def test_predict_notices_a_round_that_was_copied_without_a_file(
    finished: Path, tmp_path: Path
) -> None:
    shutil.copytree(finished / "run", tmp_path / "run")
    last = max((tmp_path / "run" / "rounds").iterdir())
    lost = min(p for p in last.glob("*.safetensors") if not p.name.startswith("weights"))
    lost.unlink()
    done = surelabel("predict", str(tmp_path / "run"), "photos", "--out", "lost.csv", cwd=finished)
    assert done.returncode == 3
    assert lost.name in done.stderr


def test_export_makes_a_folder_for_each_class(finished: Path) -> None:
    done = surelabel("export", "run", "--to", "folder", "--out", "sorted", cwd=finished)
    assert done.returncode == 0, done.stderr
    folders = {path.name for path in (finished / "sorted").iterdir() if path.is_dir()}
    assert set(CLASSES) <= folders
    assert sum(1 for _ in (finished / "sorted").rglob("*.png")) == 120
    again = ["export", "run", "--to", "folder", "--out", "sorted", "--overwrite"]
    assert surelabel(*again, cwd=finished).returncode == 0
    moved = finished / "photos-elsewhere"
    (finished / "photos").rename(moved)
    try:
        lost = surelabel("export", "run", "--to", "folder", "--out", "lost", cwd=finished)
    finally:
        moved.rename(finished / "photos")
    assert lost.returncode == 1
    assert "120 could not" in lost.stderr
    assert "lost/missing.csv" in lost.stderr
    (finished / "sorted" / "mine.txt").touch()
    refused = surelabel(*again, cwd=finished)
    assert refused.returncode == 2
    assert "mine.txt" in refused.stderr
    assert (finished / "sorted" / "mine.txt").exists()


def test_the_ending_of_the_file_decides_the_format(finished: Path) -> None:
    assert surelabel("export", "run", "--out", "x.parquet", cwd=finished).returncode == 0
    assert len(pd.read_parquet(finished / "x.parquet")) == 120
    both = surelabel("export", "run", "--to", "csv", "--out", "y.parquet", cwd=finished)
    assert both.returncode == 2
    assert "y.parquet" in both.stderr
    for name in ("z.json", "folder"):
        unclear = surelabel("export", "run", "--out", name, cwd=finished)
        assert unclear.returncode == 2
        assert name in unclear.stderr
        assert ".csv" in unclear.stderr


def test_the_version_is_printed(tmp_path: Path) -> None:
    printed = surelabel("--version", cwd=tmp_path).stdout
    for fact in (f"surelabel {version('surelabel')}", f"torch {version('torch')}", " on c"):
        assert fact in printed


def test_folders_that_label_everything_are_refused_before_training(tmp_path: Path) -> None:
    for album in ("spring", "summer"):
        write_dataset(tmp_path / "photos" / album, 2, seed=len(album))
    done = surelabel("label", "photos", "--out", "run", "--class-folders", cwd=tmp_path)
    assert done.returncode == 2
    assert "spring, summer" in done.stderr
    assert "--labels" in done.stderr
    done = surelabel("label", "photos", "--out", "run", cwd=tmp_path)
    assert done.returncode == 2
    for fact in ("spring (6)", "12 of the 12", "--class-folders", "--labels"):
        assert fact in done.stderr
    assert not (tmp_path / "run").exists()


def test_draw_then_fill_in_then_add_brings_labels_into_the_run(finished: Path) -> None:
    done = surelabel("draw", "photos", "-n", "12", "--out", "drawn.csv", cwd=finished)
    assert done.returncode == 0, done.stderr
    with (finished / "drawn.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12
    write_labels(
        finished / "drawn-filled.csv", {r["path"]: CLASSES[int(r["path"][3])] for r in rows}
    )
    added = surelabel("add", "run", "--labels", "drawn-filled.csv", cwd=finished)
    assert added.returncode == 0, added.stderr
    assert "surelabel resume run" in added.stderr
    shown = json.loads(surelabel("show", "run", "--json", cwd=finished).stdout)
    assert shown["n_human"] >= 60
    assert shown["finished"] is False


def test_quiet_prints_nothing_and_json_prints_one_object(tmp_path: Path) -> None:
    truth = write_dataset(tmp_path / "photos", 12)
    write_labels(tmp_path / "labels.csv", some(truth, 4))
    label = ["label", "photos", "--labels", "labels.csv", *FAST]
    quiet = surelabel(*label, "--out", "a", "--quiet", cwd=tmp_path)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")
    printed = surelabel(*label, "--out", "b", "--json", cwd=tmp_path)
    assert json.loads(printed.stdout)["path"] == "b"
    assert printed.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "code", "fact"),
    [
        (["label", "nowhere", "--out", "r"], 2, "nowhere"),
        (["label", "photos", "--labels", "gone.csv", "--out", "r"], 2, "gone.csv"),
        (["label", "photos", "--labels", "labels.csv", "--accept", "best"], 2, "'best'"),
        (["label", "photos", "--labels", "labels.csv", "--seed", "-1"], 2, "-1"),
        (["label", "photos", "--labels", "one.csv"], 2, "bars"),
        (["label", "photos", "--labels", "labels.csv", "--config", "bad.toml"], 2, "max_rounds"),
        (["resume", "nowhere"], 3, "nowhere"),
        (["show", "photos"], 3, "run.json"),
        (["export", "photos", "--to", "xml"], 2, "parquet, folder"),
        (["audit", "photos", "--checks", "3", "--answers", "a.csv"], 2, "--answers"),
        (["lable", "photos"], 2, "label"),
    ],
)
def test_bad_input_gets_a_message_and_an_exit_code(
    tmp_path: Path, arguments: list[str], code: int, fact: str
) -> None:
    truth = write_dataset(tmp_path / "photos", 2)
    write_labels(tmp_path / "labels.csv", some(truth, 2))
    write_labels(tmp_path / "one.csv", some(truth, 1))
    (tmp_path / "bad.toml").write_text("max_round = 3\n")
    done = surelabel(*arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert fact in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "r").exists()


def test_a_settings_file_is_obeyed_and_overruled_by_the_command_line(tmp_path: Path) -> None:
    truth = write_dataset(tmp_path / "photos", 6)
    write_labels(tmp_path / "labels.csv", some(truth, 2))
    (tmp_path / "fast.toml").write_text("steps = 3\nmax_rounds = 1\nbatch_size = 8\nmembers = 1\n")
    command = ["label", "photos", "--labels", "labels.csv", "--config", "fast.toml", "--steps", "4"]
    surelabel(*command, "--out", "run", cwd=tmp_path)
    used = (tmp_path / "run" / "config.toml").read_text()
    assert "steps = 4\n" in used
    assert "max_rounds = 1\n" in used


def test_a_run_that_labels_nothing_fails_with_a_remedy(tmp_path: Path) -> None:
    truth = write_dataset(tmp_path / "photos", 6)
    write_labels(tmp_path / "labels.csv", some(truth, 2))
    label = ["label", "photos", "--labels", "labels.csv", "--out", "run", *FAST]
    done = surelabel(*label, "--accept", "confidence:1", "--steps", "1", cwd=tmp_path)
    assert done.returncode == 4
    assert "--accept" in done.stderr.splitlines()[-1]


def react_to_ctrl_c() -> None:
    """A shell makes processes ignore SIGINT that it starts in the background: undo that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_cleanly_with_the_command_to_resume(tmp_path: Path) -> None:
    truth = write_dataset(tmp_path / "photos", 10)
    write_labels(tmp_path / "labels.csv", some(truth, 4))
    start = (
        "from surelabel.engines import member_training; member_training.CHECKPOINT_SECONDS = 0.0; "
    )
    start += "from surelabel.__main__ import main; main()"
    options = ["--labels", "labels.csv", "--out", "run", "--steps", "100000", "--threads", "1"]
    environment = {**os.environ, "SURELABEL_CACHE": str(tmp_path / "cache")}
    process = subprocess.Popen(
        [sys.executable, "-c", start, "label", "photos", *options],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=react_to_ctrl_c,
    )
    try:
        started = time.monotonic()
        checkpoints = tmp_path / "run" / "rounds" / "001.partial" / "checkpoints"
        while not any(checkpoints.glob("*.safetensors")):  # past what torch imports at first
            assert process.poll() is None
            assert time.monotonic() - started < 300
            time.sleep(0.1)
        for _ in range(4):  # an impatient user
            process.send_signal(signal.SIGINT)
            time.sleep(0.05)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "terminate" not in errors
    assert "surelabel resume run" in errors
    assert "Traceback" not in errors


def test_the_demo_never_touches_a_folder_of_other_files(tmp_path: Path) -> None:
    (tmp_path / "mine" / "images").mkdir(parents=True)
    (tmp_path / "mine" / "labels.csv").write_text("path,label\n")
    done = surelabel("demo", "--out", "mine", cwd=tmp_path)
    assert done.returncode == 2
    assert "--out" in done.stderr
    assert (tmp_path / "mine" / "labels.csv").read_text() == "path,label\n"


def test_a_run_can_get_more_rounds_and_odd_class_names_are_shown(tmp_path: Path) -> None:
    truth = write_dataset(tmp_path / "my [best] photos", 8)
    names = {"bars": "[bars]", "dots": "[/b]", "rings": "rings, [red]"}
    write_labels(tmp_path / "labels.csv", {k: names[v] for k, v in some(truth, 4).items()})
    label = ["label", "my [best] photos", "--labels", "labels.csv", "--out", "run", *FAST]
    first = surelabel(*label, "--max-rounds", "1", "--accept", "q3", cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    more = surelabel("resume", "run", "--max-rounds", "2", cwd=tmp_path)
    assert more.returncode == 0, more.stderr
    shown = surelabel("show", "run", cwd=tmp_path).stdout
    assert "after 2 rounds" in shown
    for name in names.values():
        assert f"\n{name} " in shown


def test_what_the_disk_refuses_is_a_message(tmp_path: Path) -> None:
    write_dataset(tmp_path / "photos", 2)
    done = surelabel("draw", "photos", "--out", "/proc/labels.csv", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("surelabel: ")
    assert "Traceback" not in done.stderr


def test_photos_that_were_moved_are_found_with_an_option(tmp_path: Path) -> None:
    truth = write_dataset(tmp_path / "photos", 8)
    write_labels(tmp_path / "labels.csv", some(truth, 4))
    label = ["label", "photos", "--labels", "labels.csv", "--out", "run", *FAST, "--accept", "q3"]
    assert surelabel(*label, "--max-rounds", "1", cwd=tmp_path).returncode == 0
    (tmp_path / "photos").rename(tmp_path / "archive")
    (tmp_path / "cache").rename(tmp_path / "lost")
    lost = surelabel("resume", "run", "--max-rounds", "2", cwd=tmp_path)
    assert lost.returncode == 2
    assert str(tmp_path / "photos") in lost.stderr
    found = surelabel("resume", "run", "--images", "archive", cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    assert "after 2 rounds" in found.stderr
