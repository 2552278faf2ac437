"""Labels by several people, from tables and from the review page, on a real run."""

from __future__ import annotations

import csv
import json
import shutil
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "review"))

from workflow_data import photos_and_labels, tiny

import surelabel
from surelabel.cli.main import run as run_command
from surelabel.messages.annotators import agreement_rows, agreement_sentences
from surelabel.report.page import write_report
from surelabel.review.queue import ReviewQueue, Task
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder
from surelabel.workflows.annotators import agreement_of, disputed_ids, people_labels


def labels_by_two(place: Path) -> tuple[Path, Path, list[str]]:
    """The labels of the small dataset by ann; bob agrees on all but the first image."""
    photos, labels = photos_and_labels(place)
    with labels.open(newline="", encoding="utf-8") as file:
        rows = [(row["path"], row["label"]) for row in csv.DictReader(file) if row["label"]]
    names = sorted({label for _, label in rows})
    other = dict(zip(names, names[1:] + names[:1], strict=True))
    first = [path for path, label in rows if label == rows[0][1]][:1]
    table = place / "two.csv"
    with table.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("path", "label", "annotator"))
        for path, label in rows:
            writer.writerow((path, label, "ann"))
            writer.writerow((path, other[label] if path in first else label, "bob"))
    return photos, table, first


@pytest.fixture(name="trained", scope="module")
def fixture_trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    place = tmp_path_factory.mktemp("annotators")
    photos, table, (disputed,) = labels_by_two(place)
    config = tiny(place / "cache", max_rounds=1, steps=8, accept="top:4")
    run = surelabel.label(photos, table, place / "run", config=config)
    catalog = run.folder.catalog
    (item_id,) = catalog.ids[catalog.paths == disputed].tolist()
    return run.path, disputed, item_id


@pytest.fixture(name="folder")
def fixture_folder(trained: tuple[Path, str, str], tmp_path: Path) -> RunFolder:
    shutil.copytree(trained[0], tmp_path / "run")
    return RunFolder.open(tmp_path / "run")


def test_a_run_says_how_far_people_agree(folder: RunFolder, trained: tuple[Path, str, str]) -> None:
    report = agreement_of(folder)
    assert report is not None
    n = report.overall.n_images
    assert (report.overall.n_people, report.overall.n_disputed, report.n_open) == (2, 1, 1)
    assert report.overall.wrong_at_least == pytest.approx(1 / (2 * n))
    assert f"{n - 1}" in agreement_sentences(report)[0]
    assert len(agreement_rows(report)) == len(folder.catalog.classes)
    table = surelabel.open_run(folder.path).annotations.set_index("id")
    assert table.loc[trained[2], "source"] in ("", "pseudo"), "nobody's label at a tie"


def test_the_report_shows_it(folder: RunFolder) -> None:
    page = write_report(folder).read_text(encoding="utf-8")
    assert "Krippendorff" in page


def test_disputed_images_are_a_review_queue_that_an_answer_empties(
    folder: RunFolder, trained: tuple[Path, str, str]
) -> None:
    ids = disputed_ids(folder)
    assert ids == [trained[2]]
    queue = ReviewQueue(folder, Task(Purpose.REVIEW, tuple(ids)))
    assert queue.ids == ids
    folder.answers.add(ids[0], "label", folder.catalog.classes[0], reviewer="eve")
    assert disputed_ids(folder) == []
    labels = people_labels(folder)
    assert labels.people == ("ann", "bob", "eve")
    assert len(labels.votes(labels.ids.index(ids[0]))) == 3
    table = surelabel.open_run(folder.path).annotations.set_index("id")
    assert table.loc[ids[0], "label"] == folder.catalog.classes[0]


def test_reviewers_are_people_unless_they_undid_or_are_unsure(folder: RunFolder) -> None:
    disputed = disputed_ids(folder)
    pool = folder.catalog.ids[folder.catalog.splits == "pool"].tolist()
    item_id = next(each for each in pool if each not in disputed)
    name = folder.catalog.classes[0]
    folder.answers.add(item_id, "label", name, reviewer="eve")
    folder.answers.add(item_id, "none", reviewer="dan")
    folder.answers.add(item_id, "unsure", reviewer="joe")
    folder.answers.add(item_id, "label", name, reviewer="kim")
    folder.answers.add(item_id, "undo", reviewer="kim")
    labels = people_labels(folder)
    given = {vote.annotator: vote.label for vote in labels.votes(labels.ids.index(item_id))}
    assert given == {"eve": name, "dan": "none of these"}


def test_the_consensus_can_be_added(folder: RunFolder, trained: tuple[Path, str, str]) -> None:
    run = surelabel.open_run(folder.path)
    by_majority = run.consensus().set_index("path")
    assert by_majority.loc[trained[1], "label"] == ""
    assert by_majority["label"].ne("").sum() == len(by_majority) - 1
    weighted = run.consensus("weighted").set_index("path")
    assert weighted.loc[trained[1], "label"] in folder.catalog.classes
    assert "ann: " in str(weighted.loc[trained[1], "labels"])
    out = folder.path.parent / "consensus.csv"
    weighted.reset_index().to_csv(out, index=False)
    run.add(labels=out, overwrite=True)
    assert run.annotations.set_index("path").loc[trained[1], "source"] == "given"


def test_the_command_shows_and_writes_it(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    out = folder.path.parent / "table.csv"
    command = ["agreement", str(folder.path), "--consensus", "weighted", "--out", str(out)]
    assert run_command(command) == 0
    shown = "".join(capsys.readouterr().err.split())
    assert "Krippendorff'salpha" in shown
    assert f"--labels{out}" in shown
    assert out.read_text(encoding="utf-8").startswith("id,path,label,probability")
    assert run_command(["agreement", str(folder.path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["overall"]["n_people"] == 2
