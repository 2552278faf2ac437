"""The page in a real browser, driven by its keys."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from chromium import PATIENCE_MS, chromium, opened, ready, saved, shown
from playwright.sync_api import APIResponse, Browser, Page, Route, expect
from review_data import serving, write_colors
from workflow_data import id_of, tiny

from surelabel.review.queue import Order
from surelabel.review.server import ReviewServer
from surelabel.runs.answers import Answer
from surelabel.runs.folder import RunFolder
from surelabel.workflows.first_labels import begin_unlabeled


@pytest.fixture(name="browser", scope="module")
def fixture_browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(name="server")
def fixture_server(folder: RunFolder) -> Iterator[ReviewServer]:
    with serving(folder) as server:
        yield server


@pytest.fixture(name="page")
def fixture_page(browser: Browser, server: ReviewServer) -> Iterator[Page]:
    with opened(browser, server) as page:
        yield page


def answer_to(folder: RunFolder, path: str) -> Answer | None:
    return folder.answers.standing().get(id_of(folder, path))


def press(page: Page, key: str) -> str:
    """Press a key once the image is there; the path of the image it was pressed for."""
    before = ready(page)
    page.keyboard.press(key)
    return before


def test_a_class_key_labels_and_shows_the_next(page: Page, folder: RunFolder) -> None:
    first = press(page, "2")
    expect(page.locator("#path")).not_to_have_text(first)
    second = press(page, "1")
    expect(page.locator("#path")).not_to_have_text(second)
    saved(page)
    given = [answer_to(folder, path) for path in (first, second)]
    assert [a and (a.label, a.reviewer) for a in given] == [("down", "ann"), ("across", "ann")]
    expect(page.locator("#pace")).to_contain_text("2 of")


def test_space_accepts_the_guess(page: Page, folder: RunFolder) -> None:
    guess = page.locator(".guess b").first.inner_text()
    path = press(page, " ")
    expect(page.locator("#path")).not_to_have_text(path)
    saved(page)
    answer = answer_to(folder, path)
    assert answer is not None
    assert answer.label == guess


def test_a_class_whose_name_is_a_key_has_that_key(page: Page) -> None:
    def keys(names: list[str]) -> list[str]:
        assigned: list[str] = page.evaluate(
            "async (names) => (await import('/static/keys.js')).keysOfClasses(names)", names
        )
        return assigned

    assert keys([*"0123456789"]) == [*"0123456789"]
    assert keys(["cat", "2", "dog", "B", "b", "s"]) == ["1", "2", "3", "b", "4", "5"]
    many = keys([f"class {n}" for n in range(40)])
    assert many[:12] == [*"1234567890ab"]
    assert "" in many
    assert len({key for key in many if key}) == len([key for key in many if key])


def test_guesses_are_bars_and_the_reason_is_a_text(page: Page) -> None:
    shares = page.locator(".guess .share").all_inner_texts()
    assert len(shares) == 2
    assert 95 <= sum(int(share.removesuffix("%").removeprefix("< ")) for share in shares) <= 105
    widths = page.eval_on_selector_all(".guess .bar span", "s => s.map(e => e.offsetWidth)")
    assert widths[0] >= widths[1]
    assert page.locator("#reason").inner_text()
    page.locator("#more summary").click()
    expect(page.locator("#measures dt")).to_have_count(3)


def test_none_skip_and_undo(page: Page, folder: RunFolder) -> None:
    first = press(page, "x")
    expect(page.locator("#path")).not_to_have_text(first)
    second = press(page, "s")
    expect(page.locator("#path")).not_to_have_text(second)
    third = press(page, "1")
    expect(page.locator("#path")).not_to_have_text(third)
    saved(page)
    assert answer_to(folder, second) is None
    for path in (third, second, first):
        press(page, "u")
        expect(page.locator("#path")).to_have_text(path)
    saved(page)
    assert folder.answers.standing() == {}
    assert [a.kind for a in folder.answers.history(id_of(folder, first))] == ["none", "undo"]


def test_undo_reaches_back_before_the_page_was_opened(page: Page, folder: RunFolder) -> None:
    first = press(page, "1")
    expect(page.locator("#path")).not_to_have_text(first)
    saved(page)
    page.reload()
    expect(page.locator("#path")).not_to_have_text("")
    press(page, "u")
    expect(page.locator("#path")).to_have_text(first)
    saved(page)
    assert folder.answers.standing() == {}


def test_arrows_move_and_an_answer_can_be_changed(page: Page, folder: RunFolder) -> None:
    first = press(page, "1")
    expect(page.locator("#path")).not_to_have_text(first)
    second = shown(page)
    press(page, "ArrowLeft")
    expect(page.locator("#path")).to_have_text(first)
    expect(page.locator("#standing")).to_contain_text("across")
    press(page, "2")
    expect(page.locator("#path")).to_have_text(second)
    saved(page)
    answer = answer_to(folder, first)
    assert answer is not None
    assert answer.label == "down"
    assert page.locator("#conflict").is_hidden()


def test_a_class_is_typed_and_a_new_one_added(page: Page, folder: RunFolder) -> None:
    first = press(page, "t")
    page.keyboard.type("do")
    page.keyboard.press("Enter")
    expect(page.locator("#path")).not_to_have_text(first)
    second = press(page, "t")
    page.keyboard.type("<b>plain</b>")
    expect(page.locator("#type-list li").last).to_have_text("Add the class “<b>plain</b>”")
    page.keyboard.press("Enter")
    expect(page.locator("#path")).not_to_have_text(second)
    saved(page)
    given = [answer_to(folder, path) for path in (first, second)]
    assert [a and a.label for a in given] == ["down", "<b>plain</b>"]
    expect(page.locator(".class .name").last).to_have_text("<b>plain</b>")


def test_keys_work_again_before_the_closed_dialog_is_painted_away(page: Page) -> None:
    press(page, "t")
    page.keyboard.type("do")
    focus = page.evaluate(
        """() => {
            const input = document.getElementById("type-input");
            input.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter", bubbles: true}));
            return document.activeElement.tagName;
        }"""
    )
    assert focus == "BODY"


def test_search_finds_any_image_and_its_label_can_be_changed(page: Page, folder: RunFolder) -> None:
    press(page, "/")
    page.keyboard.type("ACROSS-00")
    expect(page.locator("#search-list li")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#path")).to_have_text("across-00.png")
    expect(page.locator("#standing")).to_contain_text("across")
    press(page, "2")
    expect(page.locator("#path")).not_to_have_text("across-00.png")
    saved(page)
    answer = answer_to(folder, "across-00.png")
    assert answer is not None
    assert answer.label == "down"


def test_help_lists_the_keys_and_keys_in_fields_do_not_label(page: Page, folder: RunFolder) -> None:
    path = press(page, "?")
    expect(page.locator("#help")).to_be_visible()
    listed = set(page.locator("#help-keys kbd").all_inner_texts())
    assert {"Space", "Enter", *"txsug/?"} <= listed
    assert "q" not in listed
    page.keyboard.press("1")
    page.keyboard.press("Escape")
    page.fill("#reviewer", "zoe 12")
    page.locator("#reviewer").press("2")
    assert shown(page) == path
    assert folder.answers.last_seq() == 0


def test_mouse_works_too(page: Page, folder: RunFolder) -> None:
    path = ready(page)
    page.locator(".class", has_text="down").click()
    expect(page.locator("#path")).not_to_have_text(path)
    saved(page)
    page.locator("#undo").click()
    expect(page.locator("#path")).to_have_text(path)


def test_every_order_begins_with_its_first_image(page: Page, server: ReviewServer) -> None:
    queue = server.session.queue
    total = page.locator("#pace").inner_text().split(" of ")[1]
    for order in (Order.REASON, Order.CLASS, Order.SIMILAR, Order.USEFUL):
        page.select_option("#order", str(order))
        (first,) = queue.describe(queue.ordered(order)[:1])
        expect(page.locator("#path")).to_have_text(first["path"])
        expect(page.locator("#pace")).to_have_text(f"0 of {total}")


class DelayedResponse:
    """Holds the server's response to the first request for ``pattern`` until it is released."""

    def __init__(self, page: Page, pattern: str) -> None:
        self._page = page
        self._pattern = pattern
        self._held: list[tuple[Route, APIResponse]] = []
        self._is_over = False
        page.route(pattern, self._hold)

    def _hold(self, route: Route) -> None:
        # The route is never removed: requests under way at that moment might hang.
        if self._is_over:
            route.continue_()
        else:
            self._is_over = True
            self._held.append((route, route.fetch()))

    def responded(self) -> APIResponse:
        """Wait until the server has responded; its response."""
        for _ in range(PATIENCE_MS // 10):
            if self._held:
                return self._held[0][1]
            self._page.wait_for_timeout(10)
        raise AssertionError(f"nothing asked for {self._pattern}")

    def release(self, json: object = None) -> None:
        """Give the page the response, or ``json`` in its place."""
        response = self.responded()
        with self._page.expect_response(self._pattern):
            self._held[0][0].fulfill(response=response, json=json or response.json())
        self._page.wait_for_timeout(300)


def test_an_order_that_comes_late_does_not_replace_the_one_chosen_since(
    page: Page, server: ReviewServer
) -> None:
    queue = server.session.queue
    by_class, similar = (queue.ordered(order)[:2] for order in (Order.CLASS, Order.SIMILAR))
    assert by_class != similar
    first, second = (each["path"] for each in queue.describe(similar))
    delayed = DelayedResponse(page, "**/api/queue?order=class")
    page.select_option("#order", str(Order.CLASS))
    delayed.responded()
    with page.expect_response("**/api/queue?order=similar"):
        page.select_option("#order", str(Order.SIMILAR))
    expect(page.locator("#path")).to_have_text(first)
    delayed.release()
    assert ready(page) == first
    page.keyboard.press("ArrowRight")
    expect(page.locator("#path")).to_have_text(second)


def test_a_class_keeps_its_key_and_the_focus_when_another_is_added(page: Page) -> None:
    for name in ("zebra", "ant"):
        path = press(page, "t")
        page.keyboard.type(name)
        page.keyboard.press("Enter")
        expect(page.locator("#path")).not_to_have_text(path)
    names = page.locator(".class .name")
    expect(names).to_have_text(["across", "down", "zebra", "ant"])
    path = ready(page)
    page.locator(".class", has_text="zebra").click()
    expect(page.locator("#path")).not_to_have_text(path)
    expect(page.locator(".class .count").nth(2)).to_have_text("2")
    expect(page.locator(".class").nth(2)).to_be_focused()
    expect(names).to_have_text(["across", "down", "zebra", "ant"])
    page.reload()
    expect(names).to_have_text(["across", "down", "zebra", "ant"])


def test_the_end_is_announced(page: Page, folder: RunFolder) -> None:
    total = int(page.locator("#pace").inner_text().split(" of ")[1])
    for number in range(total):
        path = press(page, "1")
        if number < total - 1:
            expect(page.locator("#path")).not_to_have_text(path)
    expect(page.locator("#finished")).to_be_visible()
    expect(page.locator("#finished-text")).to_contain_text(str(total))
    expect(page.locator("#finished-text")).to_contain_text(f"surelabel export {folder.path}")
    saved(page)
    assert len(folder.answers.standing()) == total


@pytest.mark.parametrize("place", [0, 1])
def test_a_grid_of_similar_images_is_labeled_at_once(
    page: Page, folder: RunFolder, place: int
) -> None:
    press(page, "g")
    tiles = page.locator(".tile")
    expect(tiles.first).to_be_focused()
    n = tiles.count()
    left = int(page.locator("#pace").inner_text().split(" of ")[1]) - n + 1
    tiles.nth(place).click()
    expect(tiles.nth(place)).to_have_attribute("aria-pressed", "false")
    deselected = tiles.nth(place).get_attribute("aria-label") or ""
    page.keyboard.press("2")
    expect(tiles).to_have_count(left)
    expect(tiles.first).to_have_attribute("aria-label", deselected)
    expect(tiles.first).to_have_attribute("aria-pressed", "true")
    saved(page)
    standing = folder.answers.standing()
    assert len(standing) == n - 1
    assert {answer.label for answer in standing.values()} == {"down"}
    page.keyboard.press("u")
    saved(page)
    assert folder.answers.standing() == {}


def test_a_key_does_not_answer_a_grid_again_while_the_next_one_comes(
    page: Page, folder: RunFolder
) -> None:
    press(page, "g")
    tiles = page.locator(".tile")
    expect(tiles.first).to_be_focused()
    n = tiles.count()
    left = int(page.locator("#pace").inner_text().split(" of ")[1]) - n
    delayed = DelayedResponse(page, "**/api/similar?*")
    page.keyboard.press("2")
    page.keyboard.press("1")
    saved(page)
    labels = [answer.label for answer in folder.answers.standing().values()]
    assert labels == ["down"] * n
    delayed.release()
    expect(tiles).to_have_count(left)
    page.keyboard.press("1")
    saved(page)
    labels = [answer.label for answer in folder.answers.standing().values()]
    assert (labels.count("down"), labels.count("across")) == (n, left)


def test_an_image_that_is_not_painted_is_never_answered(page: Page, folder: RunFolder) -> None:
    ready(page)
    blocked = page.locator("#path").inner_text()
    page.route("**/image/*side=256", lambda route: route.abort())
    page.keyboard.press("g")
    tiles = page.locator(".tile")
    expect(page.locator(".tile .lost").first).to_be_visible()
    expect(page.locator(".tile:disabled")).to_have_count(tiles.count())
    page.keyboard.press("1")
    expect(page.locator("#notice")).to_contain_text("Select some")
    page.keyboard.press("Enter")
    page.keyboard.press("g")
    expect(page.locator("#path")).to_have_text(blocked)
    assert folder.answers.standing() == {}
    page.route("**/image/*", lambda route: route.abort())
    for _ in range(12):  # past those that are loaded already
        page.keyboard.press("ArrowRight")
    page.wait_for_selector("#frame[data-state=lost]")
    page.keyboard.press("1")
    page.keyboard.press(" ")
    expect(page.locator("#notice")).to_contain_text("cannot be shown")
    assert folder.answers.standing() == {}


def test_fast_keys_find_the_next_images_painted(page: Page, folder: RunFolder) -> None:
    """The next eight images are there before they are asked about: no key has to be repeated."""
    ready(page)
    page.wait_for_function(
        "() => new Set(performance.getEntriesByType('resource').map((each) => each.name)"
        ".filter((name) => name.includes('/image/'))).size >= 9"
    )
    page.route("**/image/*", lambda route: route.abort())
    for _ in range(8):
        page.keyboard.press("1")
    expect(page.locator("#pace")).to_contain_text("8 of")
    saved(page)
    assert len(folder.answers.standing()) == 8


def test_labels_are_counted_also_while_somebody_answers_without_a_pause(page: Page) -> None:
    counted: list[str] = []
    page.on("request", lambda request: counted.append(request.url))
    for _ in range(10):
        ready(page)
        page.keyboard.press("1")
        page.wait_for_timeout(300)
    assert any("/api/counts" in url for url in counted)


def test_the_grid_offers_guesses_only_where_there_are_some(
    browser: Browser, tmp_path: Path
) -> None:
    write_colors(tmp_path / "photos", 6)
    folder = begin_unlabeled(tmp_path / "photos", tmp_path / "run", tiny(tmp_path / "cache"))
    with serving(folder) as server, opened(browser, server) as page:
        ready(page)
        page.keyboard.press("g")
        expect(page.locator(".tile").first).to_be_focused()
        expect(page.locator("#grid-accept")).to_be_hidden()


def test_what_was_deselected_in_a_grid_stays_so_when_a_round_ends(
    page: Page, server: ReviewServer
) -> None:
    press(page, "g")
    tiles = page.locator(".tile")
    expect(tiles.first).to_be_focused()
    tiles.nth(1).click()
    out = tiles.nth(1).get_attribute("aria-label")
    with page.expect_response("**/api/similar?*"):
        server.session.events.publish("queue")
    page.wait_for_timeout(300)
    names = page.locator(".tile[aria-pressed=false]").evaluate_all(
        "tiles => tiles.map((tile) => tile.ariaLabel)"
    )
    assert names == [out]


def test_a_reviewer_who_answers_while_a_round_ends_continues_there(
    page: Page, server: ReviewServer, folder: RunFolder
) -> None:
    total = page.locator("#pace").inner_text().split(" of ")[1]
    delayed = DelayedResponse(page, "**/api/queue?*")
    server.session.events.publish("queue")
    delayed.responded()
    first = press(page, "2")
    expect(page.locator("#path")).not_to_have_text(first)
    second = shown(page)
    saved(page)
    delayed.release()
    assert ready(page) == second
    expect(page.locator("#pace")).to_contain_text(f"1 of {total}")
    press(page, "1")
    expect(page.locator("#path")).not_to_have_text(second)
    saved(page)
    answers = [answer_to(folder, path) for path in (first, second)]
    assert [answer and answer.label for answer in answers] == ["down", "across"]


def test_a_class_typed_for_one_image_is_not_given_to_another(
    page: Page, server: ReviewServer, folder: RunFolder
) -> None:
    first = press(page, "t")
    delayed = DelayedResponse(page, "**/api/queue?*")
    server.session.events.publish("queue")
    queue = delayed.responded().json()
    queue["ids"].remove(id_of(folder, first))
    delayed.release(queue)
    expect(page.locator("#path")).not_to_have_text(first)
    page.keyboard.type("down")
    page.keyboard.press("Enter")
    expect(page.locator("#notice")).to_contain_text("nothing was labeled")
    assert folder.answers.standing() == {}


def test_a_class_added_while_classes_are_counted_stays(page: Page) -> None:
    delayed = DelayedResponse(page, "**/api/counts?*")
    press(page, "1")
    delayed.responded()
    press(page, "t")
    page.keyboard.type("zebra")
    page.keyboard.press("Enter")
    names = page.locator(".class .name")
    expect(names).to_have_text(["across", "down", "zebra"])
    delayed.release()
    assert names.all_inner_texts() == ["across", "down", "zebra"]


def test_the_page_loads_nothing_from_elsewhere(browser: Browser, server: ReviewServer) -> None:
    asked: list[str] = []
    with opened(browser, server) as page:
        page.on("request", lambda request: asked.append(request.url))
        page.reload()
        expect(page.locator("#path")).not_to_have_text("")
    assert len(asked) > 10
    assert [url for url in asked if not url.startswith(server.root)] == []
