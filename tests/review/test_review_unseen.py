"""Answers given without seeing the run's label: what is shown when, and what can be changed."""

from __future__ import annotations

import pytest
from review_data import Page

import surelabel
from surelabel.review.queue import Task
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder

LABELS_OF_THE_RUN = {"label", "guesses", "reason", "gauges", "source"}


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
    return bool(LABELS_OF_THE_RUN & set(item))


def undo(page: Page, *answers: tuple[str, int]) -> int:
    listed = [{"id": item_id, "seq": seq} for item_id, seq in answers]
    return page.post("/api/undo", answers=listed).status_code


def test_the_last_answer_can_be_taken_back_and_is_not_shown_yet(audit: Page) -> None:
    first = ids_of(audit.folder)[0]
    seq = audit.answer(first, "down")["answer"]["seq"]
    assert not seen(audit, first)
    assert undo(audit, (first, seq)) == 200
    assert audit.answer(first, "across")["answer"]["label"] == "across"


def test_an_answer_stands_once_the_label_may_have_been_seen(audit: Page) -> None:
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
    assert "first answer stands" in refused.json()["detail"]
    assert audit.answer(first, "across", reviewer="bob")["conflict"]["label"] == "down"


def test_answers_that_another_page_kept_for_a_new_server_are_refused(audit: Page) -> None:
    first = ids_of(audit.folder)[0]
    one = {"id": first, "kind": "label", "label": "down", "expected_seq": 0}
    refused = audit.post("/api/answers", answers=[one], purpose="review")
    assert refused.status_code == 422
    assert "answers of another kind" in refused.json()["detail"]
    assert audit.post("/api/undo", purpose="certify").status_code == 422
    assert audit.post("/api/answers", answers=[one], purpose="audit").status_code == 200


def test_what_others_answer_shows_nobody_anything(audit: Page) -> None:
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
    (found,) = certify.get("/api/search", q=certify.get("/api/items", ids=ids[0])[0]["path"])
    assert set(found) == {"id", "path", "answer"}
    state = certify.get("/api/state")
    assert (state["blind"], state["reveals"], state["can_train"]) == (True, False, False)


def test_so_certify_answers_can_be_changed(certify: Page) -> None:
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
    assert "asks for other images" in response.json()["detail"]


def test_a_class_that_came_by_review_is_offered(folder: RunFolder) -> None:
    for item_id in Page(folder).ids()[:3]:
        folder.answers.add(item_id, "label", "zebra")
    surelabel.resume(folder.path)
    audit = Page(folder, Task(Purpose.AUDIT, ids_of(folder)))
    assert [each["name"] for each in audit.get("/api/state")["classes"]] == [
        "across",
        "down",
        "zebra",
    ]
