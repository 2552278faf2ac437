"""The report in a real browser: offline, silent, the same for everybody, on paper too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from chromium import chromium
from playwright.sync_api import Browser, Page

import report.report_data  # noqa: F401 (finds the modules below)
from surelabel.api import Run


@pytest.fixture(name="browser", scope="module")
def fixture_browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(name="page")
def fixture_page(browser: Browser, hostile: Run) -> Iterator[Page]:
    """The page, opened offline; any request or complaint of it fails the test."""
    address = f"file://{hostile.path}/report.html"
    problems: list[str] = []
    context = browser.new_context(viewport={"width": 1200, "height": 900}, offline=True)
    page = context.new_page()
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("dialog", lambda dialog: problems.append(dialog.message))
    page.on(
        "request",
        lambda r: None if r.url == address or r.url.startswith("data:") else problems.append(r.url),
    )
    page.goto(address)
    page.wait_for_load_state("load")
    yield page
    context.close()
    assert problems == []


def test_every_image_is_painted(page: Page) -> None:
    images = page.locator("img")
    assert images.count() > 20
    assert images.evaluate_all("all => all.filter(i => !i.complete || !i.naturalWidth).length") == 0
    assert page.title().startswith("run: report")
    assert page.locator("h1").evaluate("h => getComputedStyle(h).fontSize") == "33.6px"


@pytest.mark.parametrize("width", [1200, 390])
def test_nothing_is_wider_than_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_axe_finds_nothing(browser: Browser, hostile: Run) -> None:
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.goto(f"file://{hostile.path}/report.html")
    violations = Axe().run(page).response["violations"]
    context.close()
    assert [f"{each['id']}: {node['html']}" for each in violations for node in each["nodes"]] == []


def test_it_prints(page: Page, tmp_path: Path) -> None:
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert page.locator("#settings").is_visible()
    assert page.pdf(path=tmp_path / "report.pdf", format="A4").startswith(b"%PDF")
