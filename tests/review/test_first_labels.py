from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from review_data import Page, reviewing, write_colors
from workflow_data import tiny

import surelabel
from surelabel.api import Run
from surelabel.errors import RunError, TooFewLabelsError
from surelabel.messages.run import next_steps, people_sentence, state_sentence
from surelabel.review.queue import ReviewQueue, Task
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder
from surelabel.runs.rounds import POOL_TABLE
from surelabel.workflows.first_labels import begin_unlabeled, lacks_labels
from surelabel.workflows.label import add, train
from surelabel.workflows.problem import problem_of


@pytest.fixture(name="photos")
def fixture_photos(tmp_path: Path) -> Path:
    write_colors(tmp_path / "photos", 15)
    return tmp_path / "photos"


@pytest.fixture(name="fresh")
def fixture_fresh(photos: Path, tmp_path: Path) -> RunFolder:
    config = tiny(tmp_path / "cache", steps=8, max_rounds=1)
    return begin_unlabeled(photos, tmp_path / "run", config)


def color(path: str) -> str:
    return "red" if path.endswith("0.png") else "green"


def label_first(page: Page, n: int) -> None:
    for item in page.get("/api/items", ids=",".join(page.ids()[:n])):
        page.answer(item["id"], color(item["path"]), new_class=True)


def test_images_are_asked_in_random_order_that_stays(fresh: RunFolder) -> None:
    ids = ReviewQueue(fresh, Task(n_first=10)).ids
    assert len(ids) == 10
    assert ids == ReviewQueue(fresh, Task(n_first=30)).ids[:10]
    assert ids != sorted(ids)


def test_first_answers_become_labels_that_may_be_held_out(fresh: RunFolder) -> None:
    page = Page(fresh)
    assert page.get("/api/state")["first"]
    label_first(page, 12)
    none_item = page.ids()[12]
    page.answer(none_item, None)
    assert lacks_labels(fresh)
    train(fresh)
    folder = RunFolder.open(fresh.path)
    assert folder.about["threads"] > 0
    catalog = folder.catalog
    assert catalog.classes == ("green", "red")
    given = catalog.sources == "given"
    assert given.sum() == 12
    truth = [color(path) for path in catalog.paths[given].tolist()]
    assert [catalog.classes[k] for k in catalog.labels[given]] == truth
    assert catalog.cross_fit
    table = surelabel.open_run(fresh.path).annotations.set_index("id")
    assert table.loc[none_item, "source"] == "reviewed"
    later = ReviewQueue(fresh, Task())
    assert later.task.purpose is Purpose.REVIEW
    assert not set(later.ids) & set(catalog.ids[given].tolist())


def test_labels_on_disk_are_counted_before_any_training(fresh: RunFolder) -> None:
    page = Page(fresh)
    label_first(page, 12)
    summary = Run(fresh.path).summary
    assert (summary.n_human, summary.n_waiting) == (12, 12)
    assert "12 of all 30" in people_sentence(summary)
    assert "resume" in state_sentence(summary)
    assert not any("review" in command for command, _ in next_steps(summary))
    train(fresh)
    summary = Run(fresh.path).summary
    assert (summary.n_human, summary.n_waiting) == (12, 0)


def test_none_of_the_classes_counts_in_the_training_that_the_page_starts(fresh: RunFolder) -> None:
    page = Page(fresh)
    label_first(page, 12)
    none_item = page.ids()[12]
    page.answer(none_item, None)
    train(fresh, upto=fresh.answers.last_seq())
    folder = RunFolder.open(fresh.path)
    assert surelabel.open_run(fresh.path).summary.is_finished
    last = folder.last_round()
    assert last is not None
    assert none_item not in last.read_table(POOL_TABLE)["id"].tolist()


def test_first_answers_that_come_late_stay_random_and_are_not_lost(fresh: RunFolder) -> None:
    page = Page(fresh)
    label_first(page, 12)
    train(fresh)
    late = page.ids()[12:14]
    fresh.answers.add(late[0], "label", "red", purpose=Purpose.FIRST)
    fresh.answers.add(late[1], "none", purpose=Purpose.FIRST)
    train(fresh)
    table = surelabel.open_run(fresh.path).annotations.set_index("id")
    assert table.loc[late, "source"].tolist() == ["given", "reviewed"]
    assert table.loc[late[0], "label"] == "red"
    folder = RunFolder.open(fresh.path)
    assert late[0] in problem_of(folder).human_ids
    assert late[0] in folder.catalog.undivided, "it may be held out like the first twelve"
    assert len(folder.finished_rounds()) == 2


