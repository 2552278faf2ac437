"""A comparison has the figures of each run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from certify_data import N, finish_round, label_rows, make_run

from surelabel.api import Run
from surelabel.cli.main import run as command
from surelabel.inference.selective_risk import augrc, aurc
from surelabel.messages.run import held_out_text, memory_text
from surelabel.report.comparison import compare_runs
from surelabel.runs.rounds import HELD_OUT_TABLE
from surelabel.workflows.certify import certify_run
from surelabel.workflows.problem import problem_of


def test_each_column_is_the_runs_own(split: Run, hostile: Run) -> None:
    comparison = compare_runs([split.folder, hostile.folder])
    for run, figures in zip((split, hostile), comparison.runs, strict=True):
        summary, last = run.summary, run.rounds[-1]
        assert (figures.n_labeled, figures.n_left) == (summary.n_labeled, summary.n_left)
        assert (figures.n_images, figures.n_human) == (summary.n_images, summary.n_human)
        assert (figures.held_out_errors, figures.n_held_out) == (
            last.held_out_errors,
            last.n_held_out,
        )
        held_out = run.folder.finished_rounds()[-1].read_table(HELD_OUT_TABLE)
        assert figures.aurc == aurc(held_out["score"], ~held_out["correct"])
        assert figures.augrc == augrc(held_out["score"], ~held_out["correct"])
        assert figures.seconds == sum(r.seconds for r in run.rounds) > 0
        assert figures.peak_memory == max(r.learner["peak_memory"] for r in run.rounds) > 1e7
    assert comparison.settings["max_rounds"] == ("1", "2")
    assert set(comparison.settings) == {"max_rounds", "cache"}
    assert not comparison.same_images
    assert not comparison.same_held_out


def test_a_run_equals_itself(split: Run) -> None:
    comparison = compare_runs([split.folder, split.folder])
    assert comparison.settings == {}
    assert comparison.same_images
    assert comparison.same_held_out


def test_promises_are_compared(tmp_path: Path) -> None:
    folders = []
    for name, labels in (("sure", label_rows(range(9, N, 3))), ("unsure", label_rows(range(0)))):
        folder = make_run(tmp_path / name, labels, max_error="0.05", stop_below=N)
        finish_round(folder, threshold=0.2)
        certify_run(folder, problem_of(folder).pool_ids)
        folders.append(folder)
    sure, unsure = compare_runs(folders).runs
    assert re.search(r"5\.0 %.*95 % confidence", sure.promise)
    assert unsure.promise == "nothing"
    assert sure.aurc is None


def test_the_command_prints_a_table_and_json(
    split: Run, hostile: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    paths = [str(split.path), str(hostile.path)]
    assert command(["compare", *paths]) == 0
    text = capsys.readouterr().out
    lines = [line.split("  ") for line in text.splitlines()]
    cells = {row[0].strip(): [c.strip() for c in row[1:] if c.strip()] for row in lines if row}
    assert cells["left unlabeled"] == [f"{run.summary.n_left:,}" for run in (split, hostile)]
    assert cells["max_rounds"] == ["1", "2"]
    assert cells["wrong on held-out labels"] == [
        held_out_text(run.rounds[-1].held_out_errors, run.rounds[-1].n_held_out)
        for run in (split, hostile)
    ]
    assert "held-out labels" in text.strip().splitlines()[-1]
    assert command(["compare", *paths, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert [each["path"] for each in printed["runs"]] == paths


def test_one_run_alone_gets_a_sentence(split: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["compare", str(split.path)]) == 2
    assert "two runs or more" in capsys.readouterr().err


def test_show_has_the_essentials(hostile: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["show", str(hostile.path)]) == 0
    text = capsys.readouterr().out
    assert "left unlabeled    " in text
    assert "wrong on held-out  " in text
    assert "2 rounds took " in text
    assert hostile.summary.peak_memory is not None
    assert memory_text(hostile.summary.peak_memory) in text
