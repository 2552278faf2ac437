"""Slips among people's labels are listed, exported, asked about and gone once reviewed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import surelabel
from surelabel.cli.main import build_app
from surelabel.review.queue import Order, ReviewQueue, Task
from surelabel.runs.answers import AnswerKind

SLIPS = {4: "9", 11: "0", 23: "5"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> surelabel.Run:
    """Digits with three wrong labels, by a net that is trained for a moment."""
    folder = tmp_path_factory.mktemp("slips")
    digits = load_digits()
    labels = digits.target[:500].astype(str).astype(object)
    for row, wrong in SLIPS.items():
        assert labels[row] != wrong
        labels[row] = wrong
    labels[400:] = ""
    return surelabel.label(
        (digits.images[:500] * 15).astype(np.uint8),
        labels=labels.astype(str),
        out=folder / "run",
        cache=str(folder / "cache"),
        steps=80,
        max_rounds=1,
        mc_samples=3,
        consistency=0.0,
        tune_share=0.0,
        neighbor_vote=False,
    )


def test_slips_are_listed_with_what_they_should_be(run: surelabel.Run) -> None:
    found = run.label_errors
    by_path = found.set_index("path")
    truth = load_digits().target
    for row, wrong in SLIPS.items():
        error = by_path.loc[f"array:{row:05d}"]
        assert error["label"] == wrong
        assert error["suggested"] == str(truth[row])
        assert error["probability"] >= 10 * error["label_probability"]
    ratio = found["label_probability"] / found["probability"]
    assert ratio.is_monotonic_increasing
    assert len(found) < 40
    assert run.summary.n_suspicious == len(found)


def test_the_command_writes_a_table_and_json(run: surelabel.Run, tmp_path: Path) -> None:
    out = tmp_path / "errors.csv"
    arguments = ["label-errors", str(run.path), "--out", str(out)]
    done = CliRunner().invoke(build_app(), [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    listed = json.loads(done.output)["label_errors"]
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["path"] for row in rows] == [row["path"] for row in listed]
    again = CliRunner().invoke(build_app(), [*arguments, "-n", "2", "--overwrite"])
    assert again.exit_code == 0
    assert rows[0]["path"] in again.output
    assert "--suspicious" in again.output


def test_the_page_asks_about_them_and_an_answer_settles_it(run: surelabel.Run) -> None:
    errors = run.label_errors
    queue = ReviewQueue(run.folder, Task(suspicious=True))
    assert queue.ordered(Order.USEFUL) == errors["id"].tolist()
    (shown,) = queue.describe([errors["id"][0]])
    assert shown["guesses"][0]["label"] == errors["suggested"][0]
    run.folder.answers.add(errors["id"][0], AnswerKind.LABEL, errors["suggested"][0])
    assert run.label_errors["id"].tolist() == errors["id"].tolist()[1:]
    table = run.annotations.set_index("id")
    assert table.loc[errors["id"][0], "label"] == errors["suggested"][0]
