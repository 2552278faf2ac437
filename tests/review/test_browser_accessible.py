"""Accessibility: axe-core finds no fault, in light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium import chromium, opened, shown
from playwright.sync_api import Browser, Page, expect
from review_data import serving
from workflow_data import id_of

from surelabel.review.server import ReviewServer
from surelabel.runs.folder import RunFolder

WIDE, PHONE, ZOOMED = (1280, 800), (390, 844), (640, 400)


@pytest.fixture(name="browser", scope="module")
def fixture_browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(name="server")
def fixture_server(folder: RunFolder) -> Iterator[ReviewServer]:
    with serving(folder) as server:
        yield server


def violations(page: Page, inside: str = "body") -> list[str]:
    """What axe-core finds. While a dialog is open everything else is inert, so look ``inside``."""
    violated = Axe().run(page, inside).response["violations"]
    return [f"{each['id']}: {node['html']}" for each in violated for node in each["nodes"]]


def settle(page: Page) -> None:
    page.wait_for_selector("#frame[data-state=ready]")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE, ZOOMED])
def test_axe_finds_nothing_in_any_state(
    browser: Browser, server: ReviewServer, folder: RunFolder, scheme: str, size: tuple[int, int]
) -> None:
    viewport = {"width": size[0], "height": size[1]}
    with opened(
        browser, server, color_scheme=scheme, viewport=viewport, reduced_motion="reduce"
    ) as page:
        settle(page)
        page.locator("#more summary").click()
        assert violations(page) == []
        folder.answers.add(id_of(folder, shown(page)), "label", "across", reviewer="zoe")
        page.keyboard.press("2")
        expect(page.locator("#conflict")).to_be_visible()
        page.keyboard.press("ArrowLeft")
        assert violations(page) == []
        for key, dialog in (("?", "#help"), ("t", "#type"), ("/", "#search")):
            page.keyboard.press(key)
            expect(page.locator(dialog)).to_be_visible()
            assert violations(page, dialog) == []
            page.keyboard.press("Escape")
            expect(page.locator(dialog)).to_be_hidden()
        page.keyboard.press("g")
        expect(page.locator(".tile").first).to_be_visible()
        assert violations(page) == []


@pytest.mark.parametrize("size", [PHONE, ZOOMED, (320, 640)])
def test_nothing_has_to_be_scrolled_sideways(
    browser: Browser, server: ReviewServer, size: tuple[int, int]
) -> None:
    with opened(browser, server, viewport={"width": size[0], "height": size[1]}) as page:
        settle(page)
        page.click("#menu")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]


def test_on_a_phone_everything_is_large_enough_for_a_thumb(
    browser: Browser, server: ReviewServer
) -> None:
    with opened(
        browser, server, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True
    ) as page:
        settle(page)
        for selector in (".class", ".actions button:visible", ".guess"):
            for button in page.locator(selector).all():
                box = button.bounding_box()
                assert box is not None
                assert min(box["width"], box["height"]) >= 44, selector
        path = shown(page)
        page.locator(".class").first.tap()
        expect(page.locator("#path")).not_to_have_text(path)


def test_tab_walks_through_the_page_in_reading_order(
    browser: Browser, server: ReviewServer
) -> None:
    with opened(browser, server) as page:
        settle(page)
        page.evaluate("document.activeElement.blur()")
        order = []
        for _ in range(22):
            page.keyboard.press("Tab")
            order.append(
                page.evaluate("document.activeElement.id || document.activeElement.className")
            )
        wanted = ["skip-link", "order", "open-help", "previous", "next"]
        wanted += ["guess", "accept", "undo", "class"]
        places = [order.index(name) for name in wanted]
        assert places == sorted(places), order


def test_motion_is_off_when_the_system_asks_for_it(browser: Browser, server: ReviewServer) -> None:
    with opened(browser, server, reduced_motion="reduce") as page:
        durations = page.evaluate(
            "[...document.querySelectorAll('*')].map(e => getComputedStyle(e).transitionDuration)"
        )
        assert set(durations) == {"0s"}
