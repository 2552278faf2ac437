"""Certification on the page: what is shown after each answer, and that nobody is asked too much."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from certify_data import N, finish_round, make_run, truth
from chromium import chromium, opened, ready
from playwright.sync_api import expect
from review_data import Page, serving

from surelabel.review.queue import Task
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder
from surelabel.types import Split
from surelabel.workflows.certify_labels import ids_to_certify

TRAIN = pd.DataFrame(
    [(i, truth(i), "train") for i in range(8)], columns=["index", "label", "split"]
)


@pytest.fixture(name="folder")
def fixture_folder(tmp_path: Path) -> RunFolder:
    folder = make_run(tmp_path, TRAIN, max_error="0.05", stop_below=N)
    finish_round(folder, wrong=tuple(range(200, N)), threshold=0.2)
    return folder


def task_of(folder: RunFolder) -> Task:
    return Task(Purpose.CERTIFY, tuple(ids_to_certify(folder, 100).tolist()))


def label_of(folder: RunFolder, item_id: str) -> str:
    path = str(folder.catalog.paths[folder.catalog.rows(np.array([item_id]))[0]])
    return truth(int(path.split(":")[1]))


def test_the_state_says_what_is_shown_until_the_look_is_over(folder: RunFolder) -> None:
    page = Page(folder, task_of(folder))
    ids = page.get("/api/queue")["ids"]
    n_answered = 0
    while not page.get("/api/counts")["certify"]["is_over"]:
        one = {"id": ids[n_answered], "kind": "label", "expected_seq": 0}
        answer = {**one, "label": label_of(folder, ids[n_answered])}
        body = {"reviewer": "ann", "client": "c1", "answers": [answer]}
        assert page.client.post("/api/answers", json=body).status_code == 200
        n_answered += 1
    assert 40 < n_answered < 65
    result = page.client.post("/api/result").json()
    assert result["is_final"]
    assert any("5.0 %" in sentence for sentence in result["sentences"])
    catalog = RunFolder.open(folder.path).catalog
    assert (catalog.splits == Split.CERTIFY).sum() == n_answered


def test_the_page_asks_no_further_once_the_look_is_over(folder: RunFolder) -> None:
    task = task_of(folder)
    assert task.ids is not None
    with chromium() as browser, serving(folder, task) as server, opened(browser, server) as page:
        ready(page)
        expect(page.locator("#certify")).to_contain_text("of 392 images")
        for item_id in task.ids[:-1]:
            folder.answers.add(item_id, "label", label_of(folder, item_id), purpose=Purpose.CERTIFY)
        page.keyboard.press("1")
        expect(page.locator("#finished-text")).to_contain_text("of 392 images")
        page.locator("#finished-result").click()
        expect(page.locator("#result")).to_contain_text("5.0 %")
