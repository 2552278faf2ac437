from __future__ import annotations

import contextlib
import signal
import threading
import time
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from review_data import Page, browser_of, reviewing, serving

from surelabel.runs.answers import AnswerStore
from surelabel.runs.folder import RunFolder


def test_an_answer_is_on_disk_when_it_is_acknowledged(page: Page) -> None:
    item_id = page.ids()[0]
    result = page.answer(item_id, "down")
    (row,) = AnswerStore(page.folder.path / "answers.sqlite").history(item_id)
    assert (row.label, row.reviewer, row.seq) == ("down", "ann", result["answer"]["seq"])


def test_a_run_that_is_moved_under_the_page_refuses_answers_until_it_is_back(page: Page) -> None:
    first, second = page.ids()[:2]
    page.answer(first, "down")
    path = page.folder.path
    aside = path.rename(path.with_name("aside"))
    one = {"id": second, "kind": "label", "label": "down", "expected_seq": 0}
    assert page.post("/api/answers", answers=[one]).status_code == 422
    for url in ("/api/state", "/api/counts", "/api/queue", "/api/gallery"):
        response = page.client.get(url)
        assert response.status_code == 422
        assert "is missing" in response.json()["detail"]
    assert not path.exists()
    aside.rename(path)
    page.answer(second, "down")
    assert set(page.folder.answers.standing()) == {first, second}


def test_a_second_reviewer_sees_a_conflict_and_may_decide(page: Page) -> None:
    item_id = page.ids()[0]
    page.answer(item_id, "down")
    clash = page.answer(item_id, "across", reviewer="bob")
    assert clash["conflict"]["label"] == "down"
    assert clash["conflict"]["reviewer"] == "ann"
    assert page.folder.answers.standing()[item_id].label == "down"
    page.answer(item_id, "across", reviewer="bob", expected_seq=clash["conflict"]["seq"])
    assert page.folder.answers.standing()[item_id].label == "across"
    assert [a.label for a in page.folder.answers.history(item_id)] == ["down", "across"]


def test_answers_sent_together_are_stored_independently(page: Page) -> None:
    first, second, third = page.ids()[:3]
    page.answer(second, "down", reviewer="bob")
    one = {"kind": "label", "label": "across", "expected_seq": 0}
    response = page.post("/api/answers", answers=[{"id": i, **one} for i in (first, second, third)])
    results = response.json()["results"]
    assert ["answer" in each for each in results] == [True, False, True]
    labels = {i: a.label for i, a in page.folder.answers.standing().items()}
    assert labels == {first: "across", second: "down", third: "across"}


def test_undo_goes_back_any_number_of_steps(page: Page) -> None:
    ids = page.ids()[:4]
    for item_id in ids:
        page.answer(item_id, "down")
    page.answer(ids[3], None, reviewer="bob", expected_seq=4)
    for item_id in reversed(ids[:3]):
        (result,) = page.post("/api/undo").json()["results"]
        assert result == {"id": item_id, "answer": None}
    assert page.post("/api/undo").json()["results"] == []
    assert set(page.folder.answers.standing()) == {ids[3]}


def test_undo_restores_the_previous_answer(page: Page) -> None:
    item_id = page.ids()[0]
    first = page.answer(item_id, "down")["answer"]["seq"]
    second = page.answer(item_id, "across", expected_seq=first)["answer"]["seq"]
    seen = [{"id": item_id, "seq": second}]
    (result,) = page.post("/api/undo", answers=seen).json()["results"]
    assert result["answer"]["label"] == "down"
    (again,) = page.post("/api/undo", answers=seen).json()["results"]
    assert again["conflict"]["seq"] == first


def test_a_new_class_must_be_confirmed(page: Page) -> None:
    item_id = page.ids()[0]
    one = {"id": item_id, "kind": "label", "label": "dwon", "expected_seq": 0}
    refused = page.post("/api/answers", answers=[one])
    assert refused.status_code == 422
    assert "dwon" in refused.json()["detail"]
    assert page.folder.answers.last_seq() == 0
    page.answer(item_id, "plain", new_class=True)
    assert [each["name"] for each in page.get("/api/counts")["classes"]][-1] == "plain"
    page.answer(page.ids()[1], "plain")