def test_answers_given_while_the_first_round_is_trained(fresh: RunFolder) -> None:
    page = Page(fresh)
    label_first(page, 12)
    train(fresh)  # in the background: the page still asks for first labels
    label_first_from = page.ids()[12:16]
    for item in page.get("/api/items", ids=",".join(label_first_from[:3])):
        page.answer(item["id"], color(item["path"]))
    before = {each["name"]: each["people"] for each in page.get("/api/counts")["classes"]}
    assert sum(before.values()) == 15
    page.session.reload()  # the round has ended
    last = page.get("/api/items", ids=label_first_from[3])[0]
    one = {"id": last["id"], "kind": "label", "label": color(last["path"]), "expected_seq": 0}
    response = page.post("/api/answers", answers=[one], purpose="first")  # from a page before it
    assert response.status_code == 200
    after = {each["name"]: each["people"] for each in page.get("/api/counts")["classes"]}
    assert sum(after.values()) == 16
    assert all(after[name] >= n for name, n in before.items())
    asked = ReviewQueue(fresh, Task())
    assert asked.task.purpose is Purpose.REVIEW
    assert not set(asked.ids) & set(label_first_from), "nothing is asked twice"
    assert surelabel.open_run(fresh.path).summary.n_human == 16
    train(fresh)
    catalog = RunFolder.open(fresh.path).catalog
    assert set(label_first_from) <= set(catalog.undivided), "random answers stay random"
    assert fresh.answers.standing() == {}


def test_a_waiting_first_answer_can_be_changed_and_undone(fresh: RunFolder) -> None:
    page = Page(fresh)
    label_first(page, 12)
    item_id = page.ids()[12]
    train(fresh)
    page.answer(item_id, "red")
    page.session.reload()
    (item,) = page.get("/api/items", ids=item_id)
    assert item["answer"]["label"] == "red"
    page.answer(item_id, "green", expected_seq=item["answer"]["seq"])
    assert fresh.answers.standing(purpose=Purpose.FIRST)[item_id].label == "green"
    for expected in ("red", None):
        page.post("/api/undo", answers=[])
        (item,) = page.get("/api/items", ids=item_id)
        assert (item["answer"] and item["answer"]["label"]) == expected


def test_a_first_label_can_be_corrected_while_training(fresh: RunFolder) -> None:
    page = Page(fresh)
    label_first(page, 12)
    train(fresh)
    slip, none_item = page.ids()[0], page.ids()[12]
    before = fresh.answers.standing(purpose=Purpose.FIRST)[slip]
    other = "blue" if before.label == "red" else "red"
    fresh.answers.add(slip, "label", other, expected_seq=before.seq, purpose=Purpose.FIRST)
    fresh.answers.add(none_item, "none", purpose=Purpose.FIRST)
    train(fresh)
    table = surelabel.open_run(fresh.path).annotations.set_index("id")
    assert table.loc[slip, "label"] == other
    fresh.answers.add(none_item, "undo")
    train(fresh)
    assert none_item not in fresh.answers.standing(), "an undone answer does not come back"


def test_labels_from_a_table_are_newer_than_first_answers(fresh: RunFolder) -> None:
    page = Page(fresh)
    label_first(page, 12)
    paths = dict(zip(fresh.catalog.ids.tolist(), fresh.catalog.paths.tolist(), strict=True))
    answers = fresh.answers.standing(purpose=Purpose.FIRST)
    other = {"red": "green", "green": "red"}
    rows = [(paths[i], other[a.label or ""]) for i, a in answers.items()]
    add(fresh, labels=pd.DataFrame(rows, columns=["path", "label"]))
    train(fresh)
    assert fresh.answers.standing() == {}
    table = surelabel.open_run(fresh.path).annotations.set_index("path")
    assert all(table.loc[path, "label"] == label for path, label in rows)


def test_too_few_first_labels_are_refused(fresh: RunFolder) -> None:
    page = Page(fresh)
    with pytest.raises(TooFewLabelsError, match="classes"):
        train(fresh)
    page.answer(page.ids()[0], "red", new_class=True)
    with pytest.raises(TooFewLabelsError, match="red"):
        train(fresh)
    assert lacks_labels(RunFolder.open(fresh.path))


def test_a_run_without_labels_can_be_shown(fresh: RunFolder) -> None:
    summary = surelabel.open_run(fresh.path).summary
    assert (summary.n_images, summary.n_human, summary.n_left) == (30, 0, 30)


def test_the_command_continues_where_it_stopped(photos: Path, tmp_path: Path) -> None:
    with reviewing("photos", "--out", "run", "-n", "9", cwd=tmp_path) as review:
        client = review.client
        ids = client.get("/api/queue").json()["ids"]
        one = {"id": ids[0], "kind": "label", "label": "red", "expected_seq": 0, "new_class": True}
        client.post("/api/answers", json={"reviewer": "a", "client": "c", "answers": [one]})
        printed = review.stop()
        assert review.process.returncode == 0, printed
    folder = RunFolder.open(tmp_path / "run")
    assert set(ReviewQueue(folder, Task(n_first=9)).answered()) == {ids[0]}
    assert begin_unlabeled(photos, tmp_path / "run", folder.config).path == tmp_path / "run"
    with pytest.raises(RunError, match="--out"):
        begin_unlabeled(tmp_path, tmp_path / "run", folder.config)


def test_a_run_without_labels_names_the_next_commands(fresh: RunFolder) -> None:
    summary = Run(fresh.path).summary
    commands = [f"surelabel review {fresh.path}", f"surelabel resume {fresh.path}"]
    assert [command for command, _ in next_steps(summary)] == commands[:1]
    assert all(command in state_sentence(summary) for command in commands)
