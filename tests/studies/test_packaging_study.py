"""The packaging study through the command line: real photographs of a kind, the real net."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from sklearn.metrics import cohen_kappa_score

import surelabel
from surelabel.models.backbones import photos_installed
from surelabel.types import JsonObject
from surelabel_studies.use_by_dates.records import Settings
from surelabel_studies.use_by_dates.sets import Like
from surelabel_studies.use_by_dates.writer import write_use_by_dates

FEW = ["--seeds", "1", "--steps", "20", "--rounds", "2", "--json"]

pytestmark = pytest.mark.skipif(not photos_installed(), reason="surelabel[photos] is not installed")


def study(place: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "surelabel", "study", "packaging", *map(str, options)]
    environment = {**os.environ, "SURELABEL_CACHE": str(place / "cache"), "COLUMNS": "100"}
    return subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, check=False
    )


def own_photographs(folder: Path) -> None:
    """84 photographs of set 4 from two locations, as a user's folder; one cannot be read."""
    place = folder / "set4"
    write_use_by_dates(place, Settings(Like.SET4, 1, 0.006, 299), workers=1)
    table = pd.read_csv(place / "labels.csv")
    table["location"] = ["here" if i % 2 else "there" for i in range(len(table))]
    table[["path", "category", "location", "difficulty"]].to_csv(place / "labels.csv", index=False)
    (place / table["path"].iloc[0]).write_bytes(b"no photograph")


def test_own_photographs_are_studied_and_a_second_call_adds_nothing(tmp_path: Path) -> None:
    own_photographs(tmp_path / "mine")
    some = ["--only", "baseline", "--only", "tau", "--only", "penalty"]
    options = ["--photos", "mine", "--out", "study", *some, *FEW]
    done = study(tmp_path, *options)
    assert done.returncode == 0, done.stderr
    results: JsonObject = json.loads(done.stdout)
    assert results["photographs"].startswith("photographs in")
    assert results["experiments"] == []
    assert {one["location"] for one in results["left_out_locations"]} == {"here", "there"}
    truth = pd.read_csv(tmp_path / "mine" / "set4" / "labels.csv").set_index("path")["category"]
    for one in results["self_training"]:
        run = surelabel.open_run(tmp_path / "study" / "seed-0" / one["model"])
        table = run.annotations
        table = table[table["source"] == "pseudo"]
        assert one["labeled"] == len(table)
        names = table["path"].str.extract(r"(images/.*)")[0]
        right = truth[names].map({"complete": "OK", "unreadable": "NOT-OK"}).to_numpy()
        if len(table) and one["kappa"] not in (None, 1):
            assert one["kappa"] == pytest.approx(cohen_kappa_score(right, table["label"]))
    text = (tmp_path / "study" / "report" / "table.md").read_text(encoding="utf-8")
    assert "synthetic" not in text
    assert text.count("efficientnet-lite0, ImageNet weights") == text.count("###")
    again = study(tmp_path, *options)
    assert json.loads(again.stdout) == results
    other = study(tmp_path, *options[:-5], *FEW[:2], "--steps", "21", "--rounds", "2")
    assert other.returncode != 0
    assert "holds a run with other settings (steps 20, not 21)" in other.stderr.replace("\n", " ")
    labels = tmp_path / "mine" / "set4" / "labels.csv"
    given = labels.read_text(encoding="utf-8")
    labels.write_text(given.replace("unreadable", "complete", 12), encoding="utf-8")
    relabeled = study(tmp_path, *options)
    assert relabeled.returncode != 0
    assert "other settings (other images or labels)" in relabeled.stderr.replace("\n", " ")


def parsed(done: subprocess.CompletedProcess[str]) -> tuple[JsonObject, str]:
    """The results of a study that ran to its end, and its sentences on what it skipped."""
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    return results, " ".join(results["skipped"])


