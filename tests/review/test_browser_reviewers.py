"""Several reviewers, a lost connection, training in the background: in a real browser."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chromium import PATIENCE_MS, chromium, opened, ready, saved, shown
from playwright.sync_api import Browser, Route, expect
from review_data import serving, write_colors
from workflow_data import id_of, tiny

from surelabel.review.queue import Task
from surelabel.review.server import ReviewServer
from surelabel.runs.answers import Purpose
from surelabel.runs.folder import RunFolder
from surelabel.workflows.audit import audit_result, ids_to_check
from surelabel.workflows.certify_labels import ids_to_certify
from surelabel.workflows.first_labels import begin_unlabeled


@pytest.fixture(name="browser", scope="module")
def fixture_browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(name="server")
def fixture_server(folder: RunFolder) -> Iterator[ReviewServer]:
    with serving(folder) as server:
        yield server


def until(holds: Callable[[], bool]) -> None:
    """Wait for something on the server."""
    end = time.monotonic() + PATIENCE_MS / 1000
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def test_two_reviewers_are_given_different_images(browser: Browser, server: ReviewServer) -> None:
    with opened(browser, server, "ann") as ann:
        ready(ann)
        until(lambda: bool(server.session.viewing()))
        with opened(browser, server, "bob") as bob:
            expect(bob.locator("#path")).not_to_have_text("")
            assert shown(ann) != shown(bob)


def test_a_conflict_is_shown_and_decided(
    browser: Browser, server: ReviewServer, folder: RunFolder
) -> None:
    with opened(browser, server, "bob") as bob:
        path = ready(bob)
        item_id = id_of(folder, path)
        folder.answers.add(item_id, "label", "across", reviewer="ann")
        bob.keyboard.press("2")
        conflict = bob.locator("#conflict")
        expect(conflict).to_contain_text(re.compile("ann.*across.*down"))
        assert folder.answers.standing()[item_id].label == "across"
        conflict.get_by_role("button", name="Use down").click()
        expect(conflict).to_be_hidden()
        saved(bob)
        assert folder.answers.standing()[item_id].label == "down"
        assert [a.reviewer for a in folder.answers.history(item_id)] == ["ann", "bob"]


def test_the_other_answer_can_be_kept_and_agreement_is_no_conflict(
    browser: Browser, server: ReviewServer, folder: RunFolder
) -> None:
    with opened(browser, server, "bob") as bob:
        first = id_of(folder, ready(bob))
        folder.answers.add(first, "label", "across", reviewer="ann")
        bob.keyboard.press("2")
        bob.locator("#conflict").get_by_role("button", name="Keep across").click()
        expect(bob.locator("#conflict")).to_be_hidden()
        path = ready(bob)
        second = id_of(folder, path)
        folder.answers.add(second, "label", "down", reviewer="ann")
        bob.keyboard.press("2")
        expect(bob.locator("#path")).not_to_have_text(path)
        saved(bob)
        expect(bob.locator("#conflict")).to_be_hidden()
    assert folder.answers.standing()[first].reviewer == "ann"
    assert [a.reviewer for a in folder.answers.history(second)] == ["ann", "bob"]


def test_what_others_answer_is_not_asked_again(
    browser: Browser, server: ReviewServer, folder: RunFolder
) -> None:
    with opened(browser, server, "ann") as ann, opened(browser, server, "bob") as bob:
        path = ready(ann)
        ann.keyboard.press("1")
        expect(ann.locator("#path")).not_to_have_text(path)
        expect(bob.locator("#pace")).to_contain_text("1 of")


@pytest.mark.parametrize("status", [0, 403, 500])
def test_answers_wait_while_the_server_is_away_or_restarted(
    browser: Browser, server: ReviewServer, folder: RunFolder, status: int
) -> None:
    expected = f"status of {status}" if status else "net::ERR_FAILED"
    with opened(browser, server, expected=expected) as page:
        path = ready(page)
        away = True

        def answer(route: Route) -> None:
            if not away:
                route.continue_()
            elif status:
                route.fulfill(status=status)
            else:
                route.abort()

        page.route("**/api/answers", answer)
        page.keyboard.press("2")
        expect(page.locator("#offline")).to_be_visible()
        expect(page.locator("#offline")).to_contain_text("1 answer")
        assert folder.answers.last_seq() == 0
        away = False
        expect(page.locator("#offline")).to_be_hidden()
        saved(page)
        assert folder.answers.standing()[id_of(folder, path)].label == "down"


def test_training_runs_in_the_background_and_the_queue_shrinks(
    browser: Browser, server: ReviewServer, folder: RunFolder
) -> None:
    with opened(browser, server) as page:
        ready(page)
        page.keyboard.press("1")
        expect(page.locator("#pace")).to_contain_text("1 of")
        saved(page)
        total = len(server.session.queue.ids)
        page.click("#train")
        expect(page.locator("#training")).to_be_visible()
        ready(page)
        page.keyboard.press("2")
        expect(page.locator("#pace")).to_contain_text("2 of")
        saved(page)
        expect(page.locator("#training")).to_be_hidden(timeout=240_000)
        expect(page.locator("#notice")).not_to_be_empty()
        assert len(folder.finished_rounds()) == 2
        now = len(server.session.queue.ids)
        assert now < total
        expect(page.locator("#pace")).to_contain_text(f"of {now}")


def test_first_labels_are_given_on_images_without_any(browser: Browser, tmp_path: Path) -> None:
    truth = write_colors(tmp_path / "photos", 6)
    folder = begin_unlabeled(tmp_path / "photos", tmp_path / "run", tiny(tmp_path / "cache"))
    with serving(folder) as server, opened(browser, server) as page:
        for number in range(6):
            color = truth[ready(page)]
            names = page.locator(".class .name").all_inner_texts()
            if color in names:
                page.keyboard.press(str(names.index(color) + 1))
            else:
                page.keyboard.press("t")
                page.keyboard.type(color)
                page.keyboard.press("Enter")
            expect(page.locator("#pace")).to_contain_text(f"{number + 1} of 12")
        saved(page)
    first = folder.answers.standing(purpose=Purpose.FIRST)
    assert {i: a.label for i, a in first.items()} == {
        id_of(folder, path): truth[path] for path in truth if id_of(folder, path) in first
    }
    assert len(first) == 6
    assert folder.answers.standing() == {}


def test_a_blind_check_hides_the_label_and_offers_unsure(
    browser: Browser, folder: RunFolder
) -> None:
    ids = tuple(folder.catalog.ids[[30, 12, 25]].tolist())
    task = Task(Purpose.BLIND, ids)
    with serving(folder, task) as server, opened(browser, server) as page:
        expect(page.locator("#reason")).to_contain_text("hidden")
        expect(page.locator(".guess")).to_have_count(0)
        expect(page.locator("#accept")).to_be_hidden()
        page.keyboard.press("?")
        listed = set(page.locator("#help-keys kbd").all_inner_texts())
        assert {*"qtxsu?"} <= listed
        assert not {*"g/"} & listed
        page.keyboard.press("Escape")
        order = []
        for key in ("1", "q", "2"):
            order.append(id_of(folder, ready(page)))
            page.keyboard.press(key)
            expect(page.locator("#pace")).to_contain_text(f"{len(order)} of 3")
        saved(page)
        assert tuple(order) == ids
    audit = folder.answers.standing(purpose=Purpose.BLIND)
    assert [str(audit[i].kind) for i in ids] == ["label", "unsure", "label"]
    assert folder.answers.standing() == {}


def test_a_blind_answer_stands_once_the_label_of_the_run_is_shown(
    browser: Browser, folder: RunFolder
) -> None:
    ids = tuple(folder.catalog.ids[[30, 12, 25]].tolist())
    with serving(folder, Task(Purpose.AUDIT, ids)) as server, opened(browser, server) as page:
        first = ready(page)
        page.keyboard.press("1")
        expect(page.locator("#path")).not_to_have_text(first)
        saved(page)
        page.keyboard.press("u")
        expect(page.locator("#path")).to_have_text(first)
        ready(page)
        page.keyboard.press("2")
        expect(page.locator("#path")).not_to_have_text(first)
        second = ready(page)
        page.keyboard.press("1")
        expect(page.locator("#path")).not_to_have_text(second)
        saved(page)
        for _ in range(2):
            ready(page)
            page.keyboard.press("ArrowLeft")
        expect(page.locator("#path")).to_have_text(first)
        expect(page.locator("#standing")).to_contain_text(re.compile(r"down.* run.*(across|down)"))
        expect(page.locator(".guess")).to_have_count(2)
        ready(page)
        page.keyboard.press("1")
        expect(page.locator("#notice")).to_contain_text("first answer")
    standing = folder.answers.standing(purpose=Purpose.AUDIT)
    assert [standing[i].label for i in ids[:2]] == ["down", "across"]
    assert len(folder.answers.history(ids[0], Purpose.AUDIT)) == 3


def test_certify_labels_are_given_blind(browser: Browser, folder: RunFolder) -> None:
    ids = tuple(ids_to_certify(folder, 3).tolist())
    with serving(folder, Task(Purpose.CERTIFY, ids)) as server, opened(browser, server) as page:
        expect(page.locator("#run")).to_contain_text(": random check")
        for number, key in enumerate(("1", "q", "x"), 1):
            expect(page.locator("#reason")).to_contain_text("hidden")
            assert id_of(folder, ready(page)) == ids[number - 1]
            page.keyboard.press(key)
            expect(page.locator("#pace")).to_contain_text(f"{number} of 3")
        saved(page)
        expect(page.locator("#finished-result")).to_be_visible()
        page.keyboard.press("u")
        expect(page.locator("#pace")).to_contain_text("2 of 3")
        expect(page.locator(".guess")).to_have_count(0)
        ready(page)
        page.keyboard.press("2")
        expect(page.locator("#pace")).to_contain_text("3 of 3")
        saved(page)
    answers = folder.answers.standing(purpose=Purpose.CERTIFY)
    assert [str(answers[i].kind) for i in ids] == ["label", "unsure", "label"]
    assert folder.answers.standing() == {}


def test_the_result_of_a_certification_is_shown_on_the_page(
    browser: Browser, folder: RunFolder
) -> None:
    ids = tuple(ids_to_certify(folder, 3).tolist())
    with serving(folder, Task(Purpose.CERTIFY, ids)) as server, opened(browser, server) as page:
        for number in range(1, 4):
            ready(page)
            page.keyboard.press("1")
            expect(page.locator("#pace")).to_contain_text(f"{number} of 3")
        saved(page)
        assert not folder.read_certifications()
        page.click("#finished-result")
        expect(page.locator("#result")).to_contain_text("certify labels")
        assert len(folder.read_certifications()) == 1
        page.reload()
        expect(page.locator("#result")).to_contain_text("certify labels")
        expect(page.locator("#finished-result")).to_be_hidden()


def test_the_result_of_an_audit_is_shown_on_the_page(browser: Browser, folder: RunFolder) -> None:
    task = Task(Purpose.AUDIT, tuple(ids_to_check(folder, 2).tolist()))
    with serving(folder, task) as server, opened(browser, server) as page:
        for number in (1, 2):
            ready(page)
            page.keyboard.press("1")
            expect(page.locator("#pace")).to_contain_text(f"{number} of 2")
        saved(page)
        bound = audit_result(folder).all
        expect(page.locator("#result")).to_contain_text(f"{bound.n_accepted} accepted")
        expect(page.locator("#result")).to_contain_text(f"2 checked, {bound.n_wrong} wrong")