@pytest.mark.parametrize("label", ["", " down", "do\nwn", "x" * 201])
def test_a_class_needs_a_printable_name(page: Page, label: str) -> None:
    one = {"id": page.ids()[0], "kind": "label", "label": label, "expected_seq": 0}
    refused = page.post("/api/answers", answers=[{**one, "new_class": True}])
    assert refused.status_code == 422
    assert "name" in refused.json()["detail"]


@pytest.mark.parametrize("kind", ["unsure", "undo"])
def test_unsure_and_undo_are_refused_as_answers(page: Page, kind: str) -> None:
    one = {"id": page.ids()[0], "kind": kind, "expected_seq": 0}
    assert page.post("/api/answers", answers=[one]).status_code == 422


def test_an_image_that_is_not_in_the_run_is_refused(page: Page) -> None:
    one = {"id": "0" * 16, "kind": "none", "expected_seq": 0}
    refused = page.post("/api/answers", answers=[{**one}])
    assert "0" * 16 in refused.json()["detail"]


def test_reviewers_at_once_lose_nothing_and_overwrite_nothing(folder: RunFolder) -> None:
    with serving(folder) as server, contextlib.ExitStack() as stack:
        names = ("ann", "bob", "cleo")
        clients = {name: stack.enter_context(browser_of(server)) for name in names}
        ids = clients["ann"].get("/api/queue").json()["ids"]
        outcome: dict[str, list[Any]] = {name: [] for name in clients}

        def work(name: str, client: httpx.Client) -> None:
            for item_id in ids:
                one = {"id": item_id, "kind": "label", "label": name, "expected_seq": 0}
                body = {"reviewer": name, "client": name, "answers": [{**one, "new_class": True}]}
                outcome[name] += client.post("/api/answers", json=body).json()["results"]

        threads = [threading.Thread(target=work, args=pair) for pair in clients.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    standing = folder.answers.standing()
    assert set(standing) == set(ids)
    for item_id in ids:
        results = {
            name: next(r for r in rows if r["id"] == item_id) for name, rows in outcome.items()
        }
        (winner,) = [name for name, result in results.items() if "answer" in result]
        assert standing[item_id].reviewer == winner
        assert all(r["conflict"]["reviewer"] == winner for r in results.values() if "conflict" in r)


def test_killing_the_server_loses_nothing_acknowledged(folder: RunFolder, tmp_path: Path) -> None:
    with reviewing(folder.path, cwd=tmp_path) as review:
        client = review.client
        ids = client.get("/api/queue").json()["ids"]
        acknowledged: dict[str, int] = {}

        def answer_on() -> None:
            with contextlib.suppress(httpx.HTTPError):
                for item_id in ids:
                    one = {"id": item_id, "kind": "none", "expected_seq": 0}
                    body = {"reviewer": "ann", "client": "c1", "answers": [one]}
                    (result,) = client.post("/api/answers", json=body).json()["results"]
                    acknowledged[item_id] = result["answer"]["seq"]

        thread = threading.Thread(target=answer_on)
        thread.start()
        while thread.is_alive() and len(acknowledged) < 5:
            time.sleep(0.001)
        review.process.send_signal(signal.SIGKILL)
        thread.join()
    standing = AnswerStore(folder.path / "answers.sqlite").standing()
    assert len(acknowledged) >= 5
    for item_id, seq in acknowledged.items():
        assert standing[item_id].seq == seq


def test_both_spellings_of_a_name_are_one_class(page: Page) -> None:
    first, second = page.ids()[:2]
    page.answer(first, "caf\u00e9", new_class=True)
    page.answer(second, "cafe\u0301")
    labels = {answer.label for answer in page.folder.answers.standing().values()}
    assert labels == {"caf\u00e9"}
