"""Blind checks: lists and tables, what is shown when, and what can be changed."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest
from review_data import Page
from workflow_data import id_of

import surelabel
from surelabel.errors import InputError
from surelabel.review.blind_checks import read_list, write_answers
from surelabel.review.queue import Task
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder

RUN_KEYS = {"label", "guesses", "reason", "measures", "source"}
"""What an item holds once the run's label is shown."""


@pytest.mark.parametrize("column", ["file", "path", "id"])
def test_the_list_is_read_in_its_order_each_image_once(
    folder: RunFolder, tmp_path: Path, column: str
) -> None:
    paths = ["down-07.png", "across-03.png", "down-07.png"]
    ids = [id_of(folder, path) for path in paths]
    lines = [f"x,{i if column == 'id' else p}" for i, p in zip(ids, paths, strict=True)]
    listed = tmp_path / "list.csv"
    listed.write_text("\n".join([f"note,{column}", *lines]), encoding="utf-8")
    assert read_list(listed, folder.catalog) == ids[:2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("name\na.png\n", "file"),
        ("", "file"),
        ("file\n", "no images"),
        ("file\nmissing.png\n", "1 .* missing.png"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(
    folder: RunFolder, tmp_path: Path, text: str, problem: str
) -> None:
    listed = tmp_path / "list.csv"
    listed.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=problem):
        read_list(listed, folder.catalog)
    with pytest.raises(InputError, match=r"nowhere\.csv"):
        read_list(tmp_path / "nowhere.csv", folder.catalog)


def test_answers_are_written_as_a_table(folder: RunFolder, tmp_path: Path) -> None:
    store = folder.answers
    store.add(id_of(folder, "down-07.png"), "label", "down", "ann", purpose=Purpose.BLIND)
    store.add(id_of(folder, "across-03.png"), "unsure", reviewer="bob", purpose=Purpose.BLIND)
    store.add(id_of(folder, "across-04.png"), "none", purpose=Purpose.BLIND)
    store.add(id_of(folder, "across-05.png"), "label", "down")
    assert write_answers(folder, tmp_path / "out.csv") == 3
    with (tmp_path / "out.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(r["file"], r["answer"], r["kind"], r["reviewer"]) for r in rows] == [
        ("across-03.png", "", "unsure", "bob"),
        ("across-04.png", "", "none", ""),
        ("down-07.png", "down", "label", "ann"),
    ]


def ids_of(folder: RunFolder) -> tuple[str, ...]:
    return tuple(folder.catalog.ids[20:26].tolist())


@pytest.fixture(name="audit")
def fixture_audit(folder: RunFolder) -> Page:
    return Page(folder, Task(Purpose.AUDIT, ids_of(folder)))


@pytest.fixture(name="certify")
def fixture_certify(folder: RunFolder) -> Page:
    return Page(folder, Task(Purpose.CERTIFY, ids_of(folder)))


def seen(page: Page, item_id: str) -> bool:
    (item,) = page.get("/api/items", ids=item_id)
    return bool(RUN_KEYS & set(item))


def undo(page: Page, *answers: tuple[str, int]) -> int:
    listed = [{"id": item_id, "seq": seq} for item_id, seq in answers]
    return page.post("/api/undo", answers=listed).status_code


def test_the_last_answer_can_be_undone_and_reveals_nothing(audit: Page) -> None:
    first = ids_of(audit.folder)[0]
    seq = audit.answer(first, "down")["answer"]["seq"]
    assert not seen(audit, first)
    assert undo(audit, (first, seq)) == 200
    assert audit.answer(first, "across")["answer"]["label"] == "across"


def test_an_answer_is_final_once_the_label_may_have_been_seen(audit: Page) -> None:
    first, second, *_ = ids_of(audit.folder)
    seq = audit.answer(first, "down")["answer"]["seq"]
    later = audit.answer(second, "down")["answer"]["seq"]
    assert seen(audit, first)
    assert not seen(audit, second)
    assert undo(audit, (first, seq)) == 422
    assert undo(audit, (second, later)) == 200
    assert seen(audit, first)
    assert undo(audit, (first, seq)) == 422
    assert undo(audit) == 422
    standing = audit.folder.answers.standing(purpose=Purpose.AUDIT)
    assert {i: a.label for i, a in standing.items()} == {first: "down"}


def test_an_answer_is_not_replaced_by_another(audit: Page) -> None:
    first = ids_of(audit.folder)[0]
    seq = audit.answer(first, "down")["answer"]["seq"]
    one = {"id": first, "kind": "label", "label": "across", "expected_seq": seq}
    refused = audit.post("/api/answers", answers=[one])
    assert refused.status_code == 422
    assert audit.answer(first, "across", reviewer="bob")["conflict"]["label"] == "down"


def test_answers_kept_by_a_page_of_another_task_are_refused(audit: Page) -> None:
    first = ids_of(audit.folder)[0]
    one = {"id": first, "kind": "label", "label": "down", "expected_seq": 0}
    refused = audit.post("/api/answers", answers=[one], purpose="review")
    assert refused.status_code == 422
    assert {"review", "audit"} <= set(re.findall("[a-z]+", refused.json()["detail"]))
    assert audit.post("/api/undo", purpose="certify").status_code == 422
    assert audit.post("/api/answers", answers=[one], purpose="audit").status_code == 200


def test_answers_of_others_reveal_nothing(audit: Page) -> None:
    first, second, *_ = ids_of(audit.folder)
    audit.answer(first, "down")
    audit.answer(second, "down", reviewer="bob")
    assert not seen(audit, first)
    assert not seen(audit, second)


def test_while_certifying_the_label_is_never_shown(certify: Page) -> None:
    ids = ids_of(certify.folder)
    for item_id in ids:
        certify.answer(item_id, "down")
    assert not any(seen(certify, item_id) for item_id in ids)
    (hit,) = certify.get("/api/search", q=certify.get("/api/items", ids=ids[0])[0]["path"])
    assert set(hit) == {"id", "path", "answer"}
    state = certify.get("/api/state")
    assert (state["blind"], state["reveals"], state["can_train"]) == (True, False, False)


def test_certify_answers_can_be_changed(certify: Page) -> None:
    first, second, *_ = ids_of(certify.folder)
    seq = certify.answer(first, "down")["answer"]["seq"]
    certify.answer(second, None)
    assert "answer" in certify.answer(first, "across", expected_seq=seq)
    assert undo(certify) == 200
    standing = certify.folder.answers.standing(purpose=Purpose.CERTIFY)
    assert standing[first].label == "down"
    assert certify.folder.answers.standing() == {}


def test_an_image_that_was_not_asked_for_is_refused(audit: Page) -> None:
    other = str(audit.folder.catalog.ids[0])
    one = {"id": other, "kind": "label", "label": "down", "expected_seq": 0}
    response = audit.post("/api/answers", answers=[one])
    assert response.status_code == 422
    assert audit.folder.answers.standing(purpose=Purpose.AUDIT) == {}


def test_a_class_added_in_review_is_offered(folder: RunFolder) -> None:
    for item_id in Page(folder).ids()[:3]:
        folder.answers.add(item_id, "label", "zebra")
    surelabel.resume(folder.path)
    audit = Page(folder, Task(Purpose.AUDIT, ids_of(folder)))
    assert [each["name"] for each in audit.get("/api/state")["classes"]] == [
        "across",
        "down",
        "zebra",
    ]