def test_what_the_photographs_do_not_allow_is_skipped_and_the_rest_is_run(tmp_path: Path) -> None:
    own_photographs(tmp_path / "mine")
    labels = tmp_path / "mine" / "set4" / "labels.csv"
    table = pd.read_csv(labels)
    table.assign(location=table["category"]).to_csv(labels, index=False)
    some = ["--photos", "mine", *FEW]
    twice = ["--part", "experiments", "--part", "experiments"]
    results, skipped = parsed(study(tmp_path, *some, *twice, "--out", "experiments"))
    assert results["self_training"] == []
    assert "no set1 or set2 or set3" in skipped
    results, skipped = parsed(study(tmp_path, *some, "--part", "locations", "--out", "locations"))
    assert [run["model"] for run in results["self_training"]] == ["tau"]
    for name in set(table["category"]):
        assert f"location {name} was not left out" in skipped
    table.drop(columns="location")[::3].to_csv(labels, index=False)
    results, skipped = parsed(study(tmp_path, *some, "--part", "self-training", "--out", "few"))
    assert results["self_training"] == []
    assert "Set 4 has too few photographs" in skipped
    (tmp_path / "mine" / "set4").rename(tmp_path / "mine" / "set1")
    results, skipped = parsed(study(tmp_path, *some, "--part", "self-training", "--out", "none"))
    assert "no set4" in skipped
    assert skipped in (tmp_path / "none" / "report" / "verdicts.md").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_whole_study_runs_on_synthetic_photographs(tmp_path: Path) -> None:
    done = study(tmp_path, "--scale", "0.03", "--out", "study", *FEW)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert results["photographs"] == "synthetic photographs, scale 0.03"
    assert len(results["experiments"]) + len(results["skipped"]) == 9
    assert len(results["left_out_locations"]) == 7
    report = tmp_path / "study" / "report"
    for name in ("dates", "examples", "confusion"):
        assert (report / "figures" / f"{name}.png").stat().st_size > 10_000
        assert "synthetic" in (report / "figures" / f"{name}.txt").read_text(encoding="utf-8")
    titles = [t for t in (report / "table.md").read_text().splitlines() if t.startswith("###")]
    assert len(titles) == 8
    assert all("synthetic" in title for title in titles)


def test_the_detail_tail_is_studied_with_its_attention(tmp_path: Path) -> None:
    write_use_by_dates(tmp_path / "mine" / "set2", Settings(Like.SET2, 1, 0.015, 299), workers=1)
    one = ["--part", "experiments", "--only", "experiment-2-set2"]
    few = ["--photos", "mine", *one, "--tail", "detail", *FEW]
    done = study(tmp_path, *few, "--out", "study")
    results, _ = parsed(done)
    assert [one["key"] for one in results["experiments"]] == ["experiment-2-set2"]
    looked = {one["key"]: one for one in results["attention_in_boxes"]}["experiment-2-set2"]
    assert looked["n"] > 0
    assert 0 < looked["area"] < 0.2
    assert 0 < looked["share"] < 1
    again = study(tmp_path, *few, "--out", "study")
    assert json.loads(again.stdout) == results
    start = ["--start-from", "study/seed-0/experiment-2-set2", "--beside", "study"]
    for _ in range(2):  # the second call finds the run as it was
        started, _ = parsed(study(tmp_path, *few, *start, "--out", "started"))
    assert started["start"] == "seed-0/experiment-2-set2"
    table = (tmp_path / "started" / "report" / "table.md").read_text(encoding="utf-8")
    beside = table.split("beside that of other studies")[1].split("###")[0]
    accuracies = [100 * one["experiments"][0]["accuracy"] for one in (started, results)]
    row = next(line for line in beside.splitlines() if line.startswith("| 2 ") and "set2" in line)
    assert [cell.strip() for cell in row.split("|")][-3:-1] == [f"{a:.1f}" for a in accuracies]
    assert "tail detail pre-trained by seed-0/experiment-2-set2, 20 steps" in beside
