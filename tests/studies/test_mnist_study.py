"""The study end to end: real digits, real runs, killed processes."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from pandas.testing import assert_frame_equal
from sklearn.metrics import cohen_kappa_score
from study_data import HAS_MNIST, MNIST, QUICK, silently, small_digits

import surelabel
from surelabel.errors import RunError
from surelabel.types import JsonObject
from surelabel_studies.mnist.study import Report, StudySettings, run_study

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("study")


@pytest.fixture(scope="module", autouse=True)
def cache(place: Path) -> None:
    patch = pytest.MonkeyPatch()
    patch.setenv("SURELABEL_CACHE", str(place / "cache"))


@pytest.fixture(scope="module")
def report(place: Path) -> Report:
    return run_study(QUICK, small_digits(), place / "whole", silently)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_csv_is_what_the_run_folders_say(report: Report) -> None:
    split = QUICK.split(small_digits())
    lines = rows(report.folder / "table.csv")
    assert [(r["model"], r["figures"]) for r in lines] == [
        ("dst", "paper"),
        ("dst", "here"),
        ("dbst-2", "paper"),
        ("dbst-2", "here"),
    ]
    for line in lines[1::2]:
        run = surelabel.open_run(report.folder.parent / line["model"])
        table = run.annotations
        pseudo = (table["source"] == "pseudo").to_numpy()
        truth = split.truth.astype(str)
        wrong = (table["label"].to_numpy() != truth)[pseudo].sum()
        assert int(line["left"]) == (table["source"] == "").sum()
        assert (int(line["labeled"]), int(line["wrong"])) == (pseudo.sum(), wrong)
        assert int(line["rounds"]) == len(run.rounds)
        if pseudo.any():
            kappa = cohen_kappa_score(truth[pseudo], table["label"][pseudo])
            assert float(line["one_minus_kappa"]) == pytest.approx(1 - kappa)
        seen = sum(m["images_seen"] for r in run.rounds for m in r.learner["members"])
        assert float(line["training_macs"]) % seen == 0
    assert any(int(line["labeled"]) for line in lines[1::2])


def test_the_markdown_has_the_papers_columns_and_figures(report: Report) -> None:
    lines = (report.folder / "table.md").read_text(encoding="utf-8").splitlines()
    header = [cell.strip() for cell in lines[0].strip("|").split("|")]
    assert header[4:] == [
        "1-precision",
        "1-recall",
        "1-F1",
        "left unlabeled",
        "1-kappa",
        "rounds",
    ]
    paper = [cell.strip() for cell in lines[4].strip("|").split("|")]
    assert paper[0] == "DBST-2, paper"
    assert paper[4:] == [".0032", ".0032", ".0032", "4,092 (7.5 %)", ".0035", "21"]
    assert lines[3].startswith("| DST, here")
    assert "plain confidence is overconfident" in (report.folder / "verdicts.md").read_text()
    assert report.text.startswith(lines[0])


def test_the_result_as_json(report: Report) -> None:
    models = json.loads(json.dumps(report.to_json(), allow_nan=False))["models"]
    assert list(models) == ["dst", "dbst-2"]
    assert models["dbst-2"]["labeled"] + models["dbst-2"]["left"] == 200
    assert len(models["dbst-2"]["test_accuracy"]) == models["dbst-2"]["rounds"]


def test_each_figure_is_saved_twice_with_a_caption(report: Report) -> None:
    folder = report.folder / "figures"
    names = ("left-unlabeled", "accuracy", "uncertainty-dbst-2", "hardest-dbst-2")
    page = (report.folder / "figures.md").read_text(encoding="utf-8")
    for name in names:
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (folder / f"{name}.svg").read_text(encoding="utf-8")
        assert (folder / f"{name}.txt").read_text(encoding="utf-8").strip() in page
    assert not (folder / "uncertainty-dst.png").exists(), "its threshold is not a quartile"


def test_a_finished_study_is_not_redone(report: Report) -> None:
    before = {p: p.stat().st_mtime_ns for p in report.folder.parent.rglob("weights-*")}
    notes = report.folder.parent / "dst.test.json"
    known = json.loads(notes.read_text())
    assert len(known) == len(surelabel.open_run(report.folder.parent / "dst").rounds)
    notes.write_text(json.dumps(dict.fromkeys(known, 0.125)))
    again = run_study(QUICK, small_digits(), report.folder.parent, silently)
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert set(again.results[0].test_accuracy) == {0.125}, "it was read, not measured again"
    assert again.results[0].figures == report.results[0].figures
    notes.write_text(json.dumps(known))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"epochs": 4}, "epochs 3, not 4"),
        ({"seed": 1}, "seed 0, not 1"),
        ({"pool_size": 210}, "900 images with 700 labels, 200 of them to tune, not 910 images"),
        ({"rounds": 1}, "max_rounds 2, not 1"),
    ],
)
def test_a_row_with_other_settings_gets_a_sentence(
    report: Report, change: JsonObject, expected: str
) -> None:
    with pytest.raises(RunError, match="holds a run with other settings") as error:
        run_study(replace(QUICK, **change), small_digits(), report.folder.parent, silently)
    assert expected in str(error.value)
    assert "another --out" in str(error.value)


def test_the_tools_own_settings_have_a_curve_beside_the_papers_best(place: Path) -> None:
    settings = StudySettings(
        ("default",), total=60, pool_size=100, test_size=50, epochs=1, rounds=1
    )
    report = run_study(settings, small_digits(), place / "own", silently)
    assert report.folder.name == "report-default-total-60"
    assert [left for left, _ in report.results[0].curve] == [33, 8, 1, 0]
    text = (report.folder / "table.md").read_text(encoding="utf-8")
    assert "its best 1-kappa" in text
    assert re.search(r"^\| 0 +\|", text, re.MULTILINE)


def test_fewer_labels_have_a_report_of_their_own(place: Path) -> None:
    settings = StudySettings(("dst",), pool_size=100, test_size=50, epochs=1, rounds=1)
    out = place / "labels"
    whole = run_study(settings, small_digits(), out, silently)
    before = (whole.folder / "table.md").read_bytes()
    few = run_study(replace(settings, labels_per_class=10), small_digits(), out, silently)
    assert (whole.folder.name, few.folder.name) == ("report-dst", "report-dst-10")
    assert (whole.folder / "table.md").read_bytes() == before


def let_go(process: subprocess.Popen[str], steps: list[str]) -> None:
    """Let the worker go on until it has reported ``steps``, one after the other."""
    assert process.stdin is not None
    assert process.stdout is not None
    while line := process.stdout.readline():
        if line.strip() == steps[0]:
            steps = steps[1:]
        if not steps:
            return
        process.stdin.write("\n")
        process.stdin.flush()
    raise AssertionError(f"the study ended before {steps[0]}")


def test_a_killed_study_ends_as_an_uninterrupted_one(place: Path, report: Report) -> None:
    out = place / "killed"
    command = [sys.executable, "-W", "error", str(HERE / "study_worker.py"), str(out)]
    for steps in (["RoundProgress"], ["row dbst-2", "RoundFinished"]):
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        let_go(process, steps)
        process.kill()
        process.communicate()
        assert process.returncode == -9
    ended = run_study(QUICK, small_digits(), out, silently)
    for mine, whole in zip(ended.results, report.results, strict=True):
        assert_frame_equal(mine.run.annotations, whole.run.annotations)
        assert mine.test_accuracy == whole.test_accuracy
    changing = ["seconds"]
    one, other = (pd.DataFrame(rows(r.folder / "table.csv")) for r in (ended, report))
    assert_frame_equal(one.drop(columns=changing), other.drop(columns=changing))


def surelabel_study(*arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "surelabel", "study", "mnist", *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "SURELABEL_CACHE": str(cwd / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not HAS_MNIST, reason=f"MNIST is not in {MNIST}")
def test_the_command_on_real_mnist(tmp_path: Path) -> None:
    scale = ("--pool-size", 200, "--epochs", 2, "--rounds", 1, "--test-size", 50)
    models = ("--model", "dbst-3", "--model", "dst", "--out", "out")
    done = surelabel_study("--data", MNIST, *scale, *models, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "| DBST-3, here" in done.stdout
    assert "Round 1" in done.stderr
    assert (tmp_path / "out" / "report-dst-dbst-3" / "table.md").read_text() in done.stdout


def test_faults_get_a_sentence_and_no_trace(tmp_path: Path) -> None:
    for arguments, expected in (
        (("--data", tmp_path), "has no train-images-idx3-ubyte"),
        (("--model", "dbst-9"), "model is 'dbst-9'"),
        (("--epochs", 0), "Invalid value for '--epochs'"),
    ):
        done = surelabel_study(*arguments, cwd=tmp_path)
        assert done.returncode == 2
        assert expected in done.stderr
        assert "Traceback" not in done.stderr


def test_without_matplotlib_a_study_ends_before_it_begins(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from surelabel.cli.main import run\n"
        "studies = ('mnist', 'adaptation', 'packaging')\n"
        "print([run(['study', name]) for name in studies], run(['study', 'mnist', '--help']))"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.stdout.strip().endswith("[2, 2, 2] 0"), done.stderr
    assert done.stderr.count("needs matplotlib: pip install 'surelabel[studies]'") == 3
    assert not list(tmp_path.iterdir())
